/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is on the device, seen as the reason why it is not mounted.
 *
 * Sources of offsets and bits: the kernel's Documentation/filesystems/ext4/super.rst,
 * fs/xfs/libxfs/xfs_format.h, fs/btrfs/accessors.h with include/uapi/linux/btrfs_tree.h,
 * fs/squashfs/squashfs_fs.h, fs/erofs/erofs_fs.h; versions of features: the kernel's history.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "bringup/explain-internal.h"
#include "host/hostfile.h"

#define SUPER_BYTES 4096

struct magic {
        const char *type;
        uint64_t at;
        const char *bytes;
        size_t len;
        uint64_t super_at; /* where the super block begins */
        const char *tool;  /* that checks it */
};

static const struct magic magics[] = {
        { "ext4", 1080, "\x53\xef", 2, 1024, "e2fsck" },
        { "ext3", 1080, "\x53\xef", 2, 1024, "e2fsck" },
        { "ext2", 1080, "\x53\xef", 2, 1024, "e2fsck" },
        { "xfs", 0, "XFSB", 4, 0, "xfs_repair" },
        { "btrfs", 65600, "_BHRfS_M", 8, 65536, "btrfs check" },
        { "squashfs", 0, "hsqs", 4, 0, NULL },
        { "erofs", 1024, "\xe2\xe1\xf5\xe0", 4, 1024, "fsck.erofs" },
        { "f2fs", 1024, "\x10\x20\xf5\xf2", 4, 1024, "fsck.f2fs" },
        { "vfat", 510, "\x55\xaa", 2, 0, "fsck.vfat" },
        { "msdos", 510, "\x55\xaa", 2, 0, "fsck.vfat" },
        { "exfat", 3, "EXFAT   ", 8, 0, "fsck.exfat" },
        { "ntfs3", 3, "NTFS    ", 8, 0, NULL },
        { "ntfs", 3, "NTFS    ", 8, 0, NULL },
        { "iso9660", 32769, "CD001", 5, 32768, NULL },
};

static const struct magic *magic_of(const char *type)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(magics); i++)
                if (strcmp(magics[i].type, type) == 0)
                        return &magics[i];
        return NULL;
}

const char *blkup_explain_tool_of(const char *type)
{
        const struct magic *m = magic_of(type);

        return m ? m->tool : NULL;
}

bool blkup_explain_is_no_file_system(const char *type, const char **ret_hint)
{
        static const struct {
                const char *type, *hint;
        } table[] = {
                { "crypto_LUKS", "it is encrypted: cryptsetup open makes a device of it" },
                { "BitLocker", "it is encrypted: cryptsetup bitlkOpen makes a device of it" },
                { "LVM2_member",
                  "it is a part of a volume group: mount one of its volumes (lvs, vgchange -ay)" },
                { "LVM1_member", "it is a part of a volume group: mount one of its volumes" },
                { "linux_raid_member", "it is a member of an array: mount the array (mdadm --assemble)" },
                { "swap", "it is a swap area" },
                { "swsuspend", "it is a hibernation image" },
                { "jbd", "it is another file system's journal" },
                { "zfs_member", "it is a member of a pool: zpool import" },
                { "bcache", "it is a part of a bcache: mount /dev/bcacheN" },
                { "gpt", "it is a partition table: mount one of its partitions, or give offset=" },
                { "dos", "it is a partition table: mount one of its partitions, or give offset=" },
                { "PMBR", "it is a partition table: mount one of its partitions, or give offset=" },
                { "mac", "it is a partition table: mount one of its partitions, or give offset=" },
                { "bsd", "it is a partition table: mount one of its partitions, or give offset=" },
                { "sun", "it is a partition table: mount one of its partitions, or give offset=" },
                { "sgi", "it is a partition table: mount one of its partitions, or give offset=" },
                { "DM_verity_hash", "it is the hash device of a verity device" },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(table); i++)
                if (strcmp(table[i].type, type) == 0) {
                        *ret_hint = table[i].hint;
                        return true;
                }
        if (strlen(type) > 7 && strcmp(type + strlen(type) - 7, "_member") == 0) {
                *ret_hint = "it is a member of an array: mount the array";
                return true;
        }
        return false;
}

const char *blkup_explain_name(const struct blkup_mount_result *r)
{
        return *r->file ? r->file : *r->device ? r->device : r->source;
}

