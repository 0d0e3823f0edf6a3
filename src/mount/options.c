/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/checked.h"
#include "mount/options.h"
#include "mount/syscalls.h"

/* What one word does. */
enum effect {
        ATTR,       /* sets attribute `bits`, out of `mask` */
        ATTR_CLEAR,
        SUPER,      /* the word goes to the super block, where the kernel knows it for all types */
        READ_ONLY,
        READ_WRITE,
        IGNORED,    /* for programs, without effect here */
        USERS,      /* user, owner: implies nosuid, nodev, noexec */
        FLAG,       /* a bool of the struct, by `bits` */
        PROPAGATION,
        USER_VALUE, /* NAME=value for programs */
};

enum { F_BIND = 1, F_RBIND, F_MOVE, F_REMOUNT, F_LOOP, F_NOFAIL, F_NOAUTO, F_NETDEV };

struct known_word {
        const char *name;
        enum effect effect;
        uint64_t bits, mask;
};

#define ATTR_WORD(on, off, bit) { on, ATTR, bit, bit }, { off, ATTR_CLEAR, bit, bit }

static const struct known_word known_words[] = {
        { "defaults", IGNORED, 0, 0 },
        { "ro", READ_ONLY, 0, 0 },
        { "rw", READ_WRITE, 0, 0 },
        ATTR_WORD("nosuid", "suid", BLKUP_MOUNT_ATTR_NOSUID),
        ATTR_WORD("nodev", "dev", BLKUP_MOUNT_ATTR_NODEV),
        ATTR_WORD("noexec", "exec", BLKUP_MOUNT_ATTR_NOEXEC),
        ATTR_WORD("nodiratime", "diratime", BLKUP_MOUNT_ATTR_NODIRATIME),
        ATTR_WORD("nosymfollow", "symfollow", BLKUP_MOUNT_ATTR_NOSYMFOLLOW),
        { "noatime", ATTR, BLKUP_MOUNT_ATTR_NOATIME, BLKUP_MOUNT_ATTR_ATIME },
        { "atime", ATTR, BLKUP_MOUNT_ATTR_RELATIME, BLKUP_MOUNT_ATTR_ATIME },
        { "relatime", ATTR, BLKUP_MOUNT_ATTR_RELATIME, BLKUP_MOUNT_ATTR_ATIME },
        { "norelatime", ATTR, BLKUP_MOUNT_ATTR_RELATIME, BLKUP_MOUNT_ATTR_ATIME },
        { "strictatime", ATTR, BLKUP_MOUNT_ATTR_STRICTATIME, BLKUP_MOUNT_ATTR_ATIME },
        { "nostrictatime", ATTR, BLKUP_MOUNT_ATTR_RELATIME, BLKUP_MOUNT_ATTR_ATIME },
        { "sync", SUPER, 0, 0 }, { "async", SUPER, 0, 0 }, { "dirsync", SUPER, 0, 0 },
        { "lazytime", SUPER, 0, 0 }, { "nolazytime", SUPER, 0, 0 },
        /* mandatory locks went away in 5.15; "silent" is a flag that only mount(2) has */
        { "mand", IGNORED, 0, 0 }, { "nomand", IGNORED, 0, 0 },
        { "silent", IGNORED, 0, 0 }, { "loud", IGNORED, 0, 0 }, { "quiet", SUPER, 0, 0 },
        { "iversion", SUPER, 0, 0 }, { "noiversion", SUPER, 0, 0 },
        { "auto", IGNORED, 0, 0 }, { "group", USERS, 0, 0 }, { "owner", USERS, 0, 0 },
        { "nogroup", IGNORED, 0, 0 }, { "noowner", IGNORED, 0, 0 },
        { "user", USERS, 1, 0 }, { "users", USERS, 1, 0 }, { "nouser", IGNORED, 0, 0 },
        { "nousers", IGNORED, 0, 0 }, { "fail", IGNORED, 0, 0 },
        { "nofail", FLAG, F_NOFAIL, 0 }, { "noauto", FLAG, F_NOAUTO, 0 }, { "_netdev", FLAG, F_NETDEV, 0 },
        { "loop", FLAG, F_LOOP, 0 },
        { "bind", FLAG, F_BIND, 0 }, { "rbind", FLAG, F_RBIND, 0 }, { "move", FLAG, F_MOVE, 0 },
        { "remount", FLAG, F_REMOUNT, 0 },
        { "shared", PROPAGATION, MS_SHARED, 0 }, { "rshared", PROPAGATION, MS_SHARED, 1 },
        { "slave", PROPAGATION, MS_SLAVE, 0 }, { "rslave", PROPAGATION, MS_SLAVE, 1 },
        { "private", PROPAGATION, MS_PRIVATE, 0 }, { "rprivate", PROPAGATION, MS_PRIVATE, 1 },
        { "unbindable", PROPAGATION, MS_UNBINDABLE, 0 }, { "runbindable", PROPAGATION, MS_UNBINDABLE, 1 },
        { "helper", USER_VALUE, 0, 0 }, { "uhelper", USER_VALUE, 0, 0 }, { "comment", USER_VALUE, 0, 0 },
        { "pri", IGNORED, 0, 0 }, { "sw", IGNORED, 0, 0 },
};

