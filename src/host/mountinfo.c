/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/hostfile.h"

#define MAX_READS    8u
/* Optional fields are four today; a line with more than this is no mountinfo. */
#define MAX_OPTIONAL 64u
/* move_mount(2) can put a mount beneath another; nobody does it this often on one place. Bounds a forged
 * table. */
#define MAX_STACK    64u
/* Paths are at most PATH_MAX, two bytes a level. Bounds a forged table whose parents form a ring. */
#define MAX_DEPTH    2048u

struct table {
        struct blkup_mountinfo public; /* first: the pointer the caller holds is ours */
        struct blkup_mount *mounts;
        char *text; /* what all texts point into */
};

static struct table *free_table(struct table *t)
{
        if (t) {
                free(t->mounts);
                free(t->text);
                free(t);
        }
        return NULL;
}

static void free_tablep(struct table **t)
{
        *t = free_table(*t);
}

struct blkup_mountinfo *blkup_mountinfo_free(struct blkup_mountinfo *t)
{
        (void) free_table((struct table *) t);
        return NULL;
}

/* Cuts the next field off a line; single blanks, so that an empty source stays a field. NULL: the line has
 * ended. */
static char *next_field(char **at)
{
        char *field = *at, *blank;

        if (!field)
                return NULL;
        blank = strchr(field, ' ');
        if (blank)
                *blank = '\0';
        *at = blank ? blank + 1 : NULL;
        return field;
}

static bool next_number(char **at, uint32_t *ret)
{
        const char *field = next_field(at);

        return field && blkup_host_number32(field, strlen(field), ret);
}

static bool read_tag(const char *field, const char *key, uint32_t *ret)
{
        size_t n = strlen(key);

        return strncmp(field, key, n) == 0 && blkup_host_number32(field + n, strlen(field + n), ret);
}

/* "shared:N", "master:N", "propagate_from:N", "unbindable", what a later kernel adds; ends at a lone "-". */
static bool read_optional(char **at, struct blkup_mount *m)
{
        for (unsigned i = 0; i < MAX_OPTIONAL; i++) {
                const char *field = next_field(at);

                if (!field)
                        return false;
                if (strcmp(field, "-") == 0)
                        return true;
                if (strcmp(field, "unbindable") == 0)
                        m->is_unbindable = true;
                else if (!read_tag(field, "shared:", &m->shared) && !read_tag(field, "master:", &m->master))
                        (void) !read_tag(field, "propagate_from:", &m->propagate_from);
        }
        return false;
}

static bool parse_mount(char *line, struct blkup_mount *ret)
{
        struct blkup_mount m = { 0 };
        char *at = line, *root, *target, *fs_type, *source;
        const char *devno;

        if (!next_number(&at, &m.id) || !next_number(&at, &m.parent_id))
                return false;
        devno = next_field(&at);
        if (!devno || !blkup_host_devno(devno, strlen(devno), &m.dev_major, &m.dev_minor))
                return false;
        root = next_field(&at);
        target = next_field(&at);
        m.options = next_field(&at);
        if (!root || !*root || !target || *target != '/' || !m.options || !*m.options)
                return false;
        if (!read_optional(&at, &m))
                return false;
        fs_type = next_field(&at);
        source = next_field(&at);
        /* The rest of the line: a file system that prints blanks unescaped keeps its options whole. */
        m.super_options = at;
        if (!fs_type || !*fs_type || !source || !at || !*at)
                return false;
        blkup_host_unescape(root);
        blkup_host_unescape(target);
        blkup_host_unescape(fs_type);
        blkup_host_unescape(source);
        /* The kernel writes no slash at the end; look-ups rely on it, so a forged table may not either. */
        for (size_t n = strlen(target); n > 1 && target[n - 1] == '/'; n--)
                target[n - 1] = '\0';
        m.root = root;
        m.target = target;
        m.fs_type = fs_type;
        m.source = source;
        m.is_read_only = blkup_mount_option(m.options, "ro", NULL, 0) == 0 ||
                         blkup_mount_option(m.super_options, "ro", NULL, 0) == 0;
        *ret = m;
        return true;
}