static bool probe_device(struct blkup_explainer *e, const struct blkup_mount_result *r)
{
        enum blkup_verdict verdict;
        bool found;

        blkup_explainer_need_probe(e);
        if (!e->probe)
                return false;
        if (*r->file)
                blkup_probe_set_area(e->probe, r->offset_bytes, r->sizelimit_bytes);
        found = blkup_probe_path(e->probe, blkup_explain_name(r), NULL, &verdict, NULL) == 0 &&
                verdict == BLKUP_VERDICT_FOUND;
        blkup_probe_set_area(e->probe, 0, 0);
        return found;
}

/* The type on a device, "" = not known. */
static const char *type_of(struct blkup_explainer *e, const struct blkup_mount_result *r)
{
        const char *type = probe_device(e, r) ? blkup_probe_lookup(e->probe, "TYPE") : NULL;

        return type ? type : "";
}

/* The kind of its partition table; NULL: it has none. */
static const char *table_of(struct blkup_explainer *e, const struct blkup_mount_result *r)
{
        return probe_device(e, r) ? blkup_probe_lookup(e->probe, "PTTYPE") : NULL;
}

/* What the mount saw: the device, or its part of the image. */
struct content {
        int fd;
        char name[320];
        uint64_t at, len; /* of the file system in fd */
};

static ssize_t read_at(const struct content *c, void *to, size_t n, uint64_t at)
{
        uint64_t from;

        if (at >= c->len || !blkup_add(c->at, at, &from) || from > INT64_MAX)
                return 0;
        return pread(c->fd, to, n < c->len - at ? n : (size_t) (c->len - at), (off_t) from);
}

static bool open_content(const struct blkup_mount_result *r, struct content *ret)
{
        const char *name = blkup_explain_name(r);
        uint64_t at = *r->file ? r->offset_bytes : 0, limit = *r->file ? r->sizelimit_bytes : 0;
        int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

        if (end < 0) {
                (void) blkup_close(fd);
                return false;
        }
        *ret = (struct content){ .fd = fd, .at = at };
        if (at > 0)
                (void) snprintf(ret->name, sizeof(ret->name), "%s from offset %" PRIu64 " on", name, at);
        else
                (void) snprintf(ret->name, sizeof(ret->name), "%s", name);
        ret->len = at < (uint64_t) end ? (uint64_t) end - at : 0;
        if (limit > 0 && limit < ret->len)
                ret->len = limit;
        return true;
}

static bool is_same_family(const char *a, const char *b)
{
        if (strncmp(a, "ext", 3) == 0 && strncmp(b, "ext", 3) == 0 && strlen(a) == 4 && strlen(b) == 4)
                return true;
        if ((strcmp(a, "ntfs3") == 0 && strcmp(b, "ntfs") == 0) ||
            (strcmp(a, "msdos") == 0 && strcmp(b, "vfat") == 0))
                return true;
        return strcmp(a, b) == 0;
}

static void say_bytes(struct blkup_saying *s, const uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                blkup_say(s, "%s%02x", i ? " " : "", p[i]);
}

/* No magic where it should be. */
static void say_bad_magic(const struct magic *m, const struct content *c, struct blkup_saying *s)
{
        uint8_t found[16] = { 0 }, super[SUPER_BYTES];
        struct blkup_bytes view;
        ssize_t got = read_at(c, super, sizeof(super), m->super_at);
        ssize_t n = read_at(c, found, m->len, m->at);

        if (n < 0) {
                blkup_say(s, "byte %" PRIu64 " of %s cannot be read: %s", m->at, c->name,
                          blkup_error_text(errno));
                return;
        }
        if (n < (ssize_t) m->len) {
                blkup_say(s,
                          "%s ends before byte %" PRIu64
                          ", where %s has its super block: wrong or truncated size",
                          c->name, m->at, m->type);
                return;
        }
        view = (struct blkup_bytes){ .data = super, .at = m->super_at, .len = got > 0 ? (size_t) got : 0 };
        blkup_say(s, "no %s super block on %s: at byte %" PRIu64 " expected ", m->type, c->name, m->at);
        say_bytes(s, (const uint8_t *) m->bytes, m->len);
        blkup_say(s, ", found ");
        say_bytes(s, found, m->len);
        if (view.len > 0 && blkup_is_filled(view, 0, view.len, 0))
                blkup_say(s, " (all zeros there)");
        blkup_say(s, "; nothing else that is known is on it either");
}

