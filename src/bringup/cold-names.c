/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which device a path below /dev means, where nobody has made a link: without udev there is none of
 * /dev/disk, and /dev/mapper and /dev/GROUP have what the tools themselves put there.
 *
 *      /dev/mapper/NAME         device-mapper's own name
 *      /dev/GROUP/VOLUME        LVM's name for it: GROUP-VOLUME, each hyphen of either doubled
 *      /dev/md/NAME             what mdadm called it, or the name that its members carry
 *      /dev/disk/by-KIND/VALUE  KIND uuid, label, partuuid, partlabel: as UUID= and so on
 *      /dev/disk/by-id/         dm-name-, dm-uuid-, md-name-, md-uuid-
 *
 * Names by hardware (the rest of by-id, by-path) are made of what udev's own programs ask the hardware for:
 * those are links or nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bringup/cold.h"
#include "mount/names.h"

static const char *behind(const char *s, const char *prefix)
{
        size_t n = strlen(prefix);

        return s && strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

static int digit(char c)
{
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

/* udev writes what a name may not hold as \xNN (udev_device_get_devlinks(), blkid_encode_string()). */
static bool undo_escapes(const char *s, char *ret, size_t cap)
{
        size_t n = 0;

        while (*s && n + 1 < cap) { /* ends: each turn takes characters */
                if (s[0] == '\\' && s[1] == 'x' && digit(s[2]) >= 0 && digit(s[3]) >= 0) {
                        ret[n++] = (char) (digit(s[2]) << 4 | digit(s[3]));
                        s += 4;
                } else {
                        ret[n++] = *s++;
                }
        }
        ret[n] = '\0';
        return !*s;
}

bool blkup_cold_split_tag(const char *source, struct blkup_cold_tag *ret)
{
        static const struct {
                const char *folder, *name;
        } kinds[] = {
                { "uuid/", "UUID" },
                { "label/", "LABEL" },
                { "partuuid/", "PARTUUID" },
                { "partlabel/", "PARTLABEL" },
        };
        const char *rest = behind(source, "/dev/disk/by-"), *value;

        if (blkup_mount_split_tag(source, &ret->name, &ret->value))
                return true;
        for (size_t i = 0; rest && i < BLKUP_ARRAY_SIZE(kinds); i++) {
                value = behind(rest, kinds[i].folder);
                if (value && *value && undo_escapes(value, ret->text, sizeof(ret->text))) {
                        ret->name = kinds[i].name;
                        ret->value = ret->text;
                        return true;
                }
        }
        return false;
}

/* name behind at, with each hyphen twice, as LVM builds the names of mappings (libdm's dm_build_dm_name()).
 * NULL: it is not there. */
static const char *behind_doubled(const char *at, const char *name, size_t n)
{
        for (size_t i = 0; i < n; i++)
                for (unsigned k = 0; k < (name[i] == '-' ? 2u : 1u); k++)
                        if (*at++ != name[i])
                                return NULL;
        return at;
}

/* What LVM hides has a UUID with a word behind the two of group and volume: LVM-…-real. */
static bool is_volume(const struct blkup_cold_device *d, const char *path)
{
        const char *uuid = behind(d->dm_uuid, "LVM-"), *group = behind(path, "/dev/");
        const char *slash = group ? strchr(group, '/') : NULL, *at;

        if (!uuid || strchr(uuid, '-') || !d->dm_name || !slash || !slash[1] || strchr(slash + 1, '/'))
                return false;
        at = behind_doubled(d->dm_name, group, (size_t) (slash - group));
        if (!at || *at++ != '-')
                return false;
        at = behind_doubled(at, slash + 1, strlen(slash + 1));
        return at && !*at;
}

/* "aaaaaaaa:bbbbbbbb:…" of mdadm and "aaaaaaaa-bbbb-…" of others are one. */
static bool is_md_uuid(const char *a, const char *b)
{
        do { /* ends: at the end of either text */
                while (*a == ':' || *a == '-')
                        a++;
                while (*b == ':' || *b == '-')
                        b++;
                if (strncasecmp(a, b, 1) != 0)
                        return false;
        } while (*a++ && *b++);
        return true;
}

/* Members carry HOST:NAME, or NAME where the array has no host (mdadm's super1.c). A name that arrays of two
 * hosts have is nobody's. */
static bool is_name_of_member(const struct blkup_coldplug *c, const struct blkup_cold_device *m,
                              const char *name)
{
        const char *colon = m->d.label ? strchr(m->d.label, ':') : NULL;

        if (!m->d.label || !m->d.uuid)
                return false;
        if (strcmp(m->d.label, name) == 0)
                return true;
        if (!colon || strcmp(colon + 1, name) != 0)
                return false;
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *o = c->devices[i];
                const char *other = o->d.label ? strchr(o->d.label, ':') : NULL;

                if (blkup_cold_is_here(o) && o->d.type && strcmp(o->d.type, "linux_raid_member") == 0 &&
                    o->d.uuid && other && strcmp(other + 1, name) == 0 &&
                    strcasecmp(o->d.uuid, m->d.uuid) != 0)
                        return false;
        }
        return true;
}

static bool is_array(const struct blkup_coldplug *c, const struct blkup_cold_device *d, const char *name,
                     const char *uuid)
{
        const char *node = behind(d->d.path, "/dev/");

        if (!behind(node, "md"))
                return false;
        for (size_t i = 0; i < c->n_sets; i++) {
                const struct blkup_cold_set *set = c->sets[i];
                const char *of = set->s.name && set->s.kind == BLKUP_COLDPLUG_MD ? set->s.name : NULL;

                if (!of || strcmp(behind(of, "/dev/") ? behind(of, "/dev/") : of, node) != 0)
                        continue;
                if (uuid ? is_md_uuid(set->s.uuid, uuid) : set->md_name && strcmp(set->md_name, name) == 0)
                        return true;
        }
        for (size_t i = 0; i < c->n_devices; i++) {
                const struct blkup_cold_device *m = c->devices[i];

                if (blkup_cold_is_here(m) && m->d.type && strcmp(m->d.type, "linux_raid_member") == 0 &&
                    (uuid ? m->d.uuid && is_md_uuid(m->d.uuid, uuid) : is_name_of_member(c, m, name)) &&
                    blkup_cold_stands_on(c, d, m, false))
                        return true;
        }
        return false;
}

/* Is d called so, by what is known of it? */
static bool is_called(const struct blkup_coldplug *c, const struct blkup_cold_device *d, const char *path)
{
        const char *id = behind(path, "/dev/disk/by-id/"), *name = behind(path, "/dev/mapper/"), *uuid;
        char plain[256];

        if (id) {
                if (!undo_escapes(id, plain, sizeof(plain)))
                        return false;
                uuid = behind(plain, "dm-uuid-");
                if (uuid)
                        return d->dm_uuid && strcmp(uuid, d->dm_uuid) == 0;
                uuid = behind(plain, "md-uuid-");
                if (uuid)
                        return is_array(c, d, NULL, uuid);
                /* device-mapper's name has udev's escapes itself */
                name = behind(id, "dm-name-");
                if (!name)
                        return behind(plain, "md-name-") && is_array(c, d, behind(plain, "md-name-"), NULL);
        }
        if (name)
                return d->dm_name && strcmp(name, d->dm_name) == 0;
        name = behind(path, "/dev/md/");
        if (name)
                return is_array(c, d, name, NULL);
        return is_volume(d, path);
}

bool blkup_cold_is_path(const struct blkup_coldplug *c, const struct blkup_cold_device *d, const char *path)
{
        return blkup_cold_is_here(d) &&
               (strcmp(d->d.path, path) == 0 || (!d->d.is_image && is_called(c, d, path)) ||
                blkup_cold_is_node(c, d, path));
}

bool blkup_cold_may_mean(const struct blkup_coldplug *c, const struct blkup_cold_device *d,
                         const char *source)
{
        struct blkup_cold_tag tag;

        return (blkup_cold_split_tag(source, &tag) && blkup_cold_carries(d, tag.name, tag.value)) ||
               (source[0] == '/' && blkup_cold_is_path(c, d, source));
}
