/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "bringup/explain-internal.h"
#include "host/hostfile.h"
#include "mount/options.h"

void blkup_say(struct blkup_saying *s, const char *fmt, ...)
{
        va_list ap;
        int n;

        if (s->len + 1 >= s->cap)
                return;
        va_start(ap, fmt);
        n = vsnprintf(s->text + s->len, s->cap - s->len, fmt, ap);
        va_end(ap);
        if (n > 0)
                s->len = s->len + (size_t) n < s->cap ? s->len + (size_t) n : s->cap - 1;
}

struct blkup_explainer *blkup_explainer_new(const char *root)
{
        struct blkup_explainer *e = calloc(1, sizeof(*e));

        if (e)
                e->root = root;
        return e;
}

void blkup_explainer_need_probe(struct blkup_explainer *e)
{
        if (e->probe)
                return;
        e->probe = blkup_probe_new();
        /* Without a cage (no seccomp) the device is looked at here. */
        if (e->probe && blkup_probe_set_cage(e->probe, true) < 0)
                return;
}

struct blkup_explainer *blkup_explainer_unref(struct blkup_explainer *e)
{
        if (!e)
                return NULL;
        blkup_probe_unref(e->probe);
        blkup_mountinfo_free(e->mounts);
        blkup_sysblocks_free(e->blocks);
        free(e);
        return NULL;
}

/* The last line of a text of several. */
static const char *last_line(const char *text)
{
        const char *nl = strrchr(text, '\n');

        return nl ? nl + 1 : text;
}

/* "e ext4: Unknown parameter 'x'" without its mark */
static const char *without_mark(const char *line)
{
        return line[0] && line[1] == ' ' ? line + 2 : line;
}

/* "EXT4-fs (loop0): text", behind a line that begins with the same: the text alone. */
static size_t same_start(const char *a, const char *b)
{
        size_t n = 0, end = 0;

        /* Ends: at the end of either. */
        for (; a[n] && a[n] != '\n' && a[n] == b[n]; n++)
                if (a[n] == ':' && a[n + 1] == ' ')
                        end = n + 2;
        return end <= n ? end : 0;
}

/* The last two lines of the kernel's log: the last one often tells only that the mount failed. Do they name
 * the device? Then they are of this mount; else perhaps of another. */
static void say_kernel_line(const struct blkup_mount_result *r, struct blkup_saying *s)
{
        const char *slash = strrchr(r->device, '/');
        const char *text = *r->kernel ? r->kernel : r->log, *line = last_line(text), *before = line;
        bool is_named = text == r->log || (slash && strstr(line, slash + 1));

        /* Ends: at the start of the text. */
        while (before > text && (before == line || before[-1] != '\n'))
                before--;
        if (*line)
                blkup_say(s,
                          "; the kernel says%s: ", is_named || !r->kernel_is_shared ? "" : ", perhaps of it");
        if (text == r->log) {
                before = without_mark(before);
                line = without_mark(line);
        }
        if (before < line && strncmp(before, line, strcspn(line, "\n")) != 0)
                blkup_say(s, "%.*s; %s", (int) strcspn(before, "\n"), before,
                          line + same_start(before, line));
        else if (*line)
                blkup_say(s, "%s", line);
        else if (!r->kernel_is_readable)
                blkup_say(s, " (the kernel's log may not be read here: it may say more)");
}

static void say_errno(const struct blkup_mount_result *r, const char *what, struct blkup_saying *s)
{
        blkup_say(s, "%s: %s", what, blkup_error_text(-r->error));
        say_kernel_line(r, s);
}

static bool has_option(const struct blkup_mount_request *q, const char *name)
{
        struct blkup_fstab_entry e = { .options = q->options ? q->options : "" };

        return blkup_fstab_has_option(&e, name);
}

/* ---- refusals of our own ---- */