bool blkup_mount_next_option(const char **at, const char **ret, size_t *ret_len)
{
        const char *s = *at;
        bool quoted = false;
        size_t n = 0;

        if (!*s)
                return false;
        /* Ends: at the text's NUL. */
        while (s[n] && (quoted || s[n] != ',')) {
                if (s[n] == '"')
                        quoted = !quoted;
                n++;
        }
        *ret = s;
        *ret_len = n;
        *at = s + n + (s[n] == ',');
        return true;
}

bool blkup_mount_parse_size(const char *text, uint64_t *ret)
{
        static const char suffixes[] = "KMGTPE";
        uint64_t v = 0, shift = 0;
        const char *at = text, *suffix;

        if (*at < '0' || *at > '9')
                return false;
        /* Ends: at the first that is no digit. */
        for (; *at >= '0' && *at <= '9'; at++)
                if (!blkup_mul(v, 10, &v) || !blkup_add(v, (uint64_t) (*at - '0'), &v))
                        return false;
        if (*at) {
                char upper = *at >= 'a' && *at <= 'z' ? (char) (*at - 32) : *at;

                suffix = strchr(suffixes, upper);
                if (!suffix)
                        return false;
                shift = 10 * (uint64_t) (suffix - suffixes + 1);
                at++;
                if (at[0] && strcmp(at, "iB") != 0 && strcmp(at, "B") != 0)
                        return false;
        }
        return blkup_shl(v, shift, ret);
}

/* The words lie in a text that is ours: quotes around a value, or a part of it, go. */
static void drop_quotes(char *s)
{
        char *to = s;

        /* Ends: at the text's NUL. */
        for (; *s; s++)
                if (*s != '"')
                        *to++ = *s;
        *to = '\0';
}

static bool starts_with(const char *s, const char *with)
{
        return strncmp(s, with, strlen(with)) == 0;
}

/* "/dev/loop7" or "/dev/loop/7": a number and nothing else, so that no other node is opened. */
static bool is_loop_path(const char *s)
{
        size_t n;

        if (!starts_with(s, "/dev/loop"))
                return false;
        s += strlen("/dev/loop");
        s += *s == '/';
        n = strspn(s, "0123456789");
        return n > 0 && n < 8 && !s[n];
}

static bool set_flag(struct blkup_mount_options *o, uint64_t which, const char *value)
{
        if (value && which != F_LOOP)
                return false;
        switch (which) {
        case F_BIND:
                o->is_bind = true;
                break;
        case F_RBIND:
                o->is_bind = o->is_recursive = true;
                break;
        case F_MOVE:
                o->is_move = true;
                break;
        case F_REMOUNT:
                o->is_remount = true;
                break;
        case F_LOOP:
                if (value && !is_loop_path(value))
                        return false;
                o->is_loop = true;
                o->loop_device = value;
                break;
        case F_NOFAIL:
                o->is_nofail = true;
                break;
        case F_NOAUTO:
                o->is_noauto = true;
                break;
        case F_NETDEV:
                o->is_netdev = true;
                break;
        }
        return true;
}

static void set_attribute(struct blkup_mount_options *o, uint64_t bits, uint64_t mask, bool on)
{
        o->attr_set &= ~mask;
        o->attr_clr &= ~mask;
        if (mask == BLKUP_MOUNT_ATTR_ATIME) {
                /* mount_setattr(2): a change of it needs the whole field in attr_clr. */
                o->has_atime = true;
                o->attr_clr |= mask;
                o->attr_set |= bits;
        } else if (on) {
                o->attr_set |= bits;
        } else {
                o->attr_clr |= bits;
        }
}

static void set_read_only(struct blkup_mount_options *o, bool on)
{
        o->is_read_only = on;
        o->is_read_write = !on;
        set_attribute(o, BLKUP_MOUNT_ATTR_RDONLY, BLKUP_MOUNT_ATTR_RDONLY, on);
}

static bool parse_mode(const char *text, unsigned *ret)
{
        unsigned v = 0;

        if (!*text)
                return false;
        for (; *text; text++) {
                if (*text < '0' || *text > '7' || v > 0777)
                        return false;
                v = v * 8 + (unsigned) (*text - '0');
        }
        *ret = v;
        return v <= 07777;
}