/* Takes the text, of n bytes and a NUL. */
static int parse_owned(char *text, size_t n, struct blkup_mountinfo **ret)
{
        BLKUP_CLEANUP(free_tablep) struct table *t = NULL;
        char *at = text, *line;
        size_t cap = 0;
        bool good;

        t = calloc(1, sizeof(*t));
        if (!t) {
                free(text);
                return -ENOMEM;
        }
        t->text = text;
        while ((line = blkup_host_next_line(&at, text + n, BLKUP_MOUNTINFO_MAX_LINE,
                                            &good))) { /* each turn moves at */
                struct blkup_mount m;
                void *array = t->mounts;
                int r;

                if (!good || !parse_mount(line, &m)) {
                        t->public.n_bad_lines++;
                        continue;
                }
                r = blkup_host_reserve(&array, &cap, t->public.n, sizeof(m), BLKUP_MOUNTINFO_MAX_MOUNTS);
                if (r < 0)
                        return r;
                t->mounts = array;
                t->mounts[t->public.n++] = m;
        }
        t->public.mounts = t->mounts;
        *ret = &t->public;
        t = NULL;
        return 0;
}

int blkup_mountinfo_parse(const char *text, size_t n, struct blkup_mountinfo **ret)
{
        char *copy;
        int r;

        r = blkup_host_copy(text, n, BLKUP_MOUNTINFO_MAX_BYTES, &copy);
        return r < 0 ? r : parse_owned(copy, n, ret);
}

/* Did mounts change since the fd was opened or asked last? Source: mounts_poll() in fs/proc_namespace.c. */
static bool has_changed(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLPRI };

        return poll(&p, 1, 0) > 0 && p.revents & (POLLPRI | POLLERR);
}

static int load_stable(int fd, struct blkup_mountinfo **ret)
{
        char *text = NULL;
        size_t n = 0;
        unsigned reads = 0;
        bool moving;
        int r;

        do {
                free(text);
                text = NULL;
                if (reads > 0 && lseek(fd, 0, SEEK_SET) < 0)
                        return -errno;
                r = blkup_host_read_fd(fd, BLKUP_MOUNTINFO_MAX_BYTES, &text, &n);
                if (r < 0)
                        return r;
                moving = has_changed(fd);
        } while (++reads < MAX_READS && moving);
        r = parse_owned(text, n, ret);
        if (r == 0) {
                (*ret)->n_reads = reads;
                (*ret)->is_moving = moving;
        }
        return r;
}

int blkup_mountinfo_load_fd(int fd, struct blkup_mountinfo **ret, struct blkup_error *err)
{
        int r;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return blkup_fail_errno(err, -errno, "mountinfo");
        (void) has_changed(fd); /* what came before this call is no reason to read twice */
        r = load_stable(fd, ret);
        return r < 0 ? blkup_fail_errno(err, r, "mountinfo") : 0;
}

int blkup_mountinfo_load(const char *root, struct blkup_mountinfo **ret, struct blkup_error *err)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        int r;

        fd = blkup_host_open(root, "proc/self/mountinfo", O_RDONLY);
        r = fd < 0 ? fd : load_stable(fd, ret);
        if (r == -ENOENT)
                return blkup_fail(err, r, "there is no %s/proc/self/mountinfo: is /proc mounted?",
                                  root ? root : "");
        return r < 0 ? blkup_fail_errno(err, r, "%s/proc/self/mountinfo", root ? root : "") : 0;
}

/* ---- questions ---- */

const struct blkup_mount *blkup_mountinfo_by_id(const struct blkup_mountinfo *t, uint32_t id)
{
        for (size_t i = 0; t && i < t->n; i++)
                if (t->mounts[i].id == id)
                        return &t->mounts[i];
        return NULL;
}

