# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads ELF files: the libraries that they need, and where they look for them. Changes where they look for them."""

import re
import struct
from collections import namedtuple

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError

# Names of ELF's e_machine, as `uname -m` prints them.
MACHINES = {3: "i386", 21: "ppc64le", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}

# The content of one file. machine: ELF's e_machine; needed: sonames; search: RUNPATH/RPATH entries, unexpanded.
Elf = namedtuple("Elf", "machine needed search")


def read_elf(data):
    """Return machine, DT_NEEDED and DT_RUNPATH/DT_RPATH of a little- or big-endian 64-bit ELF file, as Elf.

    Source: System V ABI, chapters 4 and 5. Returns None if `data` (bytes) is no such file; a file without a dynamic
    section needs nothing. Raises GlideinError if the file is truncated.
    """
    if data[:4] != b"\x7fELF" or data[4:5] != b"\x02":
        return None
    try:
        return _read(data)
    except (struct.error, ValueError) as error:
        raise GlideinError(f"truncated ELF file of {len(data)} bytes: {error}") from error


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
    raise GlideinError("ELF file with a string table outside its segments")


def _string_at(data, offset):
    return data[offset : data.index(b"\0", offset)].decode()


def glibc_version(blobs):
    """Return the newest GLIBC_x.y that ELF files (bytes) refer to, as "x.y": the least that a node must have."""
    found = {(2, 0)}
    for blob in blobs:
        found.update((int(a), int(b)) for a, b in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", blob))
    return "{}.{}".format(*max(found))


def with_library_path(data, search):
    """Return an ELF file (bytes) whose only library search path is `search`, such as "$ORIGIN/../lib".

    The path is written as DT_RPATH, which the dynamic loader also applies to the libraries that a program loads, and
    which takes precedence over LD_LIBRARY_PATH. The string table is copied to a new segment at the end of the file, in
    place of the last note segment. Raises GlideinError if the file has no dynamic section or no room for an entry.
    """
    order = "<" if data[5:6] == b"\x01" else ">"
    table, _flags, _size, entry_size, count = struct.unpack_from(order + "QxxxxxxxxIHHH", data, 32)
    headers = [table + i * entry_size for i in range(count)]
    # p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
    segments = {at: struct.unpack_from(order + "IIQQQQQQ", data, at) for at in headers}
    loads = [segment for segment in segments.values() if segment[0] == 1]
    last_load = max((at for at in headers if segments[at][0] == 1), default=0)
    # Load segments are sorted by address: the new one has the highest address, so it must be after all others.
    notes = [at for at in headers if segments[at][0] == 4 and at > last_load]
    dynamic = [segment for segment in segments.values() if segment[0] == 2]
    if not notes or not dynamic:
        raise GlideinError(
            f"ELF file without {'a dynamic section' if not dynamic else 'a note segment after the others'}"
        )
    start, size = dynamic[0][2], dynamic[0][5]
    places = list(range(start, start + size, 16))
    tags = [struct.unpack_from(order + "qQ", data, at) for at in places]
    end = next(i for i, (tag, _value) in enumerate(tags) if tag == 0)
    values = dict(tags[:end])
    addresses = [(segment[3], segment[2], segment[5]) for segment in loads]
    strings_at = _file_offset(addresses, values[5])
    strings = data[strings_at : strings_at + values[10]] + search.encode("utf-8") + b"\0"
    kept = [(tag, value) for tag, value in tags[:end] if tag not in (5, 10, 15, 29)]
    page = max([segment[7] for segment in loads] + [4096])
    address = -(-max(segment[3] + segment[6] for segment in loads) // page) * page
    offset = -(-len(data) // page) * page
    entries = kept + [(5, address), (10, len(strings)), (15, values[10])]
    if len(entries) >= len(tags):
        raise GlideinError("ELF file without room for a library search path in its dynamic section")
    changed = bytearray(data.ljust(offset, b"\0") + strings)
    for at, (tag, value) in zip(places, entries + [(0, 0)] * (len(tags) - len(entries))):
        struct.pack_into(order + "qQ", changed, at, tag, value)
    new = (1, 4, offset, address, address, len(strings), len(strings), page)
    struct.pack_into(order + "IIQQQQQQ", changed, notes[-1], *new)
    return bytes(changed)
