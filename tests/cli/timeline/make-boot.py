#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes boot.json: a small bring-up with everything that a picture shows, and round times, to be read beside it."""
import json

spans = [
    # lane, name, kind, start ms, end ms, worker, more
    ("all devices", "start", "other", 0, 2, 0, {"id": 1}),
    ("crypto", "load", "module", 2, 12, 1, {"id": 2, "after": [1], "bytes": 2000000}),
    ("ext4", "load", "module", 12, 30, 1, {"id": 3, "after": [2], "bytes": 3000000}),
    ("/dev/sda", "probe", "probe", 2, 9, 2, {"id": 4, "after": [1], "bytes": 65536, "reads": 4}),
    ("/dev/sda", "read", "read", 3, 6, 2, {"bytes": 65536, "reads": 4}),
    ("/dev/sda", "wait", "wait", 9, 30, 0, {"detail": "for the module ext4"}),
    ("/dev/sda", "finish", "lazyinit", 30, 50, 1, {"id": 5, "after": [3, 4], "bytes": 1048576}),
    ("/dev/sda", "mount", "mount", 50, 60, 1, {"id": 6, "after": [5]}),
    ("/dev/sda", "CREATE", "mount", 51, 59, 1, {}),
    ("/dev/sdb", "probe", "probe", 3, 25, 3, {"id": 7, "after": [1], "bytes": 4096, "reads": 1}),
    ("/dev/sdb", "assemble", "assemble", 25, 40, 3, {"id": 8, "after": [7]}),
    ("/dev/sdb", "check", "fsck", 40, 55, 3, {"id": 9, "after": [8]}),
    ("/dev/sdb", "mount", "mount", 60, 72, 3, {"id": 10, "after": [6, 9], "error": -5, "detail": "can't read <superblock>"}),
]
lanes = list(dict.fromkeys(s[0] for s in spans))
events = [{"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "blkup"}}]
for lane, name, kind, start, end, worker, more in spans:
    events.append({"ph": "X", "pid": 1, "tid": lanes.index(lane) + 1, "ts": start * 1000, "dur": (end - start) * 1000,
                   "cat": kind, "name": name, "args": {"worker": worker, **more}})
for i, lane in enumerate(lanes):
    events.append({"ph": "M", "pid": 1, "tid": i + 1, "name": "thread_name", "args": {"name": lane, "lane": lane}})
    events.append({"ph": "M", "pid": 1, "tid": i + 1, "name": "thread_sort_index", "args": {"sort_index": i}})
json.dump({"otherData": {"start_ns": 1000000000, "title": "blkup coldplug"}, "traceEvents": events}, open("boot.json", "w"),
          indent=0)
