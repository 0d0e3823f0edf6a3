/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The same table by our parser and by libmount, field by field: oracle-fstab FILE. Lines that one of them
 * refuses are printed and must be expected by the caller; a field that differs is a failure.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libmount/libmount.h>

#include <blkup/mount.h>

static int differs(unsigned line, const char *field, const char *ours, const char *theirs)
{
        if (!theirs)
                theirs = "";
        if (strcmp(ours, theirs) == 0)
                return 0;
        printf("entry %u: %s: ours '%s', libmount's '%s'\n", line, field, ours, theirs);
        return 1;
}

static int skip_error(struct libmnt_table *t, const char *file, int line)
{
        (void) t;
        (void) file;
        (void) line;
        return 1; /* go on with the next line */
}

/* libmount keeps the quotes of LABEL="x"; ours are gone. */
static const char *plain(const char *source, char *buf, size_t cap)
{
        const char *quote = source ? strchr(source, '"') : NULL;
        size_t n;

        if (!quote || source[strlen(source) - 1] != '"')
                return source;
        n = (size_t) (quote - source);
        (void) snprintf(buf, cap, "%.*s%.*s", (int) n, source, (int) strlen(quote + 1) - 1, quote + 1);
        return buf;
}

int main(int argc, char **argv)
{
        struct libmnt_table *t = mnt_new_table();
        struct libmnt_iter *i = mnt_new_iter(MNT_ITER_FORWARD);
        struct libmnt_fs *fs;
        struct blkup_fstab *ours;
        size_t n = 0;
        int bad = 0;

        if (argc != 2 || !t || !i)
                return 2;
        mnt_table_set_parser_errcb(t, skip_error);
        if (mnt_table_parse_file(t, argv[1]) < 0 || blkup_fstab_load(argv[1], &ours, NULL) < 0)
                return 2;
        while (mnt_table_next_fs(t, i, &fs) == 0) { /* ends: with the table */
                const struct blkup_fstab_entry *e;
                char buf[4096];

                if (n >= ours->n) {
                        printf("libmount has one more: %s\n", mnt_fs_get_target(fs));
                        bad++;
                        continue;
                }
                e = &ours->entries[n++];
                bad += differs(e->line, "source", e->source, plain(mnt_fs_get_source(fs), buf, sizeof(buf)));
                bad += differs(e->line, "target", e->target, mnt_fs_get_target(fs));
                bad += differs(e->line, "type", e->types, mnt_fs_get_fstype(fs));
                bad += differs(e->line, "options", e->options,
                               mnt_fs_get_options(fs) ? mnt_fs_get_options(fs) : "defaults");
                if (e->freq != mnt_fs_get_freq(fs) || e->passno != mnt_fs_get_passno(fs)) {
                        printf("line %u: freq or passno differ\n", e->line);
                        bad++;
                }
        }
        if (n < ours->n) {
                printf("ours has %zu more\n", ours->n - n);
                bad++;
        }
        printf("%zu entries, %d differences\n", n, bad);
        blkup_fstab_free(ours);
        mnt_free_iter(i);
        mnt_unref_table(t);
        return bad ? 1 : 0;
}
