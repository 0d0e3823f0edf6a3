/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines of the fstab for swap: the kernel is told to use what carries a swap area, and nothing else. A swap
 * area is never made here, nor its signature mended: swapon(8) writes a new one over a hibernation image,
 * which would be lost with it.
 *
 * Sources: swapon(2); fstab(5) and swapon(8) for pri= and discard; the flags are those of the kernel's
 * include/linux/swap.h, which not every C library's header has.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "bringup/cold.h"
#include "host/mountinfo.h"

#define FLAG_PRIORITY      0x8000
#define MAX_PRIORITY       0x7fff
#define FLAG_DISCARD       0x10000
#define FLAG_DISCARD_ONCE  0x20000
#define FLAG_DISCARD_PAGES 0x40000

/* ---- options ---- */

static int take_priority(const char *text, size_t n, int *flags)
{
        char number[16], *end;
        long value;

        if (n == 0 || n >= sizeof(number))
                return -EINVAL;
        memcpy(number, text, n);
        number[n] = '\0';
        value = strtol(number, &end, 10);
        if (*end || value < -1 || value > MAX_PRIORITY)
                return -EINVAL;
        /* -1: the kernel's own, which falls with each area. */
        *flags &= ~(FLAG_PRIORITY | MAX_PRIORITY);
        if (value >= 0)
                *flags |= FLAG_PRIORITY | (int) value;
        return 0;
}

/* Other words are for other programs: sw, nofail, x-systemd.*. */
static int parse_options(const char *options, int *ret_flags, const char **ret_bad, size_t *ret_len)
{
        int flags = 0;

        /* Ends: each turn goes behind an option. */
        for (const char *at = options; *at;) {
                size_t n = strcspn(at, ",");

                *ret_bad = at;
                *ret_len = n;
                if (n > 4 && strncmp(at, "pri=", 4) == 0) {
                        if (take_priority(at + 4, n - 4, &flags) < 0)
                                return -EINVAL;
                } else if (n == 7 && strncmp(at, "discard", n) == 0) {
                        flags |= FLAG_DISCARD;
                } else if (n == 12 && strncmp(at, "discard=once", n) == 0) {
                        flags |= FLAG_DISCARD | FLAG_DISCARD_ONCE;
                } else if (n == 13 && strncmp(at, "discard=pages", n) == 0) {
                        flags |= FLAG_DISCARD | FLAG_DISCARD_PAGES;
                } else if ((n >= 8 && strncmp(at, "discard=", 8) == 0) ||
                           (n == 4 && strncmp(at, "pri=", 4) == 0)) {
                        return -EINVAL;
                }
                at += n + (at[n] == ',');
        }
        *ret_flags = flags;
        return 0;
}

/* ---- what is in use, and what is there ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
        if (S_ISBLK(a->st_mode) || S_ISBLK(b->st_mode))
                return S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* /proc/swaps calls a device as whoever called swapon did. */
bool blkup_cold_is_swapped_on(const struct blkup_coldplug *c, const char *path)
{
        struct blkup_swaps *t = NULL;
        struct stat own, st;
        bool has_own = !c->root && stat(path, &own) == 0, is = false;

        if (blkup_swaps_load(c->root, &t, NULL) < 0)
                return false;
        for (size_t i = 0; i < t->n && !is; i++)
                is = strcmp(t->swaps[i].path, path) == 0 ||
                     (has_own && stat(t->swaps[i].path, &st) == 0 && is_same_file(&own, &st));
        blkup_swaps_free(t);
        return is;
}

/* What is in a file, which the probes of devices have not looked at: it may lie on what was just mounted. */
static int look_into_file(struct blkup_coldplug *c, const char *path, char *type, size_t cap, char *why,
                          size_t why_cap)
{
        enum blkup_verdict verdict = BLKUP_VERDICT_UNKNOWN;
        struct blkup_error err = { 0 };
        struct blkup_cold_prober *e;
        const char *is;
        struct stat st;
        int r;

        *type = '\0';
        if (stat(path, &st) < 0) {
                r = -errno;
                (void) snprintf(why, why_cap, "%s: %s", path, blkup_error_text(-r));
                return r;
        }
        if (!S_ISREG(st.st_mode)) {
                (void) snprintf(why, why_cap,
                                "%s: neither a file nor one of the devices that are looked at", path);
                return -ENODEV;
        }
        r = blkup_cold_take_prober(c, &e);
        if (r < 0)
                return r;
        r = blkup_probe_path(e->p, path, NULL, &verdict, &err);
        is = r == 0 ? blkup_probe_lookup(e->p, "TYPE") : NULL;
        if (is)
                (void) snprintf(type, cap, "%s", is);
        if (r < 0) {
                (void) snprintf(why, why_cap, "%s", err.message);
        } else if (verdict == BLKUP_VERDICT_UNKNOWN) {
                /* Not the same as nothing: it could not be seen. */
                r = blkup_probe_try_again(e->p) ? -EAGAIN : -EIO;
                (void) snprintf(why, why_cap, "%s: %s", path, blkup_probe_trouble(e->p));
        } else if (verdict == BLKUP_VERDICT_AMBIVALENT) {
                r = -EUCLEAN;
                (void) snprintf(why, why_cap, "%s: %s", path,
                                blkup_coldplug_bar_name(BLKUP_COLDPLUG_TWO_TYPES));
        }
        blkup_cold_give_prober(c, e);
        blkup_cold_free_probers_if_last(c);
        return r;
}

