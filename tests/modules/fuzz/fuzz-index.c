/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An index of depmod: bytes as they come, a name, an alias, and a walk over all of it. */
#include <stdlib.h>

#include "modules/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(void *arg, const char *key, const char *value)
{
        (void) key;
        (void) value;
        return ++*(int *) arg > 10000 ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct blkup_index_values v = { 0 };
        struct blkup_index i;
        const char *value = NULL;
        int n = 0;

        if (blkup_index_from_bytes(data, size, &i) < 0)
                return 0;
        (void) !blkup_index_find(&i, "ext4", &value);
        (void) !blkup_index_match(&i, "pci:v00008086d00001237sv00001AF4sd00001100bc06sc00i00", &v);
        (void) !blkup_index_each(&i, each, &n);
        blkup_index_values_free(&v);
        return 0;
}
