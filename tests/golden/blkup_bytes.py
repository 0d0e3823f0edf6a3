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


def crc64(data):
    """CRC-64/WE: most significant bit first, ones in and inverted out (bcache, bcachefs)."""
    crc = 0xffffffffffffffff
    for byte in data:
        crc ^= byte << 56
        for _ in range(8):
            crc = (crc << 1 ^ (0x42f0e1eba9ea3693 if crc >> 63 else 0)) & 0xffffffffffffffff
    return crc ^ 0xffffffffffffffff


def xxh64(data, seed=0):
    """xxHash, 64-bit variant (bcachefs)."""
    prime = (0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x85ebca77c2b2ae63, 0x27d4eb2f165667c5)
    mask = (1 << 64) - 1

    def turn(value, by):
        return (value << by | value >> 64 - by) & mask

    def mix(lane, value):
        return turn((lane + value * prime[1]) & mask, 31) * prime[0] & mask

    at, total = 0, seed + prime[4]
    if len(data) >= 32:
        lanes = [seed + prime[0] + prime[1], seed + prime[1], seed, seed - prime[0]]
        while at + 32 <= len(data):
            lanes = [mix(lane, value) for lane, value in zip(lanes, words(data[at:at + 32], 8))]
            at += 32
        total = sum(turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18)))
        for lane in lanes:
            total = ((total & mask ^ mix(0, lane)) * prime[0] + prime[3]) & mask
    total = (total + len(data)) & mask
    for size, scale, by, times, plus in ((8, 0, 27, prime[0], prime[3]), (4, prime[0], 23, prime[1], prime[2]),
                                         (1, prime[4], 11, prime[0], 0)):
        while at + size <= len(data):
            value = int.from_bytes(data[at:at + size], 'little')
            total = (turn(total ^ (mix(0, value) if size == 8 else value * scale & mask), by) * times + plus) & mask
            at += size
    for by, times in ((33, prime[1]), (29, prime[2]), (32, 1)):
        total = (total ^ total >> by) * times & mask
    return total


def words(data, size, big=False):
    """The integers of `size` bytes each that data is made of."""
    return [int.from_bytes(data[at:at + size], 'big' if big else 'little') for at in range(0, len(data), size)]


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
