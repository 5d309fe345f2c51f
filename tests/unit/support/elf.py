# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Minimal 64-bit ELF files, and the texts by which HTCondor's version is found in its library."""

import struct

VERSION = b"$CondorVersion: 23.9.6 2026-07-12 PackageID: 1 $\0$CondorPlatform: X86_64-Debian_13 $\0"


def elf(needed=(), runpath=None, machine=62, spare=4, note=4):
    """Return header, three program headers, a dynamic section and its strings.

    spare: unused entries of the dynamic section; note: the type of the last segment.
    """
    strings, offsets = b"\0", []
    for text in [*needed, *([runpath] if runpath else [])]:
        offsets.append(len(strings))
        strings += text.encode() + b"\0"
    base, start = 0x400000, 64 + 3 * 56
    tags = [(1, offset) for offset in offsets[: len(needed)]] + [(29, offset) for offset in offsets[len(needed) :]]
    strings_at = start + 16 * (len(tags) + 2 + spare)
    tags += [(5, base + strings_at), (10, len(strings)), *[(0, 0)] * spare]
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    size = strings_at + len(strings)
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
    dyn = struct.pack("<IIQQQQQQ", 2, 6, start, base + start, base + start, len(dynamic), len(dynamic), 8)
    last = struct.pack("<IIQQQQQQ", note, 4, 0, 0, 0, 0, 0, 4)
    return header + load + dyn + last + dynamic.ljust(strings_at - start, b"\0") + strings
