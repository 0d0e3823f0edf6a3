/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blkid without -p: which devices there are, and what is on them, looked at live and several at a time. There
 * is no cache file: one device costs less to look at than the file costs to read and to distrust.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli/blkid.h"
#include "cli/patience.h"
#include "host/hostfile.h"

/* As libblkid ranks them: device-mapper above what it is made of, md above its members. */
#define PRIORITY_DM_LEAF 45
#define PRIORITY_DM      40
#define PRIORITY_MD      10

const char *blkup_cli_blkid_value(const struct blkup_cli_blkid_device *d, const char *tag)
{
        for (size_t i = 0; i < d->n_values; i++)
                if (strcmp(d->values[i].name, tag) == 0)
                        return d->values[i].value;
        return NULL;
}

int blkup_cli_blkid_add(struct blkup_cli_blkid_devices *l, const char *name)
{
        struct blkup_cli_blkid_device *d;

        if (l->n == l->cap) {
                size_t cap = l->cap ? 2 * l->cap : 16;

                d = reallocarray(l->devices, cap, sizeof(*d));
                if (!d)
                        return -ENOMEM;
                l->devices = d;
                l->cap = cap;
        }
        d = &l->devices[l->n];
        memset(d, 0, sizeof(*d));
        d->name = strdup(name);
        if (!d->name)
                return -ENOMEM;
        l->n++;
        return 0;
}

static void free_values(struct blkup_cli_blkid_device *d)
{
        /* Each name stands before its value, in one piece of memory. */
        for (size_t i = 0; i < d->n_values; i++)
                free((void *) (uintptr_t) d->values[i].name);
        free(d->values);
        d->values = NULL;
        d->n_values = 0;
}

void blkup_cli_blkid_free(struct blkup_cli_blkid_devices *l)
{
        for (size_t i = 0; i < l->n; i++) {
                free_values(&l->devices[i]);
                free(l->devices[i].name);
        }
        free(l->devices);
        *l = (struct blkup_cli_blkid_devices){ 0 };
}

static int priority_of(const struct blkup_sysblock *b)
{
        if (b->dm_name)
                return b->n_holders == 0 ? PRIORITY_DM_LEAF : PRIORITY_DM;
        return b->md_array_state ? PRIORITY_MD : 0;
}

/* How many minors the kernel keeps for a disk and its partitions: 1 for a drive whose medium has none, as a
 * floppy or a CD-ROM. Such a drive is not opened unless it is named: that may start a motor or take a tray
 * in.
 */
static bool may_have_partitions(const char *root, const struct blkup_sysblock *b)
{
        char path[PATH_MAX];
        uint64_t range = 0;
        int fd;

        if ((size_t) snprintf(path, sizeof(path), "sys/%s", b->sys_path) >= sizeof(path))
                return false;
        fd = blkup_host_open(root, path, O_PATH | O_DIRECTORY);
        if (fd < 0)
                return false;
        if (blkup_host_attribute_u64(fd, "ext_range", &range) < 0)
                range = 0;
        (void) blkup_close(fd);
        return range != 1;
}

static bool has_partitions(const struct blkup_sysblocks *t, size_t i)
{
        /* A disk stands before its partitions. */
        return i + 1 < t->n && t->blocks[i + 1].is_partition &&
               t->blocks[i + 1].disk_major == t->blocks[i].dev_major &&
               t->blocks[i + 1].disk_minor == t->blocks[i].dev_minor;
}

static bool is_scanned(const char *root, const struct blkup_sysblocks *t, size_t i)
{
        const struct blkup_sysblock *b = &t->blocks[i];

        if (!b->has_devno || b->is_hidden || b->size_sectors == 0 || b->dm_is_suspended)
                return false;
        if (b->is_partition)
                return b->size_sectors != 2; /* an extended partition of a dos table: a table, no more */
        return !has_partitions(t, i) && (!b->is_removable || may_have_partitions(root, b));
}

static void node_of(const struct blkup_sysblock *b, char *out, size_t cap)
{
        if (b->dm_name) {
                (void) snprintf(out, cap, "/dev/mapper/%s", b->dm_name);
                if (access(out, F_OK) == 0)
                        return;
        }
        (void) snprintf(out, cap, "/dev/%s", b->dev_name);
}

