#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The table: by libsmartcols and without it, on a terminal and not, colours and widths.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mkfs.vfat sfdisk

make_ext4 a.img 16M 'a label'
make_ext4 wide.img 16M '漢字é'
make_ext4 odd.img 16M $'\033[31m\n\377'
make_vfat b.img 1536K BOOT
make_dos dos.img
make_gpt gpt.img
make_ambivalent both.img
truncate -s 16M empty.img
truncate -s 1000 odd-size.img
columns=NAME,SIZE,FSTYPE,LABEL,UUID,PTTYPE,VERDICT

# A library that cannot be loaded: the columns are printed plainly.
mkdir nolib
: >nolib/libsmartcols.so.1

table() {
        "$blkup" probe --columns "$@" 2>/dev/null | sed 's/ *$//'
}

plain() {
        LD_LIBRARY_PATH=$work/nolib "$blkup" probe --columns "$@" 2>/dev/null
}

want='NAME    SIZE FSTYPE LABEL   PTTYPE
a.img    16M ext4   a label
b.img   1.5M vfat   BOOT
dos.img  16M                dos'
is 'the table' "$(table NAME,SIZE,FSTYPE,LABEL,PTTYPE a.img b.img dos.img)" "$want"
is 'the table without the library' "$(plain NAME,SIZE,FSTYPE,LABEL,PTTYPE a.img b.img dos.img)" "$want"
is 'in another order' "$(table LABEL,NAME a.img b.img)" $'LABEL   NAME\na label a.img\nBOOT    b.img'
is 'a column twice' "$(table NAME,NAME a.img)" $'NAME\na.img'
is 'in lower case' "$(table name,Size a.img)" $'NAME  SIZE\na.img  16M'
is 'in bytes' "$(table NAME,SIZE,FSSIZE -b a.img b.img)" $'NAME      SIZE   FSSIZE\na.img 16777216 16777216\nb.img  1572864 '"$("$blkup" probe -o value -s FSSIZE b.img | sed -e :a -e 's/^.\{1,7\}$/ &/;ta')"
is 'without headings' "$(table NAME,SIZE --noheadings a.img)" 'a.img  16M'
is 'sizes' "$(table SIZE --noheadings odd-size.img)" '1000B'
is 'added columns' "$(table +VERDICT a.img | head -n 1 | tr -s ' ')" 'NAME SIZE FSTYPE FSVER LABEL UUID PTTYPE READS TIME VERDICT'

for args in "$columns a.img b.img dos.img gpt.img both.img empty.img nosuch" \
        "$columns --partitions gpt.img a.img dos.img" "NAME,LABEL,VERDICT a.img wide.img odd.img" \
        "LABEL,NAME --noheadings wide.img a.img odd.img" "NAME,SIZE,PARTN --noheadings a.img" "NAME nosuch" "NAME,PARTN,START,SIZE,PARTTYPE,PARTUUID,PARTLABEL,PARTFLAGS --partitions dos.img gpt.img"; do
        # shellcheck disable=SC2086
        is "plain and libsmartcols agree: $args" "$(plain $args)" "$(table $args)"
        # Characters beyond ASCII have no width there that both would agree on.
        args=${args/wide.img/}
        # shellcheck disable=SC2086
        is "the same in ASCII: $args" "$(LC_ALL=C plain $args)" "$(LC_ALL=C table $args)"
done

is 'partitions' "$(table NAME,SIZE,PARTN,PARTTYPE,PARTFLAGS --partitions dos.img)" 'NAME       SIZE PARTN PARTTYPE PARTFLAGS
dos.img     16M
├─dos.img1   4M     1 0x83     0x80
├─dos.img2   8M     2 0x5
├─dos.img5   2M     5 0x82
└─dos.img6   2M     6 0x83'
cp dos.img disk0
is 'a name that ends in a digit' "$(table NAME --partitions --noheadings disk0 | tail -n 1)" '└─disk0p6'
gives '--partitions alone means the table' 0 "$blkup" probe --partitions dos.img
has '--partitions alone means the table' "$out" '─dos.img6'

# Untrusted text reaches no terminal as it is.
is 'odd label' "$(table LABEL --noheadings odd.img)" '\x1b[31m\x0a\xff'
is 'odd label, plain' "$(plain LABEL --noheadings odd.img)" '\x1b[31m\x0a\xff'
is 'no control character' "$(table "$columns" odd.img both.img nosuch | tr -d '\n' | tr -dc '\000-\037\177' | wc -c)" 0

# On a terminal.
if have script; then
        # ENVIRONMENT ARGUMENT...: what a terminal of 200 columns gets.
        terminal() {
                local setting=$1
                shift
                env "$setting" TERM=xterm COLUMNS=200 script -qec "stty cols 200; '$blkup' probe $*" /dev/null </dev/null >typescript.txt || true
                tr -d '\r' <typescript.txt
        }
        out=$(terminal A=a a.img both.img)
        matches 'the table is usual on a terminal' "$(grep ^NAME <<<"$out" | tr -s ' ')" 'NAME SIZE FSTYPE FSVER LABEL UUID PTTYPE READS TIME'
        has 'an ambivalent device is coloured' "$out" $'\e[33m'
        has 'and told' "$out" 'ambivalent result'
        has 'a missing one too' "$(terminal A=a nosuch)" $'\e[31m'
        has 'also without the library' "$(terminal "LD_LIBRARY_PATH=$work/nolib" both.img)" $'\e[33m'
        is 'not with NO_COLOR' "$(terminal NO_COLOR=1 both.img nosuch | tr -dc '\033' | wc -c)" 0
        is 'not with NO_COLOR, plain' "$(NO_COLOR=1 terminal "LD_LIBRARY_PATH=$work/nolib" both.img | tr -dc '\033' | wc -c)" 0
        has 'an empty NO_COLOR is none' "$(terminal NO_COLOR= both.img)" $'\e[33m'
        has '-o is obeyed on a terminal' "$(terminal A=a -o export -s TYPE a.img)" $'DEVNAME=a.img\nTYPE=ext4'
        has '-s means the tags' "$(terminal A=a -s TYPE a.img)" 'a.img: TYPE="ext4"'
        has 'JSON is obeyed on a terminal' "$(terminal A=a --json a.img)" '"type": "ext4"'
else
        skip 'the terminal: no script(1) here'
fi
is 'no colour elsewhere' "$("$blkup" probe --columns NAME both.img 2>/dev/null | tr -dc '\033' | wc -c)" 0

finish
