# SPDX-License-Identifier: GPL-2.0-or-later
"""For recipes that set bytes: an image as a sparse file, and the checksums that superblocks carry.

    with Image(path, 65536) as image:          # made anew with that size; without it: what is there
        image.put(1024, b'...')                # offsets below 0 count from the end
        image.put(1032, 7, 4)                  # 7 in 4 bytes, little-endian; big=True: big-endian
        image.text(1040, 'a label', 16)        # padded with zeroes
        image.put(1100, crc32c(image.get(1024, 76)), 4)

As a command: `python3 -m blkup_bytes FILE AT HEX [AT HEX]...` sets bytes, `... FILE ext4-csum` makes the checksum
of an ext4 superblock right again.
"""
import os
import sys
import zlib


class Image:
    def __init__(self, path, size=None):
        self.file = open(path, 'r+b' if size is None else 'w+b')
        if size is not None:
            self.file.truncate(size)
        self.size = os.fstat(self.file.fileno()).st_size

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def _seek(self, at):
        self.file.seek(at if at >= 0 else self.size + at)

    def get(self, at, length):
        self._seek(at)
        return self.file.read(length)

    def put(self, at, what, length=None, big=False):
        if isinstance(what, int):
            what = what.to_bytes(length, 'big' if big else 'little')
        self._seek(at)
        self.file.write(what)

    def text(self, at, text, length=None, encoding='utf-8', pad=b'\0'):
        data = text.encode(encoding)
        if length is not None:
            assert len(data) <= length, text
            data = data.ljust(length, pad)
        self.put(at, data)


def _table(polynomial):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _table(0x82f63b78)
_CRC16_CCITT = [0] * 256
for _i in range(256):
    _crc = _i << 8
    for _ in range(8):
        _crc = (_crc << 1 ^ (0x1021 if _crc & 0x8000 else 0)) & 0xffff
    _CRC16_CCITT[_i] = _crc


def crc32c(data, seed=0xffffffff, final=0xffffffff):
    """Castagnoli, as iSCSI has it; ext4 does not invert at the end (final=0)."""
    crc = seed
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ final


def crc32(data, seed=0xffffffff, final=0xffffffff):
    """The one of Ethernet, with the seed of your choice."""
    return zlib.crc32(data, seed ^ 0xffffffff) ^ 0xffffffff ^ final


def crc16_ccitt(data, seed=0):
    """Most significant bit first, polynomial 0x1021 (UDF, seed 0)."""
    crc = seed
    for byte in data:
        crc = _CRC16_CCITT[crc >> 8 ^ byte] ^ (crc << 8 & 0xffff)
    return crc


def main():
    path, rest = sys.argv[1], sys.argv[2:]
    with Image(path) as image:
        if rest == ['ext4-csum']:
            image.put(1024 + 1020, crc32c(image.get(1024, 1020), final=0), 4)
            return
        for at, data in zip(rest[::2], rest[1::2]):
            image.put(int(at, 0), bytes.fromhex(data))


if __name__ == '__main__':
    main()
