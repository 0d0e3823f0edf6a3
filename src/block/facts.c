/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/cdrom.h>
#include <linux/fd.h>
#include <linux/fs.h>
#include <linux/major.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/checked.h"

#define SECTOR_BYTES    512u
/* Data blocks of a CD-ROM, as the addresses in the multi-session and last-written answers count them. */
#define CD_BLOCK_BYTES  2048u
/* A drive counts a track's run-out blocks in its capacity and cannot read them. libblkid tries the last 12
 * sectors of 512 bytes one by one and ends the device at the first that fails. */
#define CD_TAIL_SECTORS 12u

/* "LVM-", then 32 characters each of the volume group's and the volume's id; a layer of LVM adds "-suffix".
 */
#define LVM_UUID_LEN 68u

bool blkup_block_is_private_dm(const char *uuid)
{
        if (strncmp(uuid, "LVM-", 4) == 0)
                return strlen(uuid) > LVM_UUID_LEN + 1 && uuid[LVM_UUID_LEN] == '-';
        /* Names of cryptsetup's temporary mappings, and of stratis' layers below its file systems. */
        return strncmp(uuid, "CRYPT-TEMP-", 11) == 0 || strncmp(uuid, "stratis-1-private", 17) == 0;
}

/* A small attribute as a string without its newline; false when it is not there. */
static bool read_attribute(const char *path, char *ret, size_t room)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        ssize_t n;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return false;
        n = read(fd, ret, room - 1);
        if (n < 0)
                return false;
        ret[n] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
        return true;
}

static bool make_path(char *ret, size_t room, const char *sysfs, const char *class, dev_t dev,
                      const char *rest)
{
        int n;

        n = snprintf(ret, room, "%s/dev/%s/%u:%u%s", sysfs ? sysfs : "/sys", class, major(dev), minor(dev),
                     rest);
        return n > 0 && (size_t) n < room;
}

/* Partition or dm device? A partition of a dm device is itself a dm device, so the one excludes the other. */
static void facts_sysfs(const char *sysfs, dev_t dev, struct blkup_block_info *info)
{
        char path[512], uuid[192]; /* a dm uuid has at most 128 characters (DM_UUID_LEN) */
        char removable[4];

        if (make_path(path, sizeof(path), sysfs, "block", dev, "/partition") && access(path, F_OK) == 0) {
                info->kind = BLKUP_BLOCK_PARTITION;
                return;
        }
        if (make_path(path, sizeof(path), sysfs, "block", dev, "/dm/uuid") &&
            read_attribute(path, uuid, sizeof(uuid))) {
                info->is_dm = true;
                info->is_private_dm = blkup_block_is_private_dm(uuid);
                return;
        }
        /* A tiny device is read past the page cache whatever it is. */
        if (info->size_bytes <= BLKUP_BLOCK_TINY_BYTES)
                return;
        info->is_removable = make_path(path, sizeof(path), sysfs, "block", dev, "/removable") &&
                             read_attribute(path, removable, sizeof(removable)) && removable[0] == '1';
}

/*
 * A floppy opened non-blocking has not looked for its medium: size and reads are then those of the last
 * one. Opening it again through /proc keeps the device even when its name has been given to another one.
 */
static int reopen_floppy(int *fd, const char *name, struct blkup_error *err)
{
        struct floppy_fdc_state state;
        char path[64];
        int again;

        if (ioctl(*fd, FDGETFDCSTAT, &state) < 0)
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
        again = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (again < 0) {
                /* Without /proc there is no other way; the descriptor works, only a change of medium goes
                 * unseen. */
                if (errno == ENOENT)
                        return 1;
                return blkup_fail_errno(err, -errno, "%s", name);
        }
        (void) blkup_close(*fd);
        *fd = again;
        return 1;
}

static bool is_readable(int fd, uint64_t at)
{
        uint8_t sector[SECTOR_BYTES];
        ssize_t n;

        do
                n = pread(fd, sector, sizeof(sector), (off_t) at);
        while (n < 0 && errno == EINTR);
        return n == (ssize_t) sizeof(sector);
}

static int facts_cdrom(int fd, const char *name, struct blkup_block_info *info, struct blkup_error *err)
{
        struct cdrom_multisession multisession = { .addr_format = CDROM_LBA };
        uint64_t first;
        long last_written = 0;

        switch (ioctl(fd, CDROM_DRIVE_STATUS, CDSL_CURRENT)) {
        case CDS_TRAY_OPEN:
                return blkup_fail(err, -ENOMEDIUM, "%s: the tray is open", name);
        case CDS_NO_DISC:
                return blkup_fail(err, -ENOMEDIUM, "%s: no disc", name);
        default:
                /* Drives that cannot tell (CDS_NO_INFO, ENOSYS) are read like all others. */
                break;
        }
        info->is_cdrom = true;

        /* What was recorded may end before the capacity: never beyond it. */
        if (ioctl(fd, CDROM_LAST_WRITTEN, &last_written) == 0 && last_written > 0) {
                uint64_t written;

                if (blkup_mul((uint64_t) last_written, CD_BLOCK_BYTES, &written))
                        info->size_bytes = blkup_min(info->size_bytes, written);
        }
        first = info->size_bytes / SECTOR_BYTES;
        first = first > CD_TAIL_SECTORS ? first - CD_TAIL_SECTORS : 0;
        for (uint64_t i = first; i < info->size_bytes / SECTOR_BYTES; i++) {
                if (!is_readable(fd, i * SECTOR_BYTES)) {
                        info->size_bytes = i * SECTOR_BYTES;
                        break;
                }
        }
        /* xa_flag is clear on a disc with one session: the address says nothing then. */
        if (ioctl(fd, CDROMMULTISESSION, &multisession) == 0 && multisession.xa_flag &&
            multisession.addr.lba > 0)
                info->session_offset_bytes = (uint64_t) multisession.addr.lba * CD_BLOCK_BYTES;
        return 0;
}

