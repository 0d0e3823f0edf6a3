/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* jbd: a journal of ext3 or ext4 on a device of its own. Source: kernel
 * Documentation/filesystems/ext4/journal.rst. */
#include "probe/formats/ext.h"
#include "probe/formats/fields.h"

static enum blkup_outcome check(struct blkup_view *v, const struct blkup_hit *hit, struct blkup_found *ret)
{
        struct blkup_ext_super s;
        enum blkup_outcome o = blkup_ext_fetch(v, &s);

        (void) hit;
        if (o != BLKUP_FOUND)
                return o;
        if (!(s.incompat & BLKUP_EXT_INCOMPAT_JOURNAL_DEV))
                return blkup_refuse(v, "not a journal device");
        blkup_ext_describe(&s, "jbd", ret);
        blkup_found_uuid(ret, "LOGUUID", blkup_slice_at(s.sb, BLKUP_EXT_SB_UUID, 16));
        return BLKUP_FOUND;
}

extern const struct blkup_format blkup_format_jbd;
const struct blkup_format blkup_format_jbd = {
        .name = "jbd", .usage = BLKUP_USAGE_OTHER, .magics = blkup_ext_magics,
        .n_magics = BLKUP_ARRAY_SIZE(blkup_ext_magics), .check = check,
};