static bool say_reason(const struct blkup_mount_request *q, const struct blkup_mount_result *r,
                       struct blkup_saying *s)
{
        switch (r->reason) {
        case BLKUP_MOUNT_REASON_NONE:
                return false;
        case BLKUP_MOUNT_REASON_NO_TAG:
                if (*r->other)
                        blkup_say(s, "%s does not answer, and no other device has %s", r->other, r->source);
                else
                        blkup_say(s, "no device has %s", r->source);
                break;
        case BLKUP_MOUNT_REASON_TWO_DEVICES:
                blkup_say(s,
                          "two devices have %s: %s and %s; name the one that is meant, or change one of them",
                          r->source, r->device, r->other);
                break;
        case BLKUP_MOUNT_REASON_HIBERNATED:
                blkup_say(s,
                          "%s holds a hibernation image: writing to %s could destroy what the hibernated "
                          "system has "
                          "on it; resume that system, mount with -o ro, or say --ignore-hibernation",
                          r->other, *r->device ? r->device : r->source);
                break;
        case BLKUP_MOUNT_REASON_LOOP_IN_USE:
                blkup_say(s, "%s shows an overlapping part of %s already: two would destroy what is on it",
                          r->other, r->source);
                break;
        case BLKUP_MOUNT_REASON_LOOP_READ_ONLY:
                if (*r->other)
                        blkup_say(s, "%s is on %s already, read-only, and rw was asked for", r->source,
                                  r->other);
                else
                        blkup_say(s, "%s cannot be written (%s), and rw was asked for", r->source,
                                  blkup_error_text(-r->error));
                break;
        case BLKUP_MOUNT_REASON_WRONG_DEVICE:
                blkup_say(s, "%s led to another device when it was mounted than when it was looked at",
                          r->device);
                break;
        case BLKUP_MOUNT_REASON_PARENT:
                blkup_say(s, "it lies on %s, which is not mounted", r->other);
                break;
        case BLKUP_MOUNT_REASON_TIMEOUT:
                blkup_say(s, "%s did not appear in the time that --wait gave", r->source);
                break;
        case BLKUP_MOUNT_REASON_TYPE_NAME:
                blkup_say(s, "'%s' is no name of a file system type", r->type);
                break;
        case BLKUP_MOUNT_REASON_NOT_LISTED:
                blkup_say(s, "%s holds %s, which -t %s leaves out", r->device, r->type, q->types);
                break;
        case BLKUP_MOUNT_REASON_NO_HELPER:
                blkup_say(s, "the helper /sbin/mount.%s is missing", r->type);
                break;
        case BLKUP_MOUNT_REASON_HELPER_CODE:
                blkup_say(s, "%s ended with code %d", r->other, r->code);
                break;
        case BLKUP_MOUNT_REASON_NOT_MOUNTED:
                blkup_say(s, "%s is not mounted",
                          q && q->target ? q->target
                          : r->target    ? r->target
                                         : r->source);
                break;
        case BLKUP_MOUNT_REASON_VERITY:
                blkup_say(s, "verity options need a device made by veritysetup; mount that");
                break;
        case BLKUP_MOUNT_REASON_SAME_PLACE:
                blkup_say(s, "%s is already mounted there", r->device);
                break;
        case BLKUP_MOUNT_REASON_OFFSET:
                blkup_say(s, "offset=%" PRIu64 " lies behind the end of %s", r->offset_bytes,
                          blkup_explain_name(r));
                break;
        case BLKUP_MOUNT_REASON_SEVERAL:
                blkup_say(s, "%s is mounted %d times: name one of the mount points, or use --all-of",
                          r->source, r->code);
                break;
        }
        return true;
}

/* ---- what went wrong before the file system was asked ---- */

static void say_source(struct blkup_explainer *e, const struct blkup_mount_request *q,
                       const struct blkup_mount_result *r, struct blkup_saying *s)
{
        const char *source = q->source ? q->source : "(none)";
        struct stat st;
        const char *dir;

        (void) e;
        if (r->error == -EINVAL && !q->source) {
                blkup_say(s, "no device was named");
        } else if (!*source) {
                blkup_say(s, "the name of the source is empty");
        } else if (r->error == -ENOTBLK && stat(source, &st) == 0 && S_ISDIR(st.st_mode)) {
                blkup_say(s,
                          "%s is a directory, neither a block device nor an image: --bind shows a directory "
                          "elsewhere",
                          source);
        } else if (r->error == -ENOTBLK) {
                blkup_say(s, "%s is neither a block device nor an image", source);
        } else if (r->error == -ENOENT || r->error == -ENOTDIR) {
                dir = strncmp(source, "/dev/", 5) == 0 ? "device" : "source";
                blkup_say(s, "the %s %s does not exist", dir, source);
        } else if (r->error == -EOPNOTSUPP) {
                blkup_say(s, "%s: tags are not looked up here", source);
        } else {
                blkup_say(s, "%s: %s", source, blkup_error_text(-r->error));
        }
}

