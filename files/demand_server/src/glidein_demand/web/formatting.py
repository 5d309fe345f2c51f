# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formatting of numbers, times and received texts for the page."""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime, timezone
from typing import Any

UNKNOWN = "–"
_MOST_MARKS = 3


def printable(text: str) -> str:
    """Return a received text without characters that could change the display of other text.

    Control, format (such as U+202E, which reverses the reading direction), private and unassigned characters become
    escapes such as \\u202e. Line breaks and other white space become spaces. Of consecutive combining marks, the first
    three are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    characters, marks = [], 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > _MOST_MARKS:
            continue
        if category == "Zs" or char in "\t\n\r\x0b\x0c\x85\u2028\u2029":
            characters.append(" ")
        elif category[0] == "C":
            characters.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
        else:
            characters.append(char)
    return "".join(characters)


def printable_values(value: Any) -> Any:
    """Return `value` with `printable` applied to every text in it, in dicts (with their keys), lists and tuples."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_values(key): printable_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_values(item) for item in value]
    return value


def format_duration(seconds: float) -> str:
    """Return seconds as text: "45 s", "12 min", "3 h 20 min", "2 d 4 h", "6 h"."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours < 48:
        return f"{hours} h" + (f" {minutes} min" if minutes else "")
    return f"{hours // 24} d" + (f" {hours % 24} h" if hours % 24 else "")


def format_age(epoch: float, now: float) -> str:
    """Return the age of an epoch time as text: "12 s ago"."""
    return f"{format_duration(now - epoch)} ago"


def format_time(epoch: float | None, now: float) -> dict[str, str]:
    """Return {"at": "2026-11-20 23:45:30 UTC", "ago": "12 s ago", "iso": for <time>, or ""} of an epoch time."""
    if epoch is None:
        return {"at": UNKNOWN, "ago": "never", "iso": ""}
    try:
        time = datetime.fromtimestamp(epoch, timezone.utc)
    except (OverflowError, ValueError, OSError):  # a site's clock may be wrong
        return {"at": f"epoch {epoch}", "ago": format_age(epoch, now), "iso": ""}
    at, iso = time.strftime("%Y-%m-%d %H:%M:%S UTC"), time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"at": at, "ago": format_age(epoch, now), "iso": iso}


def format_number(value: float | None) -> str:
    """Return a number as text: 12345 as "12,345", 3.25 as "3.25", None (unknown) as a dash."""
    if value is None:
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def hours(core_s: int) -> float:
    """Return core-seconds as core-hours, for JSON and CSV."""
    return round(core_s / 3600, 2)


def format_hours(core_hours: float) -> str:
    """Return core-hours as text, with one decimal if there are fewer than 10: "0", "0.5", "1,234"."""
    return f"{core_hours:.1f}" if 0 < core_hours < 10 else f"{round(core_hours):,}"


def format_size(mib: int) -> str:
    """Return a size in MiB as text, in the unit that keeps it short: "512 MiB", "2 GiB", "7.6 TiB"."""
    amount, unit = float(mib), "MiB"
    for larger in ("GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    shown = f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}"
    return f"{shown} {unit}"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return count and noun: "1 glidein", "3,000 glideins"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def anchor(kind: str, name: str) -> str:
    """Return the HTML id of the row of `name`: "site-PSC". Other characters are replaced by a hash of the name."""
    safe = name.isascii() and name.replace("-", "a").replace("_", "a").replace(".", "a").isalnum()
    return f"{kind}-{name if safe else 'x' + hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"
