# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads ELF files: the libraries that they need, and where they look for them."""

import re
import struct
from collections import namedtuple

from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError

# Names of ELF's e_machine, as `uname -m` prints them.
MACHINES = {3: "i386", 21: "ppc64le", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}

# The content of one file. machine: ELF's e_machine; needed: sonames; search: RUNPATH/RPATH entries, unexpanded.
Elf = namedtuple("Elf", "machine needed search")


class ElfError(GlideinError):
    """An ELF file is damaged."""


def read_elf(data):
    """Return machine, DT_NEEDED and DT_RUNPATH/DT_RPATH of a little- or big-endian 64-bit ELF file, as Elf.

    Source: System V ABI, chapters 4 and 5. Returns None if `data` (bytes) is no such file; a file without a dynamic
    section needs nothing. Raises ElfError if the file is truncated.
    """
    if data[:4] != b"\x7fELF" or data[4:5] != b"\x02":
        return None
    try:
        return _read(data)
    except (struct.error, ValueError) as error:
        raise ElfError(f"truncated ELF file of {len(data)} bytes: {error}") from error


def _read(data):
    order = "<" if data[5:6] == b"\x01" else ">"
    machine = struct.unpack_from(order + "H", data, 18)[0]
    table, _flags, _size, entry_size, count = struct.unpack_from(order + "QxxxxxxxxIHHH", data, 32)
    segments = [struct.unpack_from(order + "IIQQQQ", data, table + i * entry_size) for i in range(count)]
    loads = [(vaddr, offset, size) for kind, _fl, offset, vaddr, _pa, size in segments if kind == 1]
    tags = []
    for kind, _fl, offset, _va, _pa, size in segments:
        if kind == 2:
            tags = [struct.unpack_from(order + "qQ", data, at) for at in range(offset, offset + size, 16)]
    strings = next((_file_offset(loads, value) for tag, value in tags if tag == 5), None)
    needed = [_string_at(data, strings + value) for tag, value in tags if tag == 1]
    paths = [_string_at(data, strings + value) for tag, value in tags if tag in (15, 29)]
    return Elf(machine, needed, [entry for path in paths for entry in path.split(":") if entry])


def _file_offset(loads, address):
    """Return the offset in the file of a virtual address."""
    for vaddr, offset, size in loads:
        if vaddr <= address < vaddr + size:
            return address - vaddr + offset
    raise ElfError("ELF file with a string table outside its segments")


def _string_at(data, offset):
    return data[offset : data.index(b"\0", offset)].decode()


def glibc_version(blobs):
    """Return the newest GLIBC_x.y that ELF files (bytes) refer to, as "x.y": the least that a node must have."""
    found = {(2, 0)}
    for blob in blobs:
        found.update((int(a), int(b)) for a, b in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", blob))
    return "{}.{}".format(*max(found))
