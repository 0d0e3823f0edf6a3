/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module: the whole check of its bytes, with parameters, against a kernel of two symbols. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "modules/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char symvers[] = "0x00000011\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
                                      "0x00000022\t_printk\tvmlinux\tEXPORT_SYMBOL_GPL\tSPACE\n";
        static struct blkup_module_check *c;
        struct blkup_refusal r = { 0 };
        char module[64];

        if (!c) {
                struct blkup_module_check_options o = { .vermagic = "1.0 SMP " };

                if (blkup_module_check_new(&o, &c, NULL) < 0 ||
                    blkup_exports_add_symvers(&c->exports, symvers, sizeof(symvers) - 1) < 0)
                        abort();
                c->kernel.knows_vmlinux = true;
                c->kernel.machine = EM_X86_64;
        }
        (void) !blkup_check_bytes(c, (struct blkup_bytes){ .data = data, .len = size }, "n=1 list=1,2 on=y",
                                  &r, module, NULL);
        return 0;
}
