/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program as a user of the library would write it: C99 or C++, the public header alone. Probes its
 * argument. */
#include <blkup/probe.h>

#include <stdio.h>
#include <string.h>

static void hear(void *to, const char *text)
{
        *(size_t *) to += strlen(text);
}

int main(int argc, char **argv)
{
        struct blkup_probe *p = blkup_probe_new();
        struct blkup_open_options o;
        struct blkup_io_stats stats;
        enum blkup_verdict verdict = BLKUP_VERDICT_UNKNOWN;
        size_t heard = 0, n;
        int failed = 0;

        if (!p || argc != 2)
                return 2;
        memset(&o, 0, sizeof(o));
        failed |= blkup_probe_set_types(p, "ext4", true, NULL) != 0;
        failed |= blkup_probe_set_types(p, "", false, NULL) != 0;
        failed |= blkup_probe_set_types(p, "no such type", false, NULL) >= 0;
        blkup_probe_set_usages(p, 0);
        blkup_probe_set_area(p, 0, 0);
        blkup_probe_set_session(p, 0);
        blkup_probe_set_flags(p, BLKUP_PROBE_STRICT | BLKUP_PROBE_PARTITIONS);
        blkup_probe_set_trace(p, NULL);
        blkup_probe_set_debug(p, hear, &heard);
        blkup_probe_set_budget(p, 0);

        failed |= blkup_probe_path(p, "/nonexistent/device", &o, &verdict, NULL) >= 0;
        failed |= verdict != BLKUP_VERDICT_UNKNOWN; /* untouched */
        failed |= blkup_probe_path(p, argv[1], &o, &verdict, NULL) != 0;
        failed |= verdict != BLKUP_VERDICT_NOTHING && verdict != BLKUP_VERDICT_FOUND;
        failed |= heard == 0;
        n = blkup_probe_n_values(p);
        for (size_t i = 0; i < n; i++) {
                struct blkup_value v = blkup_probe_value(p, i);

                failed |= v.value[v.len] != '\0' || !blkup_probe_lookup(p, v.name);
        }
        failed |= (n > 0) != (verdict == BLKUP_VERDICT_FOUND);
        for (size_t i = 0; i < blkup_probe_n_hits(p); i++)
                failed |= !blkup_usage_name(blkup_probe_hit(p, i).usage);
        failed |= blkup_probe_partition(p, blkup_probe_n_partitions(p)) != NULL;
        blkup_probe_stats(p, &stats);
        failed |= stats.reads == 0 || stats.bytes < stats.reads;
        failed |= blkup_probe_size(p) == 0 || blkup_probe_trouble(p)[0] != '\0';
        failed |= blkup_probe_try_again(p);
        for (n = 0; blkup_probe_type_name(n); n++)
                ;
        printf("%lu types, %lu bytes read\n", (unsigned long) n, (unsigned long) stats.bytes);
        failed |= n == 0;
        p = blkup_probe_unref(p);
        p = blkup_probe_unref(p);
        return failed || p;
}