static void say_target(const struct blkup_mount_request *q, const struct blkup_mount_result *r,
                       struct blkup_saying *s)
{
        switch (-r->error) {
        case ENOENT:
                if (!*q->target)
                        blkup_say(s, "the name of the mount point is empty");
                else
                        blkup_say(s, "the mount point %s does not exist%s", q->target,
                                  has_option(q, "remount") || !q->source
                                          ? ""
                                          : ": mkdir -p it, or add X-mount.mkdir");
                break;
        case ENOTDIR:
                blkup_say(s, "a part of the mount point %s is no directory", q->target);
                break;
        case ELOOP:
                blkup_say(s, "too many symbolic links on the way to the mount point %s", q->target);
                break;
        default:
                blkup_say(s, "the mount point %s: %s", q->target, blkup_error_text(-r->error));
                break;
        }
}

/* Is there a module of that name below /lib/modules? */
static bool has_module(const char *type)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        char path[256], want[80];
        struct utsname u;
        size_t n;

        if (uname(&u) < 0 || strchr(u.release, '/'))
                return false;
        (void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", u.release);
        (void) snprintf(want, sizeof(want), "/%s.ko", type);
        return blkup_host_read(NULL, path, 16u << 20, &text, &n) == 0 && strstr(text, want);
}

static void say_unknown_type(const struct blkup_mount_result *r, struct blkup_saying *s)
{
        static const char *const by_helper[] = { "nfs",   "nfs4",      "cifs",  "smb3", "ntfs", "ntfs-3g",
                                                 "davfs", "glusterfs", "sshfs", "ceph", "fuse" };
        const char *hint;
        struct utsname u = { .release = "" };

        if (blkup_explain_is_no_file_system(r->type, &hint)) {
                blkup_say(s, "%s holds %s: %s", r->device, r->type, hint);
                return;
        }
        (void) uname(&u);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(by_helper); i++)
                if (strcmp(by_helper[i], r->type) == 0 ||
                    (strncmp(r->type, "fuse.", 5) == 0 && strcmp(by_helper[i], "fuse") == 0)) {
                        blkup_say(s, "the helper /sbin/mount.%s is missing, and this kernel has no type %s",
                                  r->type, r->type);
                        return;
                }
        if (has_module(r->type))
                blkup_say(
                        s,
                        "unknown type %s: its module is in /lib/modules/%s but was not loaded (modprobe %s)",
                        r->type, u.release, r->type);
        else
                blkup_say(s,
                          "unknown type %s: this kernel (%s) has it not built in, the module %s is missing, "
                          "and "
                          "there is no /sbin/mount.%s",
                          r->type, u.release, r->type, r->type);
}

/* ---- options ---- */

/* "Unknown parameter 'x'" or the classic "Unrecognized mount option "x"": the word between quotation marks.
 */
static bool quoted_word(const char *text, const char *before, char *ret, size_t cap)
{
        const char *at = strstr(text, before);
        size_t n;

        if (!at)
                return false;
        at += strlen(before);
        at += strcspn(at, "'\"\n");
        if (*at != '\'' && *at != '"')
                return false;
        n = strcspn(at + 1, "'\"\n");
        (void) snprintf(ret, cap, "%.*s", (int) (n < cap ? n : cap - 1), at + 1);
        return true;
}

static bool say_option_text(const struct blkup_mount_result *r, const char *text, struct blkup_saying *s)
{
        char word[128];

        if (quoted_word(text, "Unknown parameter", word, sizeof(word)) ||
            quoted_word(text, "Unrecognized mount option", word, sizeof(word)) ||
            quoted_word(text, "unknown mount option", word, sizeof(word)) ||
            quoted_word(text, "unrecognized mount option", word, sizeof(word))) {
                blkup_say(s, "unknown option '%s': %s does not have it", word, r->type);
                return true;
        }
        if (quoted_word(text, "Bad value for", word, sizeof(word))) {
                blkup_say(s, "bad value%s%s%s for option '%s' of %s", *r->value ? " '" : "", r->value,
                          *r->value ? "'" : "", word, r->type);
                return true;
        }
        return false;
}