/* The size that the super block claims; 0: not known. */
static uint64_t claimed_size(const char *type, struct blkup_bytes b)
{
        uint64_t v = 0;

        if (strncmp(type, "ext", 3) == 0) {
                uint64_t blocks = blkup_le32_at(b, 0x4);

                /* 64 KiB is the largest block (EXT4_MAX_BLOCK_LOG_SIZE): with more the size means nothing */
                if (blkup_le32_at(b, 0x18) > 6)
                        return 0;

                if (blkup_le32_at(b, 0x60) & 0x80) /* 64bit */
                        blocks |= (uint64_t) blkup_le32_at(b, 0x150) << 32;
                return blkup_shl(blocks, 10 + (uint64_t) blkup_le32_at(b, 0x18), &v) ? v : 0;
        }
        /* Blocks of 512 bytes to 64 KiB (XFS_MIN_BLOCKSIZE, XFS_MAX_BLOCKSIZE). */
        if (strcmp(type, "xfs") == 0 && (blkup_be32_at(b, 4) < 512 || blkup_be32_at(b, 4) > 65536))
                return 0;
        if (strcmp(type, "xfs") == 0)
                return blkup_mul(blkup_be64_at(b, 8), blkup_be32_at(b, 4), &v) ? v : 0;
        if (strcmp(type, "squashfs") == 0)
                return blkup_le64_at(b, 40);
        /* The size of this member stands in the item of its device: total_bytes at 8 behind 0xc9. */
        if (strcmp(type, "btrfs") == 0)
                return blkup_le64_at(b, 0xd1);
        /* Blocks of 512 bytes (EROFS_MIN_BLOCK_BITS) to the page. */
        if (strcmp(type, "erofs") == 0 && blkup_u8_at(b, 12) > 16)
                return 0;
        if (strcmp(type, "erofs") == 0)
                return blkup_shl(blkup_le32_at(b, 36), blkup_u8_at(b, 12), &v) ? v : 0;
        return 0;
}

static bool say_size(const char *type, struct blkup_bytes super, const struct content *c,
                     struct blkup_saying *s)
{
        uint64_t wants = claimed_size(type, super);

        if (wants == 0 || c->len == 0 || wants <= c->len)
                return false;
        blkup_say(s,
                  "the %s on %s is %" PRIu64 " bytes long, the device only %" PRIu64 ": %" PRIu64
                  " bytes are missing (truncated image, or a wrong partition or sizelimit)",
                  type, c->name, wants, c->len, wants - c->len);
        return true;
}

/* ext4's features that must be understood: their names, and the first kernel that did. */
static const struct {
        uint32_t bit;
        const char *name, *since;
} ext_incompat[] = {
        { 0x1, "compression", NULL }, { 0x2, "filetype", "2.2" }, { 0x4, "needs_recovery", "2.4" },
        { 0x8, "journal_dev", "2.4" }, { 0x10, "meta_bg", "2.6" }, { 0x40, "extent", "2.6.19" },
        { 0x80, "64bit", "2.6.19" }, { 0x100, "mmp", "3.0" }, { 0x200, "flex_bg", "2.6.24" },
        { 0x400, "ea_inode", "4.13" }, { 0x1000, "dirdata", NULL }, { 0x2000, "metadata_csum_seed", "4.4" },
        { 0x4000, "large_dir", "4.13" }, { 0x8000, "inline_data", "3.8" }, { 0x10000, "encrypt", "4.1" },
        { 0x20000, "casefold", "5.2" },
};
static const struct {
        uint32_t bit;
        const char *name, *since;
} ext_ro_compat[] = {
        { 0x1, "sparse_super", "2.2" }, { 0x2, "large_file", "2.2" }, { 0x8, "huge_file", "2.6.28" },
        { 0x10, "uninit_bg", "2.6.24" }, { 0x20, "dir_nlink", "2.6.24" }, { 0x40, "extra_isize", "2.6.24" },
        { 0x100, "quota", "3.6" }, { 0x200, "bigalloc", "3.2" }, { 0x400, "metadata_csum", "3.6" },
        { 0x800, "replica", NULL }, { 0x1000, "read-only", "4.1" }, { 0x2000, "project", "4.5" },
        { 0x4000, "shared_blocks", NULL }, { 0x8000, "verity", "5.4" }, { 0x10000, "orphan_present", "5.16" },
};

/* Version "a.b" against this kernel's. */
static bool is_newer_than_kernel(const char *since)
{
        struct utsname u;
        uint64_t a[2] = { 0 }, k[2] = { 0 };

        if (!since || uname(&u) < 0)
                return true;
        if (blkup_host_numbers(since, ".", a, 2) < 1 || blkup_host_numbers(u.release, ".", k, 2) < 1)
                return true;
        return a[0] > k[0] || (a[0] == k[0] && a[1] > k[1]);
}

