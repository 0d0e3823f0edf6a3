#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# --json and --io-stats=json: valid JSON whatever happens, what the schemas say, and the values themselves.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mkfs.vfat sfdisk jq

make_ext4 a.img 16M "a \"label\"\\"
make_vfat b.img 8M BOOT
make_dos dos.img
make_gpt gpt.img
make_ambivalent both.img
make_ext4 bytes.img 16M $'\377\033[31m\177</é'
truncate -s 16M empty.img
truncate -s 0 zero.img

schema=
if python3 -c 'import jsonschema' 2>/dev/null; then
        schema=$root/docs/schema
else
        skip 'the schemas: no python3-jsonschema here'
fi

# validate SCHEMA FILE...: each JSON text of the files fits, and no object has a key twice. Prints what does not.
validate() {
        python3 - "$@" <<'PYTHON'
import json, sys
import jsonschema

def unique(items):
    keys = [key for key, _ in items]
    if len(keys) != len(set(keys)):
        raise ValueError("a key twice: %s" % keys)
    return dict(items)

schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
decoder = json.JSONDecoder(object_pairs_hook=unique)
for name in sys.argv[2:]:
    text, at, n = open(name).read().strip(), 0, 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            while at < len(text) and text[at].isspace():
                at += 1
            n += 1
            for error in validator.iter_errors(value):
                print(name, error.json_path, [e.message for e in error.context] or error.message)
    except ValueError as error:
        print(name, error)
    if n == 0:
        print(name, "no JSON")
PYTHON
}

# json NAME CODE ARGUMENT...: the answer is one JSON text; it is left in $out, and kept for the schema.
mkdir cases
json() {
        local name=$1 want=$2 trouble
        shift 2
        run "$blkup" probe --json "$@"
        if [ "$code" != "$want" ]; then
                fail "$name: exit $code, not $want" "$(shown)"
                return
        fi
        pass
        if ! trouble=$(jq -e -n '[inputs] | length == 1' out.txt 2>&1); then
                fail "$name: no single JSON text: $trouble" "$(shown)"
        else
                cp out.txt "cases/$name.json"
                pass
        fi
}

# value FILTER WANT: what jq finds in the last answer.
value() {
        is "$1" "$(jq -c "$1" <<<"$out" 2>&1)" "$2"
}

json 'a file system' 0 a.img
value '.blkup.schema' 1
is 'the version' "$(jq -r .blkup.version <<<"$out")" "$("$blkup" --version | cut -d' ' -f2)"
value '.devices | length' 1
value '.devices[0].device' '"a.img"'
value '.devices[0].verdict' '"found"'
value '.devices[0].size' 16777216
value '.devices[0].type' '"ext4"'
value '.devices[0].usage' '"filesystem"'
value '.devices[0].uuid' '"3e6be9de-8139-4a1c-9106-a43f08d823a6"'
value '.devices[0].label' '"a \"label\"\\"'
value '.devices[0].version' '"1.0"'
value '.devices[0].block_size' 1024
value '.devices[0] | has("ambivalent") or has("error") or has("partitions")' false

json 'vfat' 0 b.img
value '.devices[0].uuid' '"1A2B-3C4D"'
value '.devices[0].sec_type' '"msdos"'

json 'only some tags' 0 -s TYPE -s MUMBLE a.img
value '.devices[0] | keys' '["device","size","type","verdict"]'

json 'nothing' 2 empty.img
value '.devices[0]' '{"device":"empty.img","verdict":"nothing","size":16777216}'
json 'size 0' 2 zero.img
value '.devices[0].size' 0
json 'missing' 2 nosuch
value '.devices[0].verdict' '"unknown"'
value '.devices[0].error' '"No such file or directory"'
json 'a folder' 2 .
json 'all at once' 2 a.img nosuch empty.img both.img . dos.img
value '[.devices[].verdict]' '["found","unknown","nothing","ambivalent","unknown","found"]'
value '[.devices[].device]' '["a.img","nosuch","empty.img","both.img",".","dos.img"]'
json 'a name that is no UTF-8' 2 $'no\377such\n'
value '.devices[0].device' "\"no$(printf '\357\277\275')such\\n\""

json 'ambivalent' 8 both.img
value '.devices[0].ambivalent' \
        '[{"type":"vfat","usage":"filesystem","version":"FAT16"},{"type":"ext4","usage":"filesystem","version":"1.0"}]'
value '.devices[0] | has("type")' false

json 'a label of bytes' 0 bytes.img
value '.devices[0].label' "\"$(printf '\357\277\275')\\u001b[31m\\u007f</é\""
is 'no control character in the text' "$(tr -d '\n' <out.txt | tr -dc '\001-\037\177' | wc -c)" 0

