/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What "probe" and "blkid" share: options that set up a prober, and the words for what went wrong. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cmd-probe.h"
#include "cli/confine.h"
#include "cli/output.h"
#include "cli/size.h"

int blkup_cli_probe_parse_size(const struct blkup_cli_command *self, const char *what, const char *value,
                               uint64_t *ret)
{
        int r = blkup_cli_parse_size(value, ret);

        if (r == 0)
                return 0;
        return blkup_cli_usage_error(self, "%s: '%s' is no size in bytes%s", what, value,
                                     r == -ERANGE ? ": does not fit into 64 bits"
                                                  : "; as 1024, 4K, 1MiB, 10MB");
}

/* "no" before a list, as blkid has it: what is listed is left out. It may stand before the others too. */
static bool take_no(const char **list)
{
        if (strncmp(*list, "no", 2) != 0)
                return false;
        *list += 2;
        return true;
}

static enum blkup_usage usage_of_word(const char *word, size_t len)
{
        for (unsigned bit = BLKUP_USAGE_FILESYSTEM; bit <= BLKUP_USAGE_OTHER; bit <<= 1) {
                const char *name = blkup_usage_name((enum blkup_usage) bit);

                if (name && strlen(name) == len && strncmp(name, word, len) == 0)
                        return (enum blkup_usage) bit;
        }
        return (enum blkup_usage) 0;
}

int blkup_cli_probe_set_usages(const struct blkup_cli_command *self, struct blkup_probe *p, const char *list)
{
        bool invert = take_no(&list);
        unsigned usages = 0;

        /* Ends: each turn goes past one word of the list. */
        for (;;) {
                size_t len = strcspn(list, ",");
                enum blkup_usage usage = usage_of_word(list, len);

                if (!usage)
                        return blkup_cli_usage_error(
                                self, "-u: unknown usage '%.*s'; known: filesystem raid crypto other",
                                (int) (len > 200 ? 200 : len), list);
                usages |= usage;
                if (!list[len])
                        break;
                list += len + 1;
        }
        /* All that is not listed, with bits that no format has: so that "none is left" is not taken for "no
         * filter". */
        blkup_probe_set_usages(p, invert ? ~usages : usages);
        return 0;
}

int blkup_cli_probe_set_types(const struct blkup_cli_command *self, struct blkup_probe *p, const char *list)
{
        struct blkup_error err = { 0 };
        bool invert = take_no(&list);
        BLKUP_CLEANUP_FREE char *plain = malloc(strlen(list) + 1);
        size_t n = 0;
        int r;

        if (!plain) {
                blkup_cli_error(self->name, "out of memory");
                return BLKUP_CLI_PROBE_EXIT_OTHER;
        }
        /* Ends: each turn goes past one name of the list. */
        while (*list) {
                size_t len;

                if (invert && n > 0)
                        (void) take_no(&list);
                len = strcspn(list, ",");
                if (len > 0) {
                        if (n > 0)
                                plain[n++] = ',';
                        memcpy(plain + n, list, len);
                        n += len;
                }
                list += len;
                list += *list == ',';
        }
        plain[n] = '\0';
        if (n == 0)
                return blkup_cli_usage_error(self, "-n: the list is empty");
        r = blkup_probe_set_types(p, plain, invert, &err);
        if (r < 0)
                return blkup_cli_usage_error(self, "-n: %s",
                                             *err.message ? err.message : blkup_error_text(-r));
        return 0;
}

/* What a device holds is a stranger's. Whoever may only read loses nothing when it is misread; root might. */
bool blkup_cli_probe_start_cage(const char *command, struct blkup_probe *p, bool writes_files)
{
        static atomic_flag told = ATOMIC_FLAG_INIT;
        int r;

        if (geteuid() != 0)
                return false;
        r = blkup_probe_set_cage(p, true);
        /* Several probers, one word. */
        if (r < 0 && !atomic_flag_test_and_set(&told))
                blkup_cli_error(command, "no cage for the parser (%s): this process looks itself",
                                blkup_error_text(-r));
        blkup_cli_confine(writes_files);
        return r == 0;
}