#define SAY_BITS(table, value, first)                                                                        \
        do {                                                                                                 \
                uint32_t rest_ = (value);                                                                    \
                for (size_t i_ = 0; i_ < BLKUP_ARRAY_SIZE(table); i_++) {                                    \
                        if (!((value) & (table)[i_].bit))                                                    \
                                continue;                                                                    \
                        rest_ &= ~(table)[i_].bit;                                                           \
                        if (!is_newer_than_kernel((table)[i_].since))                                        \
                                continue;                                                                    \
                        if ((table)[i_].since)                                                               \
                                blkup_say(s, "%s%s (since Linux %s)", (first) ? "" : ", ", (table)[i_].name, \
                                          (table)[i_].since);                                                \
                        else                                                                                 \
                                blkup_say(s, "%s%s (in no Linux)", (first) ? "" : ", ", (table)[i_].name);   \
                        (first) = false;                                                                     \
                }                                                                                            \
                if (rest_) {                                                                                 \
                        blkup_say(s, "%sbit 0x%x (of a later time)", (first) ? "" : ", ", rest_);            \
                        (first) = false;                                                                     \
                }                                                                                            \
        } while (0)

static bool say_features(const struct blkup_mount_result *r, struct blkup_bytes super, struct blkup_saying *s)
{
        uint32_t incompat = blkup_le32_at(super, 0x60), ro_compat = blkup_le32_at(super, 0x64);
        bool first = true, ro_only = false;
        size_t at;

        if (strncmp(r->type, "ext", 3) != 0 || !strstr(r->kernel, "unsupported optional features"))
                return false;
        blkup_say(s, "%s has features that this kernel does not know: ", blkup_explain_name(r));
        at = s->len;
        SAY_BITS(ext_incompat, incompat, first);
        if (first) {
                SAY_BITS(ext_ro_compat, ro_compat, first);
                ro_only = !first;
        }
        if (s->len == at) {
                /* the kernel's own list of bits */
                const char *list = strstr(r->kernel, "features (");

                blkup_say(s, "%.*s", list ? (int) strcspn(list + 10, ")") : 0, list ? list + 10 : "");
        }
        if (ro_only)
                blkup_say(s, "; it can be mounted read-only (-o ro)");
        return true;
}

static bool say_checksum(const struct blkup_mount_result *r, struct blkup_saying *s)
{
        const char *tool = blkup_explain_tool_of(r->type);

        static const char *const texts[] = {
                "checksum error",      "checksum mismatch", "checksum does not match",
                "Superblock checksum", "csum mismatch",     "CRC error",
                "CRC corrupted"
        };
        bool is_said = r->error == -EBADMSG;

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(texts); i++)
                is_said |= strstr(r->kernel, texts[i]) != NULL;
        if (!is_said)
                return false;
        blkup_say(s, "the checksum of the %s super block on %s is wrong: it is damaged", r->type,
                  blkup_explain_name(r));
        if (tool)
                blkup_say(s, "; check it with %s", tool);
        return true;
}

static bool say_members(struct blkup_explainer *e, const struct blkup_mount_result *r,
                        struct blkup_bytes super, struct blkup_saying *s)
{
        uint64_t wants = blkup_le64_at(super, 0x88);
        const char *uuid;
        char copy[64] = "";
        size_t has;

        if (strcmp(r->type, "btrfs") != 0 || wants < 2)
                return false;
        uuid = probe_device(e, r) ? blkup_probe_lookup(e->probe, "UUID") : NULL;
        if (!uuid)
                return false;
        (void) snprintf(copy, sizeof(copy), "%s", uuid);
        has = blkup_explain_count_members(e, copy, NULL, 0);
        if (has >= wants)
                return false;
        blkup_say(s,
                  "btrfs %s has %" PRIu64 " devices, %zu of %" PRIu64
                  " are there: attach the others, or mount it with -o degraded,ro",
                  copy, wants, has, wants);
        return true;
}

/* ext3 and ext4 with their journal on another device: its UUID is at 0xd0, its number when it was made at
 * 0xe4, and the inode of an own journal, 0 here, at 0xe0 (super.rst). */
static bool say_journal(struct blkup_explainer *e, const struct blkup_mount_result *r,
                        struct blkup_bytes super, struct blkup_saying *s)
{
        char uuid[40], first[256];
        size_t n = 0;

