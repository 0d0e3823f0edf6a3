/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cli/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Source: kernel Documentation/userspace-api/landlock.rst. Numbers are the same on every architecture. By
 * hand, because the headers of an older build machine know less than the kernel that this runs on. */
#define CALL_CREATE_RULESET 444
#define CALL_ADD_RULE 445
#define CALL_RESTRICT_SELF 446
#define GET_VERSION 1u
#define RULE_PATH_BENEATH 1
#define READ_FILE (UINT64_C(1) << 2)
#define READ_DIR (UINT64_C(1) << 3)
/* Rights that each version of the interface knows, from the first: up to MAKE_SYM, then REFER, TRUNCATE, and
 * no more of files; IOCTL_DEV (version 5) is left free, because sizes are asked for by ioctl. */
static const uint64_t rights[] = { (1u << 13) - 1, (1u << 14) - 1, (1u << 15) - 1 };

struct ruleset {
        uint64_t handled_access_fs;
};

struct path_beneath {
        uint64_t allowed_access;
        int32_t parent_fd;
} __attribute__((packed));

static void only_read_files(void)
{
        long version = syscall(CALL_CREATE_RULESET, NULL, 0, GET_VERSION);
        BLKUP_CLEANUP_CLOSE int set_fd = -1;
        BLKUP_CLEANUP_CLOSE int root_fd = -1;
        struct path_beneath rule = { .allowed_access = READ_FILE | READ_DIR };
        struct ruleset set;

        if (version < 1)
                return;
        set.handled_access_fs = rights[version > 3 ? 2 : version - 1];
        set_fd = (int) syscall(CALL_CREATE_RULESET, &set, sizeof(set), 0);
        root_fd = open("/", O_PATH | O_CLOEXEC);
        if (set_fd < 0 || root_fd < 0)
                return;
        rule.parent_fd = root_fd;
        if (syscall(CALL_ADD_RULE, set_fd, RULE_PATH_BENEATH, &rule, 0) == 0)
                (void) syscall(CALL_RESTRICT_SELF, set_fd, 0);
}

static void keep_reading_capabilities(void)
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };
        const uint32_t keep = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

        if (syscall(SYS_capget, &header, data) < 0)
                return;
        data[0].effective &= keep;
        data[0].permitted &= keep;
        data[0].inheritable = data[1].inheritable = 0;
        data[1].effective = data[1].permitted = 0;
        (void) syscall(SYS_capset, &header, data);
}

void blkup_cli_confine(bool writes_files)
{
        (void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        /* A coverage build writes what it has counted when it ends, and complains where it may not. */
        if (!writes_files && !BLKUP_IS_COVERAGE)
                only_read_files();
        keep_reading_capabilities();
}