/* Names that blkid would drop from its list: they end nothing, the next device is still looked at. */
static bool is_dropped(int error)
{
        return error == -ENOENT || error == -ENOTDIR || error == -ELOOP || error == -ENAMETOOLONG ||
               error == -ENOTBLK || error == -EISDIR;
}

/* The device cannot be opened, by this user or without a medium, or is not as large as the area: blkid's 2.
 * With all other errors (no descriptor or memory left, a read error, a server that is gone) it may be there
 * and hold anything, so they are no 2, which some take for "empty". */
static bool is_refused(int error)
{
        return error == -EACCES || error == -EPERM || error == -ENXIO || error == -ENODEV ||
               error == -ENOMEDIUM || error == -ERANGE;
}

/* The message without the device that it may begin with, which is printed anyway. */
static const char *message_of(const struct blkup_error *err, int error, const char *device)
{
        struct blkup_error named = { 0 };
        size_t n;

        /* As messages have it: cut, and without control characters. */
        (void) blkup_fail(&named, error, "%s", device);
        n = strlen(named.message);
        if (!*err->message || strcmp(err->message, named.message) == 0)
                return blkup_error_text(-error);
        if (strncmp(err->message, named.message, n) == 0 && strncmp(err->message + n, ": ", 2) == 0)
                return err->message + n + 2;
        return err->message;
}

void blkup_cli_probe_say_failure(const char *device, int error, const struct blkup_error *err,
                                 struct blkup_cli_probe_said *ret)
{
        *ret = (struct blkup_cli_probe_said){ .text = "", .is_dropped = is_dropped(error) };
        ret->is_denied = error == -EACCES || error == -EPERM;
        (void) snprintf(ret->text_copy, sizeof(ret->text_copy), "%s", message_of(err, error, device));
        ret->text = ret->text_copy;
        (void) snprintf(ret->line, sizeof(ret->line), "%s: %s%s", device, ret->text,
                        blkup_cli_try_as_root(error));
        if (!ret->is_dropped)
                ret->code = is_refused(error) ? BLKUP_CLI_PROBE_EXIT_NOTHING : BLKUP_CLI_PROBE_EXIT_OTHER;
}

void blkup_cli_probe_say_verdict(const char *device, const struct blkup_probe *p, enum blkup_verdict verdict,
                                 bool is_told, struct blkup_cli_probe_said *ret)
{
        *ret = (struct blkup_cli_probe_said){ .text = blkup_probe_trouble(p) };
        if (verdict == BLKUP_VERDICT_UNKNOWN && !*ret->text)
                ret->text = "not all could be read";
        switch (verdict) {
        case BLKUP_VERDICT_FOUND:
                ret->code = BLKUP_CLI_PROBE_EXIT_FOUND;
                if (*ret->text)
                        (void) snprintf(ret->line, sizeof(ret->line), "%s: warning: %s", device, ret->text);
                break;
        case BLKUP_VERDICT_NOTHING:
                ret->code = BLKUP_CLI_PROBE_EXIT_NOTHING;
                break;
        case BLKUP_VERDICT_AMBIVALENT:
                ret->code = BLKUP_CLI_PROBE_EXIT_AMBIVALENT;
                if (!is_told)
                        (void) snprintf(ret->line, sizeof(ret->line),
                                        "%s: ambivalent result (probably more filesystems on the device, "
                                        "use wipefs(8) to see more details)",
                                        device);
                break;
        case BLKUP_VERDICT_UNKNOWN:
                ret->code = BLKUP_CLI_PROBE_EXIT_OTHER;
                (void) snprintf(ret->line, sizeof(ret->line),
                                "%s: %s: nothing can be said; try again, and see dmesg(1)", device,
                                ret->text);
                break;
        }
}
