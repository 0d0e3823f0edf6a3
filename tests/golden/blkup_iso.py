# SPDX-License-Identifier: GPL-2.0-or-later
"""Discs for recipes, of ECMA-119 and its forerunner High Sierra: descriptors and a root directory, no files."""
BLOCK = 2048
DATE = b'2024022913570642'


def both(value, length):
    return value.to_bytes(length, 'little') + value.to_bytes(length, 'big')


def record(extent):
    """The directory record of a root."""
    return bytes([34, 0]) + both(extent, 4) + both(BLOCK, 4) + bytes(7) + bytes([2, 0, 0]) + both(1, 2) + bytes([1, 0])


def text(what, length, encoding='ascii'):
    """A field filled up with blanks; a bytes object is taken as it is."""
    data = what if isinstance(what, bytes) else what.encode(encoding)
    return data.ljust(length, b' ') if encoding == 'ascii' else (data + ' '.encode(encoding) * length)[:length]


def descriptor(kind=1, extent=20, blocks=100, system='LINUX', volume='VOLUME', volume_set='', publisher='', preparer='',
               application='', created=DATE + b'\4', modified=b'0' * 16 + b'\0', block=BLOCK, escapes=b'', high_sierra=False):
    """A primary (1) or supplementary (2) descriptor."""
    encoding = 'ascii' if kind == 1 else 'utf-16-be'
    skip, later = (8, 16) if high_sierra else (0, 0)
    data = bytearray(BLOCK)
    data[skip:skip + 7] = bytes([kind]) + (b'CDROM' if high_sierra else b'CD001') + b'\1'
    data[skip + 8:skip + 40] = text(system, 32, encoding)
    data[skip + 40:skip + 72] = text(volume, 32, encoding)
    data[skip + 80:skip + 88] = both(blocks, 4)
    data[88:88 + len(escapes)] = escapes
    data[skip + 128:skip + 132] = both(block, 2)
    data[156 + later:190 + later] = record(extent)
    for at, what in ((190, volume_set), (318, publisher), (446, preparer), (574, application)):
        data[at + later:at + later + 128] = text(what, 128, encoding)
    if high_sierra:
        data[782:798], data[798:814] = created[:16], modified[:16]
    else:
        data[813:830], data[830:847] = created, modified
    return bytes(data)


def boot(system):
    return (b'\0CD001\1' + text(system, 32)).ljust(BLOCK, b'\0')


def end(high_sierra=False):
    return (bytes(8) + b'\xffCDROM\1' if high_sierra else b'\xffCD001\1').ljust(BLOCK, b'\0')


def disc(image, descriptors, extent=20, session=0):
    """The descriptors from block 16 of the session on, and the root directory at block `extent` of the disc."""
    for number, data in enumerate(descriptors):
        image.put(session + (16 + number) * BLOCK, data)
    image.put(extent * BLOCK, record(extent))
