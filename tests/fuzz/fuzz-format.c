/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One libFuzzer target per format and per table, from one source: BLKUP_FUZZ_TARGET is the name of the type
 * or table that is looked for, "" for all of them at once. An input is a sparse device (tests/kit/kit.h); the
 * prober is made once.
 */
#include "kit/kit.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len, size_t max_len, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t len, size_t max_len);

static struct kit_bench bench;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
        (void) argc;
        (void) argv;
        kit_bench_init(&bench);
        if (!kit_bench_only(&bench, *BLKUP_FUZZ_TARGET ? BLKUP_FUZZ_TARGET : NULL))
                kit_die("no format or table is called %s", BLKUP_FUZZ_TARGET);
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
        enum blkup_verdict verdict;

        (void) kit_bench_run(&bench, data, len, &verdict);
        return 0;
}

/* Where the bytes of a record begin and how many there are; false: there is no k-th record. */
static bool find_record(const uint8_t *data, size_t len, unsigned k, size_t *ret_at, size_t *ret_n)
{
        size_t at = KIT_SAMPLE_HEADER + (len > 0 && data[0] & KIT_SAMPLE_SESSION ? 4 : 0);

        for (unsigned i = 0; at <= len && len - at >= KIT_RECORD_HEADER; i++) { /* ends: at grows */
                size_t n = data[at + 9] | (size_t) data[at + 10] << 8;

                at += KIT_RECORD_HEADER;
                n = n < len - at ? n : len - at;
                if (i == k) {
                        *ret_at = at;
                        *ret_n = n;
                        return true;
                }
                at += n;
        }
        return false;
}

/* Half of the mutations are made inside the bytes of a record, so that the records behind it stay records. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t len, size_t max_len, unsigned seed)
{
        unsigned n_records = 0;
        size_t at, n;

        while (n_records < 64 && find_record(data, len, n_records, &at, &n))
                n_records++;
        if (n_records == 0 || seed & 1 || !find_record(data, len, (seed >> 1) % n_records, &at, &n) || n == 0)
                return LLVMFuzzerMutate(data, len, max_len);
        (void) LLVMFuzzerMutate(data + at, n, n);
        return len;
}