/* Does one word. false: it makes no sense. */
static bool take_word(struct blkup_mount_options *o, const char *key, const char *value)
{
        const struct known_word *w = NULL;

        if (starts_with(key, "x-") || starts_with(key, "X-")) {
                if (strcmp(key, "X-mount.mkdir") == 0 || strcmp(key, "x-mount.mkdir") == 0) {
                        o->mkdir_mode = 0755;
                        if (value && !parse_mode(value, &o->mkdir_mode))
                                return false;
                }
                o->user[o->n_user++] = (struct blkup_mount_option_word){ key, value };
                return true;
        }
        if (strcmp(key, "offset") == 0) {
                o->has_offset = o->is_loop = true;
                return value && blkup_mount_parse_size(value, &o->offset_bytes);
        }
        if (strcmp(key, "sizelimit") == 0) {
                o->is_loop = true;
                return value && blkup_mount_parse_size(value, &o->sizelimit_bytes);
        }
        if (starts_with(key, "verity.")) {
                o->has_verity = true;
                return true;
        }
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(known_words); i++)
                if (known_words[i].name[0] == key[0] && strcmp(known_words[i].name, key) == 0)
                        w = &known_words[i];
        /* A word with a value that the list has without one is the file system's own. */
        if (w && value && w->effect != USER_VALUE && w->effect != FLAG && w->effect != USERS &&
            w->effect != READ_ONLY && w->effect != IGNORED)
                w = NULL;
        if (!w) {
                o->fs[o->n_fs++] = (struct blkup_mount_option_word){ key, value };
                return true;
        }
        switch (w->effect) {
        case ATTR:
        case ATTR_CLEAR:
                set_attribute(o, w->bits, w->mask, w->effect == ATTR);
                break;
        case SUPER:
                o->has_super_flags = true;
                o->fs[o->n_fs++] = (struct blkup_mount_option_word){ key, value };
                break;
        case READ_ONLY:
        case READ_WRITE:
                set_read_only(o, w->effect == READ_ONLY);
                break;
        case USERS:
                set_attribute(o, BLKUP_MOUNT_ATTR_NOSUID, BLKUP_MOUNT_ATTR_NOSUID, true);
                set_attribute(o, BLKUP_MOUNT_ATTR_NODEV, BLKUP_MOUNT_ATTR_NODEV, true);
                if (w->bits)
                        set_attribute(o, BLKUP_MOUNT_ATTR_NOEXEC, BLKUP_MOUNT_ATTR_NOEXEC, true);
                break;
        case FLAG:
                return set_flag(o, w->bits, value);
        case PROPAGATION:
                o->propagation = w->bits;
                o->propagation_is_recursive = w->mask != 0;
                break;
        case USER_VALUE:
                o->user[o->n_user++] = (struct blkup_mount_option_word){ key, value };
                break;
        case IGNORED:
                break;
        }
        return true;
}

static size_t count_words(const char *text)
{
        const char *word;
        size_t n = 0, len;

        while (blkup_mount_next_option(&text, &word, &len))
                n++;
        return n;
}

static int fail_key(const char *key, size_t len, char *bad_key, size_t cap)
{
        if (cap > 0) {
                size_t n = len < cap ? len : cap - 1;

                memcpy(bad_key, key, n);
                bad_key[n] = '\0';
        }
        return -EINVAL;
}

int blkup_mount_options_parse(const char *text, struct blkup_mount_options *ret, char *bad_key, size_t cap)
{
        struct blkup_mount_options o = { 0 };
        const char *at, *word;
        size_t n, len;
        int r = 0;

        if (!text)
                text = "";
        if (strlen(text) > BLKUP_MOUNT_MAX_OPTION_BYTES)
                return -E2BIG;
        n = count_words(text);
        if (n > BLKUP_MOUNT_MAX_OPTIONS)
                return -E2BIG;
        /* Each word moves by its comma at most: the text with a NUL in place of each comma. */
        o.text = malloc(strlen(text) + 1);
        o.fs = calloc(n + 1, sizeof(*o.fs));
        o.user = calloc(n + 1, sizeof(*o.user));
        if (!o.text || !o.fs || !o.user) {
                blkup_mount_options_free(&o);
                return -ENOMEM;
        }
        memcpy(o.text, text, strlen(text) + 1);
        at = o.text;
        /* Ends: each turn goes past one word. */
        while (blkup_mount_next_option(&at, &word, &len)) {
                char *key = o.text + (word - o.text), *value;
                bool ends_open = false;

                for (size_t i = 0; i < len; i++)
                        ends_open ^= key[i] == '"';
                key[len] = '\0';
                if (len == 0)
                        continue;
                if (ends_open || key[0] == '=') {
                        r = fail_key(key, len, bad_key, cap);
                        break;
                }
                value = strchr(key, '=');
                if (value) {
                        *value++ = '\0';
                        drop_quotes(value);
                }
                if (!take_word(&o, key, value)) {
                        r = fail_key(key, strlen(key), bad_key, cap);
                        break;
                }
        }
        if (r == 0 && (o.is_bind + o.is_move + (o.is_remount && o.is_move) > 1))
                r = fail_key("move", 4, bad_key, cap);
        if (r < 0)
                blkup_mount_options_free(&o);
        else
                *ret = o;
        return r;
}

void blkup_mount_options_free(struct blkup_mount_options *o)
{
        if (!o)
                return;
        free(o->text);
        free(o->fs);
        free(o->user);
        *o = (struct blkup_mount_options){ 0 };
}

const char *blkup_mount_options_user(const struct blkup_mount_options *o, const char *name, size_t nth)
{
        for (size_t i = 0; i < o->n_user; i++)
                if (strcmp(o->user[i].key, name) == 0 && nth-- == 0)
                        return o->user[i].value ? o->user[i].value : "";
        return NULL;
}