/* The number is never given again while the machine runs (5.15). */
static bool is_fixed_disk(int fd, uint64_t diskseq)
{
        uint64_t is = 0;

        return diskseq != 0 && ioctl(fd, BLKGETDISKSEQ, &is) == 0 && is == diskseq;
}

static int facts_block(int *fd, const char *name, const char *sysfs, uint64_t fixed_diskseq, dev_t dev,
                       struct blkup_block_info *info, struct blkup_error *err)
{
        int sector_bytes, r;

        info->major = major(dev);
        info->minor = minor(dev);
        /* Only the drivers of this number know the floppy ioctls; asking all others would be a call for
         * nothing. */
        if (info->major == FLOPPY_MAJOR) {
                r = reopen_floppy(fd, name, err);
                if (r < 0)
                        return r;
                info->is_floppy = r > 0;
        }
        if (ioctl(*fd, BLKGETSIZE64, &info->size_bytes) < 0)
                return blkup_fail_errno(err, -errno, "%s: size", name);
        if (ioctl(*fd, BLKSSZGET, &sector_bytes) == 0 && sector_bytes >= (int) SECTOR_BYTES &&
            blkup_is_power_of_two((uint64_t) sector_bytes))
                info->logical_sector_bytes = (uint32_t) sector_bytes;
        info->kind = BLKUP_BLOCK_DISK;
        if (is_fixed_disk(*fd, fixed_diskseq))
                return 0;
        facts_sysfs(sysfs, dev, info);
        if (info->kind == BLKUP_BLOCK_DISK && !info->is_dm && !info->is_floppy &&
            info->size_bytes > BLKUP_BLOCK_TINY_BYTES && ioctl(*fd, CDROM_GET_CAPABILITY, NULL) >= 0)
                return facts_cdrom(*fd, name, info, err);
        return 0;
}

/* All of s, digits alone. */
static bool parse_decimal(const char *s, uint64_t *ret)
{
        uint64_t v = 0;

        do
                if (*s < '0' || *s > '9' || !blkup_mul(v, 10, &v) || !blkup_add(v, (uint64_t) (*s - '0'), &v))
                        return false;
        while (*++s);
        *ret = v;
        return true;
}

/* A UBI volume (ubi0_1) or a whole UBI device (ubi0): the name is where the link in sysfs leads. */
static int facts_char(const char *name, const char *sysfs, dev_t dev, struct blkup_block_info *info,
                      struct blkup_error *err)
{
        char path[512], target[512], number[32];
        uint64_t bytes;
        const char *last;
        ssize_t n = -1;

        if (make_path(path, sizeof(path), sysfs, "char", dev, ""))
                n = readlink(path, target, sizeof(target) - 1);
        target[n < 0 ? 0 : n] = '\0';
        last = strrchr(target, '/');
        if (!last || strncmp(last + 1, "ubi", 3) != 0 || last[4] < '0' || last[4] > '9')
                return blkup_fail(err, -ENOTBLK, "%s: not a block device, file or UBI volume", name);
        info->kind = BLKUP_BLOCK_CHAR;
        info->size_bytes = 1;
        if (make_path(path, sizeof(path), sysfs, "char", dev, "/data_bytes") &&
            read_attribute(path, number, sizeof(number)) && parse_decimal(number, &bytes) && bytes > 0)
                info->size_bytes = bytes;
        return 0;
}

int blkup_block_check_kind(const struct stat *st, const char *name, const char *sysfs,
                           struct blkup_error *err)
{
        struct blkup_block_info unused = { .logical_sector_bytes = SECTOR_BYTES };

        if (S_ISREG(st->st_mode) || S_ISBLK(st->st_mode))
                return 0;
        if (S_ISCHR(st->st_mode))
                return facts_char(name, sysfs, st->st_rdev, &unused, err);
        if (S_ISDIR(st->st_mode))
                return blkup_fail(err, -EISDIR, "%s: is a directory", name);
        return blkup_fail(err, -ENOTBLK, "%s: not a block device, file or UBI volume", name);
}

int blkup_block_facts(int *fd, const char *name, const char *sysfs, uint64_t fixed_diskseq,
                      struct blkup_block_info *ret, bool *ret_suits_ring, struct blkup_error *err)
{
        struct blkup_block_info info = { .logical_sector_bytes = SECTOR_BYTES };
        struct stat st;
        int r = 0;

        if (fstat(*fd, &st) < 0)
                return blkup_fail_errno(err, -errno, "%s", name);
        if (S_ISREG(st.st_mode)) {
                info.kind = BLKUP_BLOCK_FILE;
                info.size_bytes = (uint64_t) st.st_size;
        } else if (S_ISBLK(st.st_mode)) {
                r = facts_block(fd, name, sysfs, fixed_diskseq, st.st_rdev, &info, err);
        } else if (S_ISCHR(st.st_mode)) {
                r = facts_char(name, sysfs, st.st_rdev, &info, err);
        } else {
                r = blkup_block_check_kind(&st, name, sysfs, err);
        }
        if (r < 0)
                return r;
        /* Offsets of pread are signed; no driver makes a larger device. */
        info.size_bytes = blkup_min(info.size_bytes, (uint64_t) INT64_MAX);
        *ret_suits_ring = S_ISBLK(st.st_mode) || (S_ISREG(st.st_mode) && major(st.st_dev) != 0);
        *ret = info;
        return 0;
}
