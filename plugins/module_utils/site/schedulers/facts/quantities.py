# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and durations in the output of batch systems, as MiB and seconds."""

import re

_SIZE = re.compile(r"^([0-9]{1,18})(?:\.([0-9]{1,18}))? ?([A-Za-z]{0,2})\Z")
_CLOCK = re.compile(r"^[0-9]{1,12}(?::[0-9]{1,12}){0,3}(?:\.[0-9]{1,9})?\Z")
_FACTORS = (1, 60, 3600, 86400)

# Unit -> bytes. A word of PBS (kw) has 8 bytes on all machines of today.
PBS_UNITS = {"": 1, "b": 1, "w": 8}
for _power, _letter in enumerate("kmgtp", 1):
    PBS_UNITS[_letter + "b"] = PBS_UNITS[_letter] = 2 ** (10 * _power)
    PBS_UNITS[_letter + "w"] = 8 * 2 ** (10 * _power)
# Grid Engine: K is 1024 and k is 1000 bytes.
SGE_UNITS = {"": 1}
# LSF: a number without a unit is in MB.
LSF_UNITS = {"": 2**20}
for _power, _letter in enumerate("KMGTP", 1):
    SGE_UNITS[_letter] = LSF_UNITS[_letter] = 2 ** (10 * _power)
    SGE_UNITS[_letter.lower()] = 1000**_power


def size_mb(text, units):
    """Return a size in MiB, rounded down. units: {unit: bytes}. Raises ValueError."""
    match = _SIZE.match(text)
    if not match:
        raise ValueError(text)
    whole, fraction, unit = match.groups()
    if unit not in units:
        unit = unit.lower()
    if unit not in units:
        raise ValueError(text)
    fraction = fraction or ""
    return int(whole + fraction) * units[unit] // (10 ** len(fraction) * 2**20)


def clock_s(text):
    """Return the seconds of [[[days:]hours:]minutes:]seconds, without their fraction. Raises ValueError."""
    if not _CLOCK.match(text):
        raise ValueError(text)
    parts = reversed(text.split(".")[0].split(":"))
    return sum(int(part) * factor for part, factor in zip(parts, _FACTORS))


def number(text):
    """Return a whole number, without the fraction. Raises ValueError."""
    match = re.match(r"^([0-9]{1,18})(?:\.[0-9]+)?\Z", text)
    if not match:
        raise ValueError(text)
    return int(match.group(1))


def smallest(values):
    """Return the smallest of the numbers that are not None, or None without one."""
    return min((value for value in values if value is not None), default=None)


def largest(values):
    """Return the largest of the numbers, or None without one or if one is None: that one is unlimited."""
    values = list(values)
    return None if not values or None in values else max(values)
