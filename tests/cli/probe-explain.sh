#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# --explain: what it says of each kind of trouble, that it changes no verdict, and that the cage says the same.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mkfs.vfat sfdisk jq

# of IMAGE TYPE: the candidate's state, rule and notes, first of that type.
of() {
        "$blkup" probe --explain --json=lines "$1" 2>/dev/null |
                jq -r --arg t "$2" '[.candidates[] | select(.type == $t)][0] | [.state, .rule] + .notes | join(" ")'
}
explains() { # NAME IMAGE TYPE WANT
        is "$1: $3" "$(of "$2" "$3")" "$4"
}

make_ext4 plain.img 16M plain
make_vfat fat.img 16M FAT
make_gpt gpt.img
make_ambivalent both.img
truncate -s 4M empty.img

explains 'a file system' plain.img ext4 'found reported'
explains 'its relatives' plain.img ext3 'refused own-rules'
is 'evidence' "$("$blkup" probe --explain --json=lines plain.img | jq -c '.candidates[] | select(.type == "ext4") |
        [.magic_offset, .magic_length, .magic_bits, .evidence_bits, .fssize]')" '[1080,2,16,48,16777216]'
gives 'text' 0 "$blkup" probe --explain plain.img
is 'text: the verdict' "$(head -1 out.txt)" 'plain.img: found: ext4'
has 'text: the place' "$out" $'\n  ext4: magic of 2 bytes at 1080 (0x438), 48 bits of evidence (32 beyond the magic)\n    reported: '
explains 'a table' gpt.img gpt 'found reported'
explains 'a table' gpt.img dos 'refused own-rules'
gives 'nothing' 2 "$blkup" probe --explain empty.img
is 'nothing' "$out" 'empty.img: nothing'
gives 'goes on' 2 "$blkup" probe --explain empty.img plain.img nosuch
is 'goes on' "$(grep -c '^[a-z.]*: ' out.txt)" 3

explains ambivalent both.img vfat 'found ambivalent stale'
explains ambivalent both.img ext4 'found ambivalent stale'
gives ambivalent 8 "$blkup" probe --explain both.img
has 'ambivalent: which bytes' "$out" $'\n    if it is stale: wipefs -o 0x438 both.img'
if have wipefs; then
        # The bytes are those that wipefs erases: then nothing is ambivalent any more.
        offset=$(grep -o 'wipefs -o 0x438 .*' out.txt)
        $offset >/dev/null
        is 'ambivalent: after that' "$("$blkup" probe -o value -s TYPE both.img)" vfat
else
        skip 'no wipefs here'
fi

cp plain.img damaged.img
printf x | dd of=damaged.img bs=1 seek=1144 conv=notrunc status=none
explains 'checksum' damaged.img ext4 'damaged own-rules'
has 'checksum' "$("$blkup" probe --explain damaged.img || true)" 'damaged: superblock checksum mismatch'

cp plain.img cut.img
truncate -s 10M cut.img
explains 'larger than its device' cut.img ext4 'found reported larger-than-device'
has 'larger' "$("$blkup" probe --explain cut.img)" 'larger than its device: 16M (16777216 bytes) on 10M (10485760 bytes)'

cp plain.img inside.img
printf 'label: dos\nsize=4M\n' | sfdisk -q --wipe never inside.img
explains 'a table inside' inside.img dos 'found reported table-inside'
explains 'a table inside' inside.img ext4 'found reported'

# Feature bits: what this kernel says of itself decides.
if mkfs.ext4 -q -F -O casefold,verity -E encoding=utf8 features.img 16M 2>/dev/null; then
        notes=''
        if [ -d /sys/fs/ext4/features ]; then
                [ -e /sys/fs/ext4/features/casefold ] || notes+=' no-mount'
                [ -e /sys/fs/ext4/features/verity ] || notes+=' read-only'
        fi
        explains 'features' features.img ext4 "found reported$notes"
fi
cp plain.img future.img
if have debugfs && debugfs -w -R 'ssv feature_incompat 0x80000242' future.img >/dev/null 2>&1; then
        explains 'a bit that nobody knows' future.img ext4 'found reported no-mount'
        has 'a bit that nobody knows' "$("$blkup" probe --explain future.img)" 'this kernel cannot mount it: incompat 0x80000000'
fi

# Other ends of the search, by images of the golden tests.
golden() { # CASE: the image in golden.img
        rm -f golden.img
        PYTHONPATH=$root/tests/golden PYTHONDONTWRITEBYTECODE=1 bash "$root/tests/golden/$1/recipe" "$PWD/golden.img" >/dev/null 2>&1 && [ -e golden.img ]
}
if golden LVM2_member/table; then
        explains 'an overwritten volume' golden.img LVM2_member 'found overwritten stale'
        explains 'an overwritten volume' golden.img dos 'found reported'
else
        skip 'LVM2_member/table cannot be made here'
fi
if golden crypto_LUKS/beside-ext2; then
        explains 'behind LUKS' golden.img crypto_LUKS 'found reported'
        explains 'behind LUKS' golden.img ext2 'found after-raid stale'
else
        skip 'crypto_LUKS/beside-ext2 cannot be made here'
fi
if golden linux_raid_member/1.2-beats-luks; then
        explains 'md and LUKS' golden.img linux_raid_member 'found reported'
        explains 'md and LUKS' golden.img crypto_LUKS 'found after-raid stale'
else
        skip 'linux_raid_member/1.2-beats-luks cannot be made here'
fi
truncate -s 1M tiny.img
mkfs.vfat tiny.img >/dev/null
mkfs.ext2 -q -F tiny.ext2 1M
dd if=tiny.ext2 of=tiny.img bs=1024 skip=1 seek=1 count=1 conv=notrunc status=none
explains 'a tiny device' tiny.img vfat 'found reported'
explains 'a tiny device' tiny.img ext2 'found tiny stale'
"$blkup" probe -n vfat --explain --json=lines plain.img 2>/dev/null >out.txt || true
is 'left out' "$(jq -r '.candidates[] | select(.type == "ext4").rule' out.txt)" left-out

# It changes nothing but what is told, with and without a cage, one after the other or many at a time.
for image in plain fat gpt both empty damaged cut inside future tiny; do
        [ -e $image.img ] || continue
        is "$image: the same answer" "$("$blkup" probe --explain --json=lines $image.img 2>/dev/null | jq -c 'del(.candidates)')" \
                "$("$blkup" probe --json=lines $image.img 2>/dev/null | jq -c .)"
        is "$image: without a cage" "$("$blkup" probe --no-cage --explain $image.img 2>/dev/null)" \
                "$("$blkup" probe --explain $image.img 2>/dev/null)"
        is "$image: many" "$("$blkup" probe -j 2 --explain $image.img plain.img 2>/dev/null)" \
                "$("$blkup" probe --explain $image.img plain.img 2>/dev/null)"
done
"$blkup" probe --io-stats=json empty.img 2>usual.txt || true
is 'not asked for: not paid for' "$(jq -c '[.sectors, .rounds]' usual.txt)" '[43,1]'
usage_error 'with -o' 4 '--explain' "$blkup" probe --explain -o full plain.img
usage_error 'with columns' 4 '--explain' "$blkup" probe --explain --columns NAME plain.img
finish