static void say_key(const struct blkup_mount_result *r, struct blkup_saying *s)
{
        if (say_option_text(r, r->log, s) || say_option_text(r, r->kernel, s))
                return;
        blkup_say(s, "%s refuses the option '%s%s%s': %s", r->type, r->key, *r->value ? "=" : "", r->value,
                  *r->log ? without_mark(last_line(r->log)) : blkup_error_text(-r->error));
        if (!*r->log && *r->kernel)
                say_kernel_line(r, s);
        else if (!*r->log && r->error == -EINVAL)
                blkup_say(s, " (unknown option, or a bad value)");
}

static void copy_option(const struct blkup_mount_request *q, const char *name, char *ret, size_t cap)
{
        const char *at = q->options ? strstr(q->options, name) : NULL;

        ret[0] = '\0';
        if (at)
                (void) snprintf(ret, cap, "%.*s", (int) strcspn(at, ","), at);
}

/* ---- the file system itself ---- */

static bool is_file_system_error(int error)
{
        return error == -EINVAL || error == -EUCLEAN || error == -EBADMSG || error == -EIO ||
               error == -EFBIG || error == -ENOENT || error == -ENOMSG || error == -ENXIO ||
               error == -EOVERFLOW || error == -EOPNOTSUPP || error == -ENOTSUP || error == -ENODATA ||
               error == -EILSEQ;
}

static bool say_overlay(const struct blkup_mount_request *q, const struct blkup_mount_result *r,
                        struct blkup_saying *s)
{
        if (strcmp(r->type, "overlay") != 0)
                return false;
        if (!has_option(q, "lowerdir") && !has_option(q, "lowerdir+"))
                blkup_say(s, "overlay needs its layers: the option lowerdir= is missing");
        else if (has_option(q, "upperdir") && !has_option(q, "workdir"))
                blkup_say(s, "overlay with upperdir= needs workdir= as well");
        else
                say_errno(r, "overlay", s);
        return true;
}

static bool say_dirty_log(const struct blkup_mount_result *r, struct blkup_saying *s)
{
        const char *option = strcmp(r->type, "xfs") == 0     ? "norecovery"
                             : strcmp(r->type, "btrfs") == 0 ? "rescue=nologreplay"
                                                             : "noload";

        if (!strstr(r->kernel, "write access unavailable") &&
            !strstr(r->kernel, "recovery required on read") &&
            !strstr(r->kernel, "log replay required on RO") &&
            !strstr(r->kernel, "recovery required on RO") &&
            !strstr(r->kernel, "log mount/recovery failed: error -30") &&
            !strstr(r->kernel, "recovery required"))
                return false;
        blkup_say(s,
                  "the log of the %s on %s must be replayed, and the device is read-only: -o ro,%s shows it "
                  "as it is",
                  r->type, blkup_explain_name(r), option);
        return true;
}

static bool say_busy(struct blkup_explainer *e, const struct blkup_mount_result *r, struct blkup_saying *s)
{
        const char *slash = strrchr(r->device, '/');
        const struct blkup_mount *m;

        if (strstr(r->log, "RO state")) {
                m = blkup_mountinfo_by_device(blkup_explainer_mounts(e), r->dev_major, r->dev_minor, NULL);
                if (!m)
                        m = blkup_mountinfo_by_source(blkup_explainer_mounts(e), r->device, NULL);
                blkup_say(s, "%s is mounted %s%s%s already, and one file system cannot be both: %s",
                          r->device, m && m->is_read_only ? "read-only" : "read-write", m ? " at " : "",
                          m ? m->target : "",
                          m && m->is_read_only ? "mount it ro, or remount that rw"
                                               : "remount that ro, or bind it read-only");
                return true;
        }
        if (blkup_explain_holder(e, r, s))
                return true;
        (void) slash;
        blkup_say(s, "%s is busy: another program holds it exclusively%s", r->device,
                  r->notes & BLKUP_MOUNT_NOTE_RETRIED ? " (tried for a quarter of a second)" : "");
        say_kernel_line(r, s);
        return true;
}

