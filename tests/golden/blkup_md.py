# SPDX-License-Identifier: GPL-2.0-or-later
"""md superblocks for recipes: what mdadm --create writes, which needs the kernel's md for it."""
from blkup_bytes import words

UUID = bytes.fromhex('6f7d1c2e3b4a4c5d8e6f0123456789ab')
DEVICE_UUID = bytes.fromhex('00112233445566778899aabbccddeeff')


def checksum(sb):
    """The sum of the 32-bit words, a last half word as well, carried around once."""
    total = sum(words(sb[:len(sb) & ~3], 4)) + (int.from_bytes(sb[-2:], 'little') if len(sb) % 4 else 0)
    return ((total & 0xffffffff) + (total >> 32)) & 0xffffffff


def version_0(image, size_kib, big=False, minor=90):
    """Format 0.90 in the last whole 64 KiB but one. Returns where."""
    at = (image.size & ~0xffff) - 65536
    uuid = words(UUID, 4, big=True)
    for offset, value in ((0, 0xa92b4efc), (4, 0), (8, minor), (12, 0), (20, uuid[0]), (28, 1), (32, size_kib), (36, 2),
                          (40, 2), (44, 0), (52, uuid[1]), (56, uuid[2]), (60, uuid[3])):
        image.put(at + offset, value, 4, big)
    return at


def version_1(image, minor, name=b'host:0', roles=2, offset=None, data=None):
    """Format 1.0, 1.1 or 1.2. Returns where."""
    at = ((image.size & ~0xfff) - 8192, 0, 4096)[minor]
    sb = bytearray(256 + 2 * roles)
    fields = ((0, 0xa92b4efc, 4), (4, 1, 4), (72, 1, 4), (80, 2048, 8), (92, 2, 4), (128, 2048, 8), (136, 2048, 8),
              (144, at // 512 if offset is None else offset, 8), (220, roles, 4), *(data or ()))
    for where, value, length in fields:
        sb[where:where + length] = value.to_bytes(length, 'little')
    sb[16:32] = UUID
    sb[32:64] = name.ljust(32, b'\0')
    sb[168:184] = DEVICE_UUID
    for role in range(roles):
        sb[256 + 2 * role:258 + 2 * role] = role.to_bytes(2, 'little')
    sb[216:220] = checksum(bytes(sb)).to_bytes(4, 'little')
    image.put(at, bytes(sb))
    return at