const struct blkup_mount *blkup_mountinfo_by_device(const struct blkup_mountinfo *t, uint32_t dev_major,
                                                    uint32_t dev_minor, const struct blkup_mount *after)
{
        for (size_t i = t && after ? (size_t) (after - t->mounts) + 1 : 0; t && i < t->n; i++)
                if (t->mounts[i].dev_major == dev_major && t->mounts[i].dev_minor == dev_minor)
                        return &t->mounts[i];
        return NULL;
}

const struct blkup_mount *blkup_mountinfo_by_source(const struct blkup_mountinfo *t, const char *source,
                                                    const struct blkup_mount *after)
{
        for (size_t i = t && after ? (size_t) (after - t->mounts) + 1 : 0; t && i < t->n; i++)
                if (strcmp(t->mounts[i].source, source) == 0)
                        return &t->mounts[i];
        return NULL;
}

/* Another mount on the root of m: its child on the same mount point. */
static const struct blkup_mount *find_on_top(const struct blkup_mountinfo *t, const struct blkup_mount *m)
{
        for (size_t i = 0; i < t->n; i++) {
                const struct blkup_mount *c = &t->mounts[i];

                if (c != m && c->parent_id == m->id && strcmp(c->target, m->target) == 0)
                        return c;
        }
        return NULL;
}

const struct blkup_mount *blkup_mountinfo_by_target(const struct blkup_mountinfo *t, const char *target)
{
        const struct blkup_mount *top = NULL;
        size_t n = strlen(target);

        while (n > 1 && target[n - 1] == '/')
                n--;
        for (size_t i = t ? t->n : 0; i > 0 && !top; i--)
                if (strncmp(t->mounts[i - 1].target, target, n) == 0 && t->mounts[i - 1].target[n] == '\0')
                        top = &t->mounts[i - 1];
        /* The last line is the topmost, unless it was put beneath another one. */
        for (unsigned i = 0; top && i < MAX_STACK; i++) {
                const struct blkup_mount *above = find_on_top(t, top);

                if (!above)
                        break;
                top = above;
        }
        return top;
}

/* Is path below folder (not equal to it)? */
static bool is_below(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        if (strcmp(folder, "/") == 0)
                return path[0] == '/' && path[1] != '\0';
        return strncmp(path, folder, n) == 0 && path[n] == '/';
}

bool blkup_mountinfo_is_covered(const struct blkup_mountinfo *t, const struct blkup_mount *m)
{
        if (find_on_top(t, m))
                return true;
        /* A walk to m enters its parent first, then goes down in it: a sibling on the way leads elsewhere. */
        for (unsigned depth = 0; depth < MAX_DEPTH; depth++) {
                const struct blkup_mount *parent = blkup_mountinfo_by_id(t, m->parent_id);

                if (!parent || parent == m)
                        return false;
                for (size_t i = 0; i < t->n; i++) {
                        const struct blkup_mount *sibling = &t->mounts[i];

                        if (sibling != m && sibling != parent && sibling->parent_id == parent->id &&
                            is_below(m->target, sibling->target))
                                return true;
                }
                m = parent;
        }
        return false;
}

int blkup_mount_option(const char *options, const char *name, char *ret, size_t cap)
{
        size_t name_len = strlen(name);
        const char *at = options;

        while (at) { /* each turn moves behind the next comma */
                const char *comma = strchr(at, ',');
                size_t len = comma ? (size_t) (comma - at) : strlen(at);

                if (len >= name_len && strncmp(at, name, name_len) == 0 &&
                    (len == name_len || at[name_len] == '=')) {
                        const char *value = len == name_len ? at + len : at + name_len + 1;
                        size_t value_len = (size_t) (at + len - value);

                        if (!ret)
                                return 0;
                        if (blkup_host_decode_octal(value, value_len, NULL, 0) >= cap)
                                return -ENAMETOOLONG;
                        (void) blkup_host_decode_octal(value, value_len, ret, cap);
                        return 0;
                }
                at = comma ? comma + 1 : NULL;
        }
        return -ENOENT;
}