static void say_create(struct blkup_explainer *e, const struct blkup_mount_request *q,
                       const struct blkup_mount_result *r, struct blkup_saying *s)
{
        bool is_device = r->dev_major || r->dev_minor;
        char word[256];
        struct stat st;

        if (say_option_text(r, r->log, s) || say_option_text(r, r->kernel, s) || say_overlay(q, r, s))
                return;
        switch (-r->error) {
        case EBUSY:
                say_busy(e, r, s);
                return;
        case EACCES:
        case EROFS:
                if (say_dirty_log(r, s))
                        return;
                if (is_device) {
                        blkup_say(s, "%s is write-protected%s", r->device,
                                  has_option(q, "rw") ? ", and rw was asked for" : "");
                        say_kernel_line(r, s);
                        return;
                }
                break;
        case ENOTBLK:
                say_source(e, q, r, s);
                return;
        case ENODEV:
                say_unknown_type(r, s);
                return;
        case ENOMEDIUM:
        case ENXIO:
                blkup_say(s, "%s has no medium, or no file behind it", r->device);
                return;
        case EPERM:
                blkup_say(s, "mounting is not permitted here: not root, or forbidden in this container");
                return;
        case E2BIG:
                blkup_say(s,
                          "the options are too long: the kernel takes a page of them (%ld bytes), leave some "
                          "out",
                          sysconf(_SC_PAGESIZE) - 1);
                return;
        case ENOSPC:
                blkup_say(s, "no space: on the device, or fs.mount-max mounts are there");
                return;
        }
        if (is_device && say_dirty_log(r, s))
                return;
        if (r->error == -ENOENT && (has_option(q, "subvol") || has_option(q, "subvolid"))) {
                copy_option(q, "subvol", word, sizeof(word));
                blkup_say(s, "%s has no subvolume '%s'", blkup_explain_name(r),
                          strchr(word, '=') ? strchr(word, '=') + 1 : word);
                return;
        }
        if (strstr(r->kernel, "duplicate UUID") && blkup_explain_twin(e, r, s))
                return;
        if (is_device && is_file_system_error(r->error) && blkup_explain_content(e, r, s))
                return;
        if (r->error == -ENOENT && stat(r->source, &st) < 0 && r->source[0] == '/') {
                say_source(e, q, r, s);
                return;
        }
        if (r->error == -EUCLEAN || r->error == -EBADMSG) {
                const char *tool = blkup_explain_tool_of(r->type);

                blkup_say(s, "the %s on %s is damaged%s%s", r->type, blkup_explain_name(r),
                          tool ? ": check it with " : "", tool ? tool : "");
                say_kernel_line(r, s);
                return;
        }
        say_errno(r, *r->device ? blkup_explain_name(r) : r->type, s);
}

static void say_identify(struct blkup_explainer *e, const struct blkup_mount_result *r,
                         struct blkup_saying *s)
{
        const char *hint;

        if (r->type[0] && blkup_explain_is_no_file_system(r->type, &hint))
                blkup_say(s, "%s holds %s, which is no file system: %s", r->device, r->type, hint);
        else if (r->error == -EMEDIUMTYPE)
                blkup_say(s, "%s holds %s, which is no file system", r->device,
                          *r->type ? r->type : "something");
        else if (r->error == -ENOENT) {
                blkup_say(s, "no file system that is known is on %s", blkup_explain_name(r));
                blkup_explain_nothing(e, r, s);
        } else if (r->error == -ENOTUNIQ)
                blkup_say(s, "more than one type is on %s: name the one that is meant with -t, see wipefs(8)",
                          r->device);
        else
                blkup_say(s, "%s cannot be read: %s", r->device, blkup_error_text(-r->error));
}