/* ---- the call ---- */

/* Why the kernel did not take it: it has one errno for many causes. */
static void explain(const char *path, int error, char *why, size_t cap)
{
        const char *reason = blkup_error_text(-error);
        struct stat st;

        if (error == -EINVAL && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_blocks < st.st_size / 512)
                reason = "it has holes, which a swap file cannot have: make it anew with dd, then mkswap";
        else if (error == -EINVAL)
                reason = "the kernel does not take it: it was made for pages of another size than this "
                         "machine's, or no swap file can be where it lies; its log says more";
        else if (error == -EPERM)
                reason = "not permitted: it takes root, and the kernel has room for some thirty areas";
        else if (error == -EBUSY)
                reason = "it is in use: mounted, a part of another device, or being swapped on just now";
        else if (error == -ENOSYS)
                reason = "this kernel has no swap";
        (void) snprintf(why, cap, "%s: %s", path, reason);
}

int blkup_cold_machine_swap(void *to, const char *path, int flags)
{
        (void) to;
        return swapon(path, flags) < 0 ? -errno : 0;
}

/* What others may read of it is what programs had in memory. */
static void note_mode(const char *path, struct blkup_coldplug_step *step)
{
        struct stat st;

        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077))
                blkup_cold_say(step, "its mode is %04o: others may read what is swapped; chmod 600 %s",
                               (unsigned) st.st_mode & 07777u, path);
}

static int answer(struct blkup_coldplug_step *step, enum blkup_coldplug_state state, int error)
{
        step->state = state;
        return error;
}

int blkup_cold_swap_on(struct blkup_coldplug *c, const char *path, const struct blkup_cold_device *d,
                       const char *options, struct blkup_coldplug_step *step)
{
        char type[32] = "", why[PATH_MAX + 256] = "";
        const char *bad;
        size_t bad_len;
        int flags = 0, r = 0;

        if (parse_options(options, &flags, &bad, &bad_len) < 0) {
                blkup_cold_say(step, "%.*s: pri= is a number from -1 to %d, discard= is once or pages",
                               (int) bad_len, bad, MAX_PRIORITY);
                return answer(step, BLKUP_COLDPLUG_FAILED, -EINVAL);
        }
        if (d)
                (void) snprintf(type, sizeof(type), "%s", d->d.type ? d->d.type : "");
        else
                r = look_into_file(c, path, type, sizeof(type), why, sizeof(why));
        if (r < 0) {
                blkup_cold_say(step, "%s", *why ? why : blkup_error_text(-r));
                return answer(step, BLKUP_COLDPLUG_FAILED, r);
        }
        if (strcmp(type, "swsuspend") == 0) {
                blkup_cold_say(step,
                               "%s: it holds a hibernation image: resume it, or make a new area with mkswap",
                               path);
                return answer(step, BLKUP_COLDPLUG_REFUSED, -EPERM);
        }
        if (strcmp(type, "swap") != 0) {
                if (*type)
                        blkup_cold_say(step, "%s: no swap area: %s is on it", path, type);
                else
                        blkup_cold_say(step, "%s: no swap area: nothing known is on it", path);
                return answer(step, BLKUP_COLDPLUG_REFUSED, -EMEDIUMTYPE);
        }
        if (c->s.dry_run)
                return answer(step, BLKUP_COLDPLUG_WOULD, 0);
        r = c->ops.swap(c->ops.to, path, flags);
        /* Another line, or another program, was faster. */
        if (r == -EBUSY && blkup_cold_is_swapped_on(c, path))
                return answer(step, BLKUP_COLDPLUG_ALREADY, 0);
        if (r < 0) {
                explain(path, r, why, sizeof(why));
                blkup_cold_say(step, "%s", why);
                return answer(step, BLKUP_COLDPLUG_FAILED, r);
        }
        note_mode(path, step);
        return answer(step, BLKUP_COLDPLUG_DONE, 0);
}
