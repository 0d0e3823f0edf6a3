#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What an SVG is made of, a line an element, without its numbers: usage: structure.py FILE.svg"""
import sys
import xml.etree.ElementTree as E


def show(element, depth):
    tag = element.tag.split("}")[1]
    if tag in ("style", "defs"):
        return
    text = (element.text or "").strip().replace("\n", " | ")
    print("  " * depth + " ".join(x for x in (tag, element.get("class"), text) if x))
    for child in element:
        show(child, depth + 1)


show(E.parse(sys.argv[1]).getroot(), 0)
