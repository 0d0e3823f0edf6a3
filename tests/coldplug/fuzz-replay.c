/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fuzz target without libFuzzer: seeds, mutated at random from a fixed start, N times. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char uevent[] = "\0"
                             "add@/devices/p/block/vda/vda1\0ACTION=add\0DEVPATH=/devices/p/block/vda/vda1\0"
                             "SUBSYSTEM=block\0MAJOR=254\0MINOR=1\0DEVNAME=cciss/c0\0DEVTYPE=disk\0SEQNUM=7";
static const char crypttab[] =
        "\1"
        "a UUID=1 /key luks,discard,keyfile-offset=5\n#x\nb /dev/sda none header=/h,noauto\n";
static const char group[] =
        "\2vg { id = \"aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" seqno = 3 s = [\"A\", \"B\"]\n"
        "physical_volumes { pv0 { id = \"bbbbbb-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\" d = \"\\\"\" } } }";

static const struct {
        const char *bytes;
        size_t len;
} seeds[] = {
        { uevent, sizeof(uevent) },
        { crypttab, sizeof(crypttab) - 1 },
        { group, sizeof(group) - 1 },
};

int main(int argc, char **argv)
{
        unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
        static const char alphabet[] = "\0\n\t \\\",=/-:#{}[]@.0137adMINOR";
        uint64_t x = UINT64_C(0x9e3779b97f4a7c15);

        if (getenv("BLKUP_SOAK"))
                count *= 200;
        for (unsigned long i = 0; i < count; i++) {
                uint8_t input[512];
                size_t k = i % 3, n = seeds[k].len;

                memcpy(input, seeds[k].bytes, n);
                for (unsigned j = 0; j < i % 7; j++) {
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
