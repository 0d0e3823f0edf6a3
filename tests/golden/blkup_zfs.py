# SPDX-License-Identifier: GPL-2.0-or-later
"""Labels of a zfs vdev for recipes: a packed list of names and values (XDR), 16 KiB into each of four labels."""
POOL, DEVICE = 1234567890123456789, 987654321098765432


def padded(data):
    return data + bytes(-len(data) % 4)


def pair(name, kind, value):
    """One pair; kind: 8 number, 9 text, 19 list."""
    body = len(name).to_bytes(4, 'big') + padded(name.encode()) + kind.to_bytes(4, 'big') + (1).to_bytes(4, 'big') + value
    return (len(body) + 8).to_bytes(4, 'big') + (len(body) + 40).to_bytes(4, 'big') + body


def number(name, value):
    return pair(name, 8, value.to_bytes(8, 'big'))


def string(name, value):
    return pair(name, 9, len(value.encode()).to_bytes(4, 'big') + padded(value.encode()))


def nested(name, *pairs):
    return pair(name, 19, (0).to_bytes(4, 'big') + (1).to_bytes(4, 'big') + b''.join(pairs) + bytes(8))


def pool(name='tank', version=5000, state=0, txg=4, guid=DEVICE, ashift=12, more=()):
    """The pairs as zpool create orders them."""
    return [number('version', version), string('name', name), number('state', state), number('txg', txg),
            number('pool_guid', POOL), number('errata', 0), string('hostname', 'host'), number('top_guid', guid),
            number('guid', guid), number('vdev_children', 1),
            nested('vdev_tree', string('type', 'disk'), number('id', 0), number('guid', guid), string('path', '/dev/sda1'),
                   number('ashift', ashift), *more), nested('features_for_read')]


def places(size):
    end = size - size % 262144
    return [0, 262144, end - 524288, end - 262144]


def label(image, which, pairs, little=True):
    """Puts the list into the labels whose numbers (0 to 3) are in which."""
    data = bytes([1, little, 0, 0]) + (0).to_bytes(4, 'big') + (1).to_bytes(4, 'big') + b''.join(pairs) + bytes(8)
    for at in which:
        image.put(places(image.size)[at] + 16384, data)
