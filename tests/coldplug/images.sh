#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# coldplug --image: real file systems of this machine's mkfs, identified, finished, mounted; and nothing written that
# was not asked for.
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"

ext4 plain.img 32M -L plain
ext4 lazy.img 256M -L lazy -E nodiscard,lazy_itable_init=1
mkswap -q swap.img 2>/dev/null || { truncate -s 1M swap.img && mkswap -q swap.img >/dev/null 2>&1; }
images=(plain.img lazy.img swap.img)
open_tables() { # FILE: groups whose inode table is open
        dumpe2fs "$1" 2>/dev/null | grep '^Group [0-9]' | grep -vc ITABLE_ZEROED || true
}
sha256sum "${images[@]}" >before

coldplug --image "${images[@]}"
exits 'identify' 0
is 'identified' "$(jq -r '[.entries[].state] | unique[]' out.json)" identified
is 'types' "$(jq -r '[.devices[].type] | join(" ")' out.json)" 'ext4 ext4 swap'
yes_if 'identify writes nothing' sha256sum --quiet -c before

# Another user's images are identified, and finished where that is asked for.
if setpriv --reuid=65534 --clear-groups true 2>/dev/null; then
        cp lazy.img theirs.img
        chown 65534 theirs.img
        run setpriv --reuid=65534 --regid=65534 --clear-groups "$blkup" coldplug --root "$work/mnt" --finish=always --image theirs.img
        is 'not root' "$code" 0
        is 'not root: finished' "$(open_tables theirs.img)" 0
        no_if 'not root: mounted' test -d mnt
fi

usage_error 'no operands' 1 'no operands' "$blkup" coldplug here.img
usage_error '--root alone' 1 '--root' "$blkup" coldplug --root /mnt
usage_error '--finish' 1 finish "$blkup" coldplug --finish=perhaps --image plain.img
usage_error '--mount' 1 'TAG:DIR' "$blkup" coldplug --mount nothing
usage_error '--only of no kind' 1 'neither a tag' "$blkup" coldplug --only nonsense
usage_error '--image and --only' 1 '--image' "$blkup" coldplug --only LABEL=x --image plain.img
usage_error '--timeline' 1 suffix "$blkup" coldplug --timeline x.txt --image plain.img

coldplug --image plain.img nowhere.img
exits 'one is not there' 64
has 'it is named' "$err" 'nowhere.img'
coldplug --image nowhere.img
exits 'none is there' 32

need_loops
coldplug --root "$work/mnt" --image "${images[@]}"
exits 'read-only' 0
is 'state' "$(entry plain.img .state)" 'mounted ro'
has 'options' ",$(options_of mnt/plain)," ',nosuid,nodev,'
has 'read-only' ",$(options_of mnt/lazy)," ',ro,'
is 'swap is not mounted' "$(entry swap.img .state)" identified
umount mnt/plain mnt/lazy
yes_if 'a read-only run writes nothing' sha256sum --quiet -c before

no_if 'tables are open at first' test "$(open_tables lazy.img)" = 0
coldplug --root "$work/mnt" --finish=always --timeline t.json --image "${images[@]}"
exits 'finish' 0
is 'finished' "$(entry lazy.img .finish.state)" 'done'
is 'mounted' "$(entry lazy.img .state)" mounted
has 'options' ",$(options_of mnt/lazy)," ',rw,nosuid,nodev,'
is 'trace' "$(jq -r '[.traceEvents[] | select(.ph == "X") | .cat] | unique | index("lazyinit") != null' t.json)" true
is 'critical path' "$(jq -r '.critical_path | length > 1' out.json)" true
umount mnt/plain mnt/lazy
is 'no table is open' "$(open_tables lazy.img)" 0
yes_if 'e2fsck' e2fsck -fn lazy.img >/dev/null 2>&1
for ((i = 0; i < 50 && $(count_loops) > 0; i++)); do sleep 0.1; done
is 'loop devices' "$(count_loops)" 0

# Twice the same name, and a dry run.
mkdir other
cp plain.img other/plain.img
coldplug --dry-run --finish=always --root "$work/again" --image plain.img other/plain.img
exits 'dry run' 0
is 'names' "$(jq -r '[.entries[].target] | join(" ")' out.json)" "$work/again/plain $work/again/plain-2"
is 'would' "$(jq -r '[.entries[].state] | unique[]' out.json)" 'would mount'
no_if 'dry run mounts nothing' mounted again/plain
finish