json 'partitions of gpt' 0 --partitions gpt.img
value '.devices[0].pttype' '"gpt"'
value '.devices[0].partitions | length' 2
value '.devices[0].partitions[0] | del(.uuid)' \
        '{"number":1,"scheme":"gpt","start_sectors":2048,"size_sectors":8192,"type":"c12a7328-f81f-11d2-ba4b-00a0c93ec93b","name":"system boot"}'
value '.devices[0].partitions[1].uuid' '"1f0e0d0c-0b0a-0908-0706-050403020100"'
value '.devices[0].partitions[1].flags' '"0x8000000000000000"'
json 'partitions of gpt, all of them' 0 --partitions gpt.img
value '.devices[0] | has("partitions_cut")' false
# More than are listed: told, not hidden. 2048 entries from sector 4096 on, a sector each.
python3 - many.img <<'END'
import struct, sys, uuid, zlib
n = 1100
array = b''.join(uuid.UUID('0FC63DAF-8483-4772-8E79-3D69D8477DE4').bytes_le + uuid.UUID(int=i + 1).bytes_le +
                 struct.pack('<QQQ', 4096 + i, 4096 + i, 0) + bytes(72) for i in range(n))
size, first, last = 8192, 2 + len(array) // 512 + 1, 8192 - 34
head = struct.pack('<8sIIIIQQQQ16sQIII', b'EFI PART', 0x10000, 92, 0, 0, 1, size - 1, first, last, bytes(16), 2, n, 128,
                   zlib.crc32(array))
head = head[:16] + struct.pack('<I', zlib.crc32(head)) + head[20:]
mbr = bytes(446) + bytes([0, 0, 2, 0, 0xee, 255, 255, 255]) + struct.pack('<II', 1, size - 1) + bytes(48) + b'\x55\xaa'
with open(sys.argv[1], 'wb') as image:
    image.write(mbr + head.ljust(512, b'\0') + array)
    image.truncate(size * 512)
END
run "$blkup" probe --json --partitions many.img
is 'partitions cut: exit' "$code" 0
is 'partitions cut: so many' "$(jq -c '.devices[0] | [(.partitions | length), .partitions_cut, .pttype]' out.txt)" '[1024,true,"gpt"]'
is 'partitions cut: warned' "$(cat err.txt)" \
        'blkup: probe: many.img: warning: the table has more than the 1024 partitions that are listed'
[ -z "$schema" ] || is 'partitions cut: the schema' "$(validate "$schema/probe.json" out.txt 2>&1)" ''
json 'partitions of dos' 0 --partitions dos.img
value '[.devices[0].partitions[].number]' '[1,2,5,6]'
value '[.devices[0].partitions[].type]' '["0x83","0x5","0x82","0x83"]'
value '.devices[0].partitions[0].flags' '"0x80"'
value '.devices[0].partitions[2].start_sectors' 12288
# A list that is too long, or cannot be read, ends before its end; the table stands, and a line says so.
entry() { # TYPE START SIZE
        printf '\0\0\0\0%b\0\0\0' "\\x$1"
        printf '%b' "$(printf '\\x%02x' $(($2 & 255)) $(($2 >> 8)) 0 0 $(($3 & 255)) $(($3 >> 8)) 0 0)"
}
sector() { # ENTRY ENTRY, as arguments of entry()
        head -c 446 /dev/zero
        # shellcheck disable=SC2086
        { entry $1; entry $2; }
        head -c 32 /dev/zero
        printf '\x55\xaa'
}
{
        sector '05 1 2000' '00 0 0'
        for ((i = 1; i <= 200; i++)); do sector "83 1000 1" "05 $i 1"; done
        # room for what was promised
        head -c 1M /dev/zero
} >chain.img
json 'a long chain' 0 --partitions chain.img
value '.devices[0].pttype' '"dos"'
value '.devices[0].partitions | length > 100' true
value '.devices[0].error | startswith("gave up")' true
is 'a long chain: one line' "$(cat err.txt)" "$(jq -r '"blkup: probe: chain.img: warning: " + .devices[0].error' out.txt)"
json 'partitions of a file system' 0 --partitions a.img
value '.devices[0].partitions' '[]'
json 'partitions of nothing' 2 --partitions empty.img
json 'partitions of what is not there' 2 --partitions nosuch
value '.devices[0] | has("partitions")' false