/* ---- swap ---- */

struct swap_table {
        struct blkup_swaps public; /* first */
        struct blkup_swap *swaps;
        char *text;
};

static void free_swap_tablep(struct swap_table **t)
{
        if (*t) {
                free((*t)->swaps);
                free((*t)->text);
                free(*t);
        }
        *t = NULL;
}

struct blkup_swaps *blkup_swaps_free(struct blkup_swaps *t)
{
        struct swap_table *table = (struct swap_table *) t;

        free_swap_tablep(&table);
        return NULL;
}

static bool parse_swap(char *line, struct blkup_swap *ret)
{
        char *at = line, *path = blkup_host_next_column(&at);
        const char *kind = blkup_host_next_column(&at), *size = blkup_host_next_column(&at),
                   *used = blkup_host_next_column(&at);
        const char *priority = blkup_host_next_column(&at);
        bool minus = priority[0] == '-';
        uint64_t size_kib, used_kib;
        uint32_t level;

        /* 2^53 KiB is more than any device; what is above would wrap in bytes. */
        if (path[0] != '/' || !blkup_host_number(size, strlen(size), &size_kib) ||
            !blkup_host_number(used, strlen(used), &used_kib) || size_kib >> 53 || used_kib >> 53 ||
            !blkup_host_number32(priority + minus, strlen(priority + minus), &level) || level > INT32_MAX)
                return false;
        blkup_host_unescape(path);
        *ret = (struct blkup_swap){
                .path = path,
                .kind = strcmp(kind, "partition") == 0 ? BLKUP_SWAP_PARTITION
                        : strcmp(kind, "file") == 0    ? BLKUP_SWAP_FILE
                                                       : BLKUP_SWAP_OTHER,
                .size_bytes = size_kib * 1024,
                .used_bytes = used_kib * 1024,
                .priority = minus ? -(int32_t) level : (int32_t) level,
        };
        return true;
}

static int parse_swaps_owned(char *text, size_t n, struct blkup_swaps **ret)
{
        BLKUP_CLEANUP(free_swap_tablep) struct swap_table *t = NULL;
        char *at = text, *line;
        size_t cap = 0;
        bool good, is_heading = true;

        t = calloc(1, sizeof(*t));
        if (!t) {
                free(text);
                return -ENOMEM;
        }
        t->text = text;
        while ((line = blkup_host_next_line(&at, text + n, BLKUP_MOUNTINFO_MAX_LINE,
                                            &good))) { /* each turn moves at */
                struct blkup_swap s;
                void *array = t->swaps;
                int r;

                if (is_heading && good && strncmp(line, "Filename", 8) == 0) {
                        is_heading = false;
                        continue;
                }
                is_heading = false;
                if (!good || !parse_swap(line, &s)) {
                        t->public.n_bad_lines++;
                        continue;
                }
                r = blkup_host_reserve(&array, &cap, t->public.n, sizeof(s), BLKUP_SWAPS_MAX_ENTRIES);
                if (r < 0)
                        return r;
                t->swaps = array;
                t->swaps[t->public.n++] = s;
        }
        t->public.swaps = t->swaps;
        *ret = &t->public;
        t = NULL;
        return 0;
}

int blkup_swaps_parse(const char *text, size_t n, struct blkup_swaps **ret)
{
        char *copy;
        int r;

        r = blkup_host_copy(text, n, BLKUP_SWAPS_MAX_BYTES, &copy);
        return r < 0 ? r : parse_swaps_owned(copy, n, ret);
}

int blkup_swaps_load(const char *root, struct blkup_swaps **ret, struct blkup_error *err)
{
        char *text;
        size_t n;
        int r;

        r = blkup_host_read(root, "proc/swaps", BLKUP_SWAPS_MAX_BYTES, &text, &n);
        if (r == 0)
                r = parse_swaps_owned(text, n, ret);
        return r < 0 ? blkup_fail_errno(err, r, "%s/proc/swaps", root ? root : "") : 0;
}
