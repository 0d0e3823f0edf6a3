/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fuzz target without libFuzzer: seeds, mutated at random from a fixed start, N times. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char fstab[] =
        "\0LABEL=\"Foo Bar\" /m\\040n ext4,xfs context=\"a,b\",nofail,x-a=b 1 2\ntmpfs /t tmpfs\n";
static const char mountinfo[] =
        "\1"
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n";
static const char options[] = "\2ro,noatime,context=\"a,b\",offset=4K,x-y=1,user=a,bind,loop=/dev/loop3";

static const struct {
        const char *bytes;
        size_t len;
} seeds[] = {
        { fstab, sizeof(fstab) - 1 }, { mountinfo, sizeof(mountinfo) - 1 }, { options, sizeof(options) - 1 },
};

int main(int argc, char **argv)
{
        unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
        static const char alphabet[] = "\0\n\t \\\",=/-:#01379UUIDLABELno";
        uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

        if (getenv("BLKUP_SOAK"))
                count *= 200;
        for (unsigned long i = 0; i < count; i++) {
                uint8_t input[256];
                size_t k = i % 3, n = seeds[k].len;

                memcpy(input, seeds[k].bytes, n);
                for (unsigned j = 0; j < 1 + i % 7; j++) {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                        if (x & 1 << 20 && n > 2) {
                                size_t at = 1 + (x >> 32) % (n - 1);

                                memmove(input + at, input + at + 1, n - at - 1);
                                n--;
                        } else {
                                input[1 + (x >> 32) % (n - 1)] =
                                        x & 1 << 21 ? (uint8_t) x
                                                    : (uint8_t) alphabet[(x >> 8) % (sizeof(alphabet) - 1)];
                        }
                }
                (void) LLVMFuzzerTestOneInput(input, n);
        }
        printf("%lu inputs\n1 passed, 0 failed, 0 skipped\n", count);
        return 0;
}