json 'columns' 0 --columns name,FsType,SIZE,TIME,LABEL,NAME a.img
value '.devices[0] | keys_unsorted' '["name","fstype","size","time","label"]'
value '.devices[0].size' 16777216
value '.devices[0].time > 0' true
json 'every column' 8 --partitions \
        --columns "$("$blkup" probe --help | sed -n '/^Columns/,/^$/s/^ [* ] \([A-Z_]*\) .*/\1/p' | paste -sd,)" \
        a.img b.img dos.img gpt.img both.img empty.img nosuch
value '.devices | length' 7
value '.devices[0].block_size' 1024
value '.devices[6] | del(.name, .verdict) | [.[]] | unique' '[null]'
value '[.devices[3].children[] | {name, partn, start, size, partlabel}]' \
        '[{"name":"gpt.img1","partn":1,"start":2048,"size":4194304,"partlabel":"system boot"},{"name":"gpt.img2","partn":2,"start":10240,"size":4194304,"partlabel":"Daten"}]'
value '[.devices[].verdict]' '["found","found","found","found","ambivalent","nothing","unknown"]'
json 'the usual columns' 0 --columns +VERDICT a.img
value '.devices[0] | keys_unsorted' \
        '["name","size","fstype","fsver","label","uuid","pttype","reads","time","verdict"]'
json 'a tree of one level' 0 --columns NAME --partitions dos.img
value '[.devices[0].children[].name]' '["dos.img1","dos.img2","dos.img5","dos.img6"]'

# --io-stats=json: one line a device, after all else on stderr.
keys='["device","submissions","reads","bytes","sectors","pages","rounds","ns"]'
run "$blkup" probe --io-stats=json --debug --json a.img nosuch empty.img both.img
is 'io-stats: exit' "$code" 2
tail -n 3 err.txt >stats.txt
is 'io-stats: the devices that were read' "$(jq -r .device stats.txt | paste -sd' ')" 'a.img empty.img both.img'
is 'io-stats: exactly these keys' "$(jq -c keys_unsorted stats.txt | sort -u)" "$keys"
is 'io-stats: nothing of it before' "$(head -n -3 err.txt | grep -c '^{' || true)" 0
[ -z "$schema" ] || is 'io-stats: the schema' "$(validate "$schema/probe-io-stats.json" stats.txt 2>&1)" ''
is 'io-stats: they hold together' "$(jq -c '.reads >= 1 and .submissions >= 1 and .rounds >= 1 and .ns > 0 and
        .bytes <= .sectors * 512 + .bytes and .sectors <= .pages * 8 and .bytes > 0' stats.txt | sort -u)" true
is 'io-stats: the columns are the same numbers' \
        "$("$blkup" probe --json --columns IO,READS,BYTES,SECTORS,PAGES,ROUNDS a.img | jq -c '.devices[0] | [.[]]')" \
        "$("$blkup" probe --io-stats=json a.img 2>&1 >/dev/null | jq -c '[.submissions,.reads,.bytes,.sectors,.pages,.rounds]')"
run "$blkup" probe --io-stats=json a.img empty.img dos.img
is 'io-stats: also when the run ends early' "$(jq -r .device err.txt | paste -sd' ')" 'a.img empty.img'
run "$blkup" probe --io-stats=json nosuch
is 'io-stats: nothing was read' "$(grep -c '^{' err.txt || true)" 0
run "$blkup" probe --io-stats a.img
matches 'io-stats for people' "$err" \
        'a.img: [0-9]+ reads? of [0-9]+ bytes \([0-9]+ sectors?, [0-9]+ pages?\) in [0-9]+ submissions? and [0-9]+ rounds?, [0-9]+\.[0-9]{3} ms'

if [ -n "$schema" ]; then
        is 'the schema' "$(validate "$schema/probe.json" cases/*.json 2>&1)" ''
        # A schema that takes anything would be worth nothing.
        mkdir wrong
        first='cases/a file system.json'
        jq '.devices[0].verdict = "perhaps"' "$first" >wrong/verdict.json
        jq '.devices[0].block_size = "1024"' "$first" >wrong/number.json
        jq '.devices[0].label = 5' "$first" >wrong/text.json
        jq 'del(.blkup.schema)' "$first" >wrong/schema.json
        jq '.devices[0].partitions = [{"number": 1}]' "$first" >wrong/partition.json
        jq '.devices[0] |= del(.ambivalent)' cases/ambivalent.json >wrong/ambivalent.json
        jq 'del(.devices)' "$first" >wrong/devices.json
        jq '.devices[0].mumble = "x"' cases/columns.json >wrong/columns.json
        for file in wrong/*; do
                if [ -n "$(validate "$schema/probe.json" "$file" 2>&1)" ]; then pass; else fail "the schema takes $file"; fi
        done
fi

finish