int blkup_cli_blkid_add_all(struct blkup_cli_blkid_devices *l, const char *root, struct blkup_error *err)
{
        struct blkup_sysblocks *t = NULL;
        int r = blkup_sysblocks_load(root, BLKUP_SYSFS_LINKS | BLKUP_SYSFS_STACK, &t, err);

        if (r < 0)
                return r;
        for (size_t i = 0; i < t->n && r == 0; i++) {
                const struct blkup_sysblock *b = &t->blocks[i];
                char node[PATH_MAX];

                if (!is_scanned(root, t, i))
                        continue;
                node_of(b, node, sizeof(node));
                r = blkup_cli_blkid_add(l, node);
                if (r == 0) {
                        struct blkup_cli_blkid_device *d = &l->devices[l->n - 1];

                        d->dev_major = b->dev_major;
                        d->dev_minor = b->dev_minor;
                        d->priority = priority_of(b);
                        d->is_scanned = true;
                }
        }
        (void) blkup_sysblocks_free(t);
        return r;
}

void blkup_cli_blkid_canonical(const char *path, char *out, size_t cap)
{
        BLKUP_CLEANUP_FREE char *real = realpath(path, NULL);
        struct blkup_sysblocks *t = NULL;
        struct stat st;

        (void) snprintf(out, cap, "%s", real ? real : path);
        if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode) ||
            blkup_sysblocks_load_one(NULL, major(st.st_rdev), minor(st.st_rdev), BLKUP_SYSFS_STACK, &t,
                                     NULL) < 0)
                return;
        if (t->blocks[0].dm_name)
                node_of(&t->blocks[0], out, cap);
        (void) blkup_sysblocks_free(t);
}

/* The tags that blkid shows without -p, by their names there; NULL: not shown. */
static const char *tag_of(const char *name)
{
        static const char *const left_out[] = { "VERSION",     "USAGE",       "FSSIZE",
                                                "FSLASTBLOCK", "FSBLOCKSIZE", "ENDIANNESS" };

        if (strcmp(name, "PART_ENTRY_UUID") == 0)
                return "PARTUUID";
        if (strcmp(name, "PART_ENTRY_NAME") == 0)
                return "PARTLABEL";
        if (strncmp(name, "PART_ENTRY_", 11) == 0 || strstr(name, "_ID"))
                return NULL;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(left_out); i++)
                if (strcmp(name, left_out[i]) == 0)
                        return NULL;
        return name;
}

/* A tag stands once, where it came first, with what was said last. */
static struct blkup_value *slot_of(struct blkup_cli_blkid_device *d, const char *tag)
{
        for (size_t i = 0; i < d->n_values; i++)
                if (strcmp(d->values[i].name, tag) == 0)
                        return &d->values[i];
        return &d->values[d->n_values];
}

/* Of a prober's values neither name nor text outlives its next run. -ENOMEM. */
static int copy_value(const char *tag, const struct blkup_value *v, struct blkup_value *ret)
{
        size_t n = strlen(tag) + 1, len = strnlen(v->value, v->len);
        char *memory = malloc(n + len + 1);

        if (!memory)
                return -ENOMEM;
        memcpy(memory, tag, n);
        memcpy(memory + n, v->value, len);
        memory[n + len] = '\0';
        *ret = (struct blkup_value){ .name = memory, .value = memory + n, .len = len };
        return 0;
}

static int copy_values(struct blkup_cli_blkid_device *d, const struct blkup_probe *p)
{
        size_t n = blkup_probe_n_values(p);

        d->values = calloc(n ? n : 1, sizeof(*d->values));
        if (!d->values)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                struct blkup_value v = blkup_probe_value(p, i), copy, *to;
                const char *tag = tag_of(v.name);

                if (!tag)
                        continue;
                if (copy_value(tag, &v, &copy) < 0)
                        return -ENOMEM;
                to = slot_of(d, tag);
                if (to == &d->values[d->n_values])
                        d->n_values++;
                else
                        free((void *) (uintptr_t) to->name);
                *to = copy;
        }
        return 0;
}

static void free_device(void *answer)
{
        struct blkup_cli_blkid_device *d = answer;

        free_values(d);
        free(d->name);
        free(d);
}

static void probe_one(struct blkup_probe *p, struct blkup_cli_blkid_device *d)
{
        struct blkup_error err = { 0 };
        int r = blkup_probe_path(p, d->name, NULL, &d->verdict, &err);

        if (r < 0) {
                d->verdict = BLKUP_VERDICT_UNKNOWN;
                blkup_cli_probe_say_failure(d->name, r, &err, &d->said);
                return;
        }
        blkup_cli_probe_say_verdict(d->name, p, d->verdict, false, &d->said);
        d->said.text = ""; /* the prober's; here only the line is used */
        if (d->verdict == BLKUP_VERDICT_FOUND && copy_values(d, p) < 0) {
                free_values(d);
                d->verdict = BLKUP_VERDICT_UNKNOWN;
                blkup_cli_probe_say_failure(d->name, -ENOMEM, NULL, &d->said);
        }
}