        if (strncmp(r->type, "ext", 3) != 0 || !(blkup_le32_at(super, 0x5c) & 0x4) ||
            blkup_le32_at(super, 0xe0) != 0 || blkup_le32_at(super, 0xe4) == 0 ||
            !strstr(r->kernel, "ournal"))
                return false;
        for (unsigned i = 0; i < 16; i++)
                n += (size_t) snprintf(uuid + n, sizeof(uuid) - n, "%s%02x",
                                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                                       blkup_u8_at(super, 0xd0 + i));
        blkup_say(s, "the journal of the %s on %s is on another device, with the UUID %s", r->type,
                  blkup_explain_name(r), uuid);
        n = blkup_explain_count_members(e, uuid, first, sizeof(first));
        if (strstr(r->kernel, "journal UUID does not match"))
                blkup_say(s, ", not the one that was opened");
        if (n > 0)
                blkup_say(s, ": it is on %s: -o journal_path=%s", first, first);
        else
                blkup_say(s, ", and no device here has it: attach it, and say -o journal_path=DEVICE");
        return true;
}

static bool say_content(struct blkup_explainer *e, const struct blkup_mount_result *r,
                        const struct content *c, struct blkup_saying *s)
{
        const struct magic *m = magic_of(r->type);
        const char *found = type_of(e, r), *hint;
        uint8_t super[SUPER_BYTES];
        struct blkup_bytes view;
        ssize_t n;

        if (*found && !is_same_family(r->type, found)) {
                blkup_say(s, "%s holds %s, not %s", c->name, found, r->type);
                if (blkup_explain_is_no_file_system(found, &hint))
                        blkup_say(s, ": %s", hint);
                else
                        blkup_say(s, ": mount it with -t %s, or without -t", found);
                return true;
        }
        if (!m)
                return false;
        n = read_at(c, super, m->len, m->at);
        if (n < (ssize_t) m->len || memcmp(super, m->bytes, m->len) != 0) {
                say_bad_magic(m, c, s);
                return true;
        }
        n = read_at(c, super, sizeof(super), m->super_at);
        if (n <= 0)
                return false;
        view = (struct blkup_bytes){ .data = super, .at = m->super_at, .len = (size_t) n };
        return say_features(r, view, s) || say_journal(e, r, view, s) || say_checksum(r, s) ||
               say_size(r->type, view, c, s) || say_members(e, r, view, s);
}

bool blkup_explain_content(struct blkup_explainer *e, const struct blkup_mount_result *r,
                           struct blkup_saying *s)
{
        struct content c;
        bool said;

        if (!open_content(r, &c))
                return false;
        said = say_content(e, r, &c, s);
        (void) blkup_close(c.fd);
        return said;
}

/* An offset that was not needed. */
static void say_without_offset(struct blkup_explainer *e, const struct blkup_mount_result *r,
                               struct blkup_saying *s)
{
        struct blkup_mount_result whole = *r;
        const char *type, *hint;

        whole.offset_bytes = whole.sizelimit_bytes = 0;
        type = type_of(e, &whole);
        if (*type)
                blkup_say(s,
                          blkup_explain_is_no_file_system(type, &hint) ? "; the whole is %s"
                                                                       : "; without offset= it is %s",
                          type);
}

void blkup_explain_nothing(struct blkup_explainer *e, const struct blkup_mount_result *r,
                           struct blkup_saying *s)
{
        uint8_t bytes[16], zeros[SUPER_BYTES];
        const char *table;
        struct content c;
        bool said = false;

        if (!open_content(r, &c))
                return;
        if (c.at > 0)
                blkup_say(s, " from offset %" PRIu64 " on", c.at);
        if (c.len < 512) {
                blkup_say(s, c.len == 0 ? ": it is empty" : ": it is only %" PRIu64 " bytes long", c.len);
                said = true;
        }
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(magics) && !said; i++) {
                const struct magic *m = &magics[i];

                /* two bytes are there by chance in one of 65536: not said of them but for ext */
                if ((m->len <= 2 && m->at != 1080) || read_at(&c, bytes, m->len, m->at) != (ssize_t) m->len ||
                    memcmp(bytes, m->bytes, m->len) != 0)
                        continue;
                blkup_say(s, "; the mark of %s is there at byte %" PRIu64 ", so its super block is damaged",
                          m->type, m->at);
                if (m->tool)
                        blkup_say(s, ": check it with %s", m->tool);
                said = true;
        }
        if (!said && (table = table_of(e, r)) != NULL) {
                blkup_say(s,
                          "; it holds a partition table (%s): mount one of its partitions, or give offset=",
                          table);
                said = true;
        }
        if (!said && read_at(&c, zeros, sizeof(zeros), 0) == (ssize_t) sizeof(zeros) &&
            blkup_is_filled((struct blkup_bytes){ .data = zeros, .len = sizeof(zeros) }, 0, sizeof(zeros), 0))
                blkup_say(s, "; it begins with zeros: perhaps none was ever made (mkfs)");
        if (c.at > 0)
                say_without_offset(e, r, s);
        (void) blkup_close(c.fd);
}