static void say_attach(struct blkup_explainer *e, const struct blkup_mount_request *q,
                       const struct blkup_mount_result *r, struct blkup_saying *s)
{
        bool is_move = has_option(q, "move"), is_bind = has_option(q, "bind") || has_option(q, "rbind");
        struct stat st;

        struct stat from;

        if ((r->error == -ENOTDIR ||
             (r->error == -EINVAL && is_bind && q->source && stat(q->source, &from) == 0 &&
              stat(q->target, &st) == 0 && S_ISDIR(from.st_mode) != S_ISDIR(st.st_mode))) &&
            stat(q->target, &st) == 0)
                blkup_say(s,
                          S_ISDIR(st.st_mode)
                                  ? "%s is a directory, and what is to be shown there is a file"
                                  : "the mount point %s is a file, and what is to be shown there is a "
                                    "directory",
                          q->target);
        else if (r->error == -EINVAL && !is_bind && !is_move && stat(q->target, &st) == 0 &&
                 !S_ISDIR(st.st_mode))
                blkup_say(s, "the mount point %s is no directory", q->target);
        else if (r->error == -EINVAL && is_move && q->source &&
                 blkup_explain_move(e, q->source, q->target, s))
                return;
        else if (r->error == -ELOOP)
                blkup_say(s, "%s lies below what is to be moved there", q->target);
        else if (r->error == -EINVAL && is_move)
                blkup_say(s, "%s cannot be moved: it is no mount point, or its parent is shared", q->source);
        else
                say_errno(r, "attaching the mount", s);
}

void blkup_explain_mount(struct blkup_explainer *e, const struct blkup_mount_request *q,
                         const struct blkup_mount_result *r, char *ret, size_t cap)
{
        struct blkup_saying s = { .text = ret, .cap = cap };

        if (cap == 0)
                return;
        ret[0] = '\0';
        if (say_reason(q, r, &s))
                return;
        switch (r->call) {
        case BLKUP_MOUNT_CALL_OPTIONS:
                if (*r->key)
                        blkup_say(&s, "the option '%s' makes no sense", r->key);
                else if (r->error == -E2BIG)
                        blkup_say(&s,
                                  "the options are too many or too long: leave some out (at most %u, of %u "
                                  "bytes)",
                                  BLKUP_MOUNT_MAX_OPTIONS, BLKUP_MOUNT_MAX_OPTION_BYTES);
                else
                        say_errno(r, "options", &s);
                break;
        case BLKUP_MOUNT_CALL_SOURCE:
                say_source(e, q, r, &s);
                break;
        case BLKUP_MOUNT_CALL_IDENTIFY:
                say_identify(e, r, &s);
                break;
        case BLKUP_MOUNT_CALL_TARGET:
                say_target(q, r, &s);
                break;
        case BLKUP_MOUNT_CALL_LOOP:
                if (r->error == -EPERM || (r->error == -EACCES && geteuid() != 0))
                        blkup_say(&s, "an image needs a loop device, which is not permitted here: %s",
                                  geteuid() != 0 ? "not root" : "a rule of this container or service");
                else if (r->error == -ENXIO && has_option(q, "loop"))
                        blkup_say(&s, "the loop device that loop= names does not exist");
                else if (r->error == -ENOENT || r->error == -ENODEV)
                        blkup_say(&s,
                                  "no loop devices here (the module loop is missing, or /dev/loop-control)");
                else
                        say_errno(r, "setting up a loop device", &s);
                break;
        case BLKUP_MOUNT_CALL_FSOPEN:
                if (r->error == -ENODEV)
                        say_unknown_type(r, &s);
                else
                        say_errno(r, r->type, &s);
                break;
        case BLKUP_MOUNT_CALL_KEY:
                say_key(r, &s);
                break;
        case BLKUP_MOUNT_CALL_ATTACH:
                say_attach(e, q, r, &s);
                break;
        case BLKUP_MOUNT_CALL_RECONFIGURE:
                if (r->error == -EBUSY) {
                        blkup_say(&s, "busy: something is open for writing there: ");
                        if (!blkup_explain_users(e, q->target, &s))
                                blkup_say(&s, "it was not found by whom");
                } else if (!say_option_text(r, r->log, &s)) {
                        say_errno(r, "remounting", &s);
                }
                break;
        case BLKUP_MOUNT_CALL_CREATE:
        case BLKUP_MOUNT_CALL_CLASSIC:
                say_create(e, q, r, &s);
                break;
        case BLKUP_MOUNT_CALL_HELPER:
                say_errno(r, *r->other ? r->other : "the helper", &s);
                break;
        case BLKUP_MOUNT_CALL_CLONE:
                if (r->error != -EINVAL || !q->source || !blkup_explain_bind(e, q->source, &s))
                        say_errno(r, r->source, &s);
                break;
        case BLKUP_MOUNT_CALL_SETATTR:
                if (r->error == -EPERM)
                        blkup_say(&s,
                                  "not permitted: not root, or locked by the parent of this user namespace");
                else if (r->error != -EINVAL || !q->target || !blkup_explain_no_mount_point(e, q->target, &s))
                        say_errno(r, "changing what the mount is like", &s);
                break;
        default:
                say_errno(r, *r->device ? r->device : *r->source ? r->source : q->target, &s);
                break;
        }
}

