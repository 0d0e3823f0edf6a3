#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Tables that people write, and some thousand made at random, read by our parser and by libmount.
# usage: oracle.sh ORACLE
set -euo pipefail
oracle=$(realpath "${1:?ORACLE}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >fstab <<'END'
# /etc/fstab: static file system information.
UUID=3e6be9de-8139-4a1c-9106-a43f08d823a6 / ext4 errors=remount-ro 0 1

/dev/sda2	none	swap	sw	0	0
LABEL=Foo\040Bar /mnt/a\040b\011c xfs noatime,nofail,x-systemd.device-timeout=9 0 2
LABEL="data" /srv btrfs subvol=@srv,compress=zstd:3 0 0
PARTUUID=deadbeef-01 /boot/efi vfat umask=0077 0 1
server:/export /net nfs4 _netdev,soft,timeo=30 0 0
//server/share /smb cifs credentials=/etc/cred,uid=1000 0 0
tmpfs /tmp tmpfs size=2g,mode=1777
/srv/x /mnt/bind none bind,ro
proc /proc proc defaults
overlay /ov overlay lowerdir=/a:/b,upperdir=/c,workdir=/d 0 0
/dev/vdb /m\134n ext4,xfs context="system_u:object_r:tmp_t:s0:c127,c456",noexec 1 2
/dev/sr0 /cd udf,iso9660 user,noauto 0 0
END
passed=0 failed=0
check() {
        if "$oracle" "$1" >out; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL: $1"
                cat out "$1"
        fi
}
check fstab
for ((seed = 1; seed <= 50; seed++)); do
        awk -v seed=$seed '
        function pick(list, n, a) { n = split(list, a, " "); return a[int(rand() * n) + 1] }
        function word(k, s, i) {
                s = ""
                for (i = 0; i < k; i++) s = s pick("a b Z 9 . _ - \\040 \\011 \\134 \\043 / é :")
                return s
        }
        BEGIN {
                srand(seed)
                for (i = 0; i < 40; i++) {
                        blank = pick("1 2 3"); b = blank == 1 ? " " : blank == 2 ? "\t" : "  \t "
                        line = pick("/dev/x UUID=ab-cd LABEL=l tmpfs h:/e") word(int(rand() * 6))
                        line = line b "/" word(int(rand() * 12)) b pick("ext4 auto none ext4,xfs fuse.sshfs")
                        if (rand() < 0.8) line = line b pick("defaults ro,nofail a=b,c size=1g,x-y=z k=\"p,q\",r")
                        else { print line; continue }
                        if (rand() < 0.7) line = line b int(rand() * 3)
                        else { print line; continue }
                        if (rand() < 0.7) line = line b int(rand() * 3)
                        print (rand() < 0.2 ? "  " : "") line
                }
        }' >"random$seed"
        check "random$seed"
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
