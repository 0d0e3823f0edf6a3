/* SPDX-License-Identifier: GPL-2.0-or-later */
/* modprobe.d and the kernel command line: the same bytes as either. */
#include "modules/config.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        struct blkup_modconf c = { 0 };

        (void) !blkup_modconf_parse(&c, (const char *) data, size);
        (void) !blkup_modconf_parse_cmdline(&c, (const char *) data, size);
        (void) blkup_modconf_is_blacklisted(&c, "a");
        (void) blkup_modconf_command(&c, BLKUP_MODCONF_INSTALL, "a");
        blkup_modconf_free(&c);
        return 0;
}