void blkup_explain_umount(struct blkup_explainer *e, const struct blkup_mount_result *r, char *ret,
                          size_t cap)
{
        struct blkup_saying s = { .text = ret, .cap = cap };

        if (cap == 0)
                return;
        ret[0] = '\0';
        if (r->reason == BLKUP_MOUNT_REASON_NOT_MOUNTED && r->error == -ENOENT) {
                blkup_say(&s, "%s does not exist", r->source);
                return;
        }
        if (say_reason(NULL, r, &s))
                return;
        if (r->call == BLKUP_MOUNT_CALL_SOURCE) {
                say_source(e, &(struct blkup_mount_request){ .source = r->source }, r, &s);
        } else if (r->error == -EINVAL && r->target && blkup_explain_is_mounted(e, r->target)) {
                blkup_say(&s, "it is locked: it was mounted by the parent of this user namespace");
        } else if (r->error == -EBUSY) {
                blkup_say(&s, "busy: ");
                if (!blkup_explain_users(e, r->target, &s))
                        blkup_say(&s, "it was not found by whom");
        } else if (r->error == -EPERM) {
                blkup_say(&s, "not permitted: not root, or locked by the parent of this user namespace");
        } else {
                blkup_say(&s, "%s", blkup_error_text(-r->error));
        }
}

/* btrfs without the feature block-group-tree (fs/btrfs: bit 3 of compat_ro, at 0xb4 of the super block at 64
 * KiB) reads an item a GiB from all over the device before it is mounted. */
static bool lacks_block_group_tree(const struct blkup_mount_result *r)
{
        BLKUP_CLEANUP_CLOSE int fd = open(r->device, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        uint8_t flags;

        return fd >= 0 && pread(fd, &flags, 1, 65536 + 0xb4) == 1 && !(flags & 8);
}

static void say_slow(const struct blkup_mount_result *r, struct blkup_saying *s)
{
        uint64_t ns = 0;

        for (unsigned i = 0; i < r->n_steps; i++)
                if (strcmp(r->steps[i].name, "CREATE") == 0)
                        ns += r->steps[i].end_ns - r->steps[i].start_ns;
        if (ns < BLKUP_EXPLAIN_SLOW_NS)
                return;
        blkup_say(s,
                  "%sit took %" PRIu64 ".%" PRIu64
                  " s to read its super block and trees and to start its threads",
                  s->len ? "; " : "", ns / 1000000000, ns / 100000000 % 10);
        if (strcmp(r->type, "btrfs") == 0 && lacks_block_group_tree(r))
                blkup_say(s, ": btrfstune --convert-to-block-group-tree, unmounted, makes that short");
}

void blkup_explain_notes(const struct blkup_mount_result *r, char *ret, size_t cap)
{
        struct blkup_saying s = { .text = ret, .cap = cap };
        static const struct {
                unsigned bit;
                const char *text;
        } notes[] = {
                { BLKUP_MOUNT_NOTE_READ_ONLY, "the device is write-protected: mounted read-only" },
                { BLKUP_MOUNT_NOTE_LOOP_READ_ONLY, "the image cannot be written: mounted read-only" },
                { BLKUP_MOUNT_NOTE_LIVE_SUPER,
                  "it is mounted elsewhere already: the options of the file system were not applied" },
                { BLKUP_MOUNT_NOTE_HIBERNATED,
                  "mounted without replaying its log, because of a hibernation image" },
        };

        if (cap == 0)
                return;
        ret[0] = '\0';
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(notes); i++)
                if (r->notes & notes[i].bit)
                        blkup_say(&s, "%s%s", s.len ? "; " : "", notes[i].text);
        if (r->notes & BLKUP_MOUNT_NOTE_SILENT)
                blkup_say(&s, "%s%s does not answer: whether it holds a hibernation image is not known",
                          s.len ? "; " : "", r->other);
        say_slow(r, &s);
}