/* Names are ours: a thread that is left behind may use one when the list is gone. */
struct scan {
        char **names;
        size_t n;
        struct blkup_cli_blkid_device **found; /* NULL: no answer */
};

static void free_scan(void *to)
{
        struct scan *s = to;

        for (size_t i = 0; i < s->n; i++) {
                if (s->found && s->found[i])
                        free_device(s->found[i]);
                if (s->names)
                        free(s->names[i]);
        }
        free(s->names);
        free(s->found);
        free(s);
}

static struct scan *new_scan(const struct blkup_cli_blkid_devices *l)
{
        struct scan *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->names = calloc(l->n, sizeof(*s->names));
        s->found = calloc(l->n, sizeof(*s->found));
        if (s->names && s->found)
                s->n = l->n;
        for (size_t i = 0; i < s->n; i++) {
                s->names[i] = strdup(l->devices[i].name);
                if (!s->names[i])
                        s->n = 0; /* told below */
        }
        if (s->n > 0)
                return s;
        for (size_t i = 0; s->names && i < l->n; i++)
                free(s->names[i]);
        free_scan(s);
        return NULL;
}

static void *look(void *to, void *own, size_t i)
{
        const struct scan *s = to;
        struct blkup_cli_blkid_device *d = calloc(1, sizeof(*d));

        if (!d)
                return NULL;
        d->name = strdup(s->names[i]);
        if (!d->name) {
                free(d);
                return NULL;
        }
        probe_one(own, d);
        return d;
}

static void take(void *to, size_t i, void *answer)
{
        struct scan *s = to;

        s->found[i] = answer;
}

static void *begin(void *to)
{
        struct blkup_probe *p = blkup_probe_new();

        (void) to;
        if (p)
                (void) blkup_cli_probe_start_cage("blkid", p, false);
        return p;
}

static void end(void *own)
{
        blkup_probe_unref(own);
}

/* The answer becomes that of d, which keeps its name and its place. */
static void move_answer(struct blkup_cli_blkid_device *d, struct blkup_cli_blkid_device *from)
{
        free_values(d);
        d->verdict = from->verdict;
        d->said = from->said;
        if (from->said.text == from->said.text_copy)
                d->said.text = d->said.text_copy;
        d->values = BLKUP_TAKE(from->values);
        d->n_values = from->n_values;
        from->n_values = 0;
}

int blkup_cli_blkid_probe(struct blkup_cli_blkid_devices *l, blkup_cli_blkid_wanted *is_wanted,
                          const void *to)
{
        static const struct blkup_late_ops ops = {
                .begin = begin, .end = end, .look = look, .take = take, .drop = free_device,
                .free = free_scan,
        };
        struct blkup_late *late;
        struct scan *s;
        bool is_found = false, is_any_silent = false;
        int r = 0;

        if (l->n == 0)
                return 0;
        s = new_scan(l);
        late = s ? blkup_late_start(l->n, BLKUP_CLI_PROBERS, &ops, s) : NULL;
        if (!late) {
                if (s)
                        free_scan(s);
                return -ENOMEM;
        }
        blkup_late_lock(late);
        do
                for (size_t i = 0; is_wanted && i < l->n && !is_found; i++)
                        is_found = s->found[i] && is_wanted(to, s->found[i]);
        while (blkup_cli_wait_for_devices(late, is_found));
        for (size_t i = 0; i < l->n && !is_any_silent; i++)
                is_any_silent = blkup_late_is_begun(late, i) && !blkup_late_is_done(late, i);
        for (size_t i = 0; i < l->n; i++) {
                struct blkup_cli_blkid_device *d = &l->devices[i];

                if (s->found[i]) {
                        move_answer(d, s->found[i]);
                } else if (blkup_late_is_done(late, i) || !is_any_silent) {
                        r = -ENOMEM;
                } else {
                        d->verdict = BLKUP_VERDICT_UNKNOWN;
                        struct blkup_error err = { 0 };

                        (void) blkup_fail(&err, -ETIMEDOUT, "%s",
                                          blkup_late_is_begun(late, i)
                                                  ? "does not answer"
                                                  : "was not looked at: too many others do not answer");
                        blkup_cli_probe_say_failure(d->name, -ETIMEDOUT, &err, &d->said);
                        if (is_found)
                                d->said.line[0] = '\0'; /* what was asked for was there */
                }
        }
        blkup_late_unlock(late);
        (void) blkup_late_free(late);
        return r;
}
