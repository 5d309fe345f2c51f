# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers, times and texts from outside, as a person reads them on the page."""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime, timezone
from typing import Any

UNKNOWN = "–"
_MOST_MARKS = 3


def plain(text: str) -> str:
    """A text from outside, made harmless to the lines around it.

    Characters that control or format (U+202E turns the reading direction around), that are private or no characters at
    all become escapes such as \\u202e; line breaks and odd spaces become spaces; of a pile of combining marks the first
    three stay.
    """
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > _MOST_MARKS:
            continue
        if category == "Zs" or char in "\t\n\r\x0b\x0c\x85\u2028\u2029":
            shown.append(" ")
        elif category[0] == "C":
            shown.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
        else:
            shown.append(char)
    return "".join(shown)


def cleaned(value: Any) -> Any:
    """`value` with `plain` applied to every text in it: dicts (keys too), lists, tuples; anything else as it is."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(item) for item in value]
    return value


def duration(seconds: float) -> str:
    """Seconds as a person says them: "45 s", "12 min", "3 h 20 min", "2 d 4 h", "6 h"."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours < 48:
        return f"{hours} h" + (f" {minutes} min" if minutes else "")
    return f"{hours // 24} d" + (f" {hours % 24} h" if hours % 24 else "")


def ago(epoch: float, now: float) -> str:
    return f"{duration(now - epoch)} ago"


def moment(epoch: float | None, now: float) -> dict[str, str]:
    """An epoch time for the page: {"at": "2026-11-20 23:45:30 UTC", "ago": "12 s ago", "iso": for <time>, or ""}."""
    if epoch is None:
        return {"at": UNKNOWN, "ago": "never", "iso": ""}
    try:
        time = datetime.fromtimestamp(epoch, timezone.utc)
    except (OverflowError, ValueError, OSError):  # a site's clock may say anything
        return {"at": f"epoch {epoch}", "ago": ago(epoch, now), "iso": ""}
    at, iso = time.strftime("%Y-%m-%d %H:%M:%S UTC"), time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"at": at, "ago": ago(epoch, now), "iso": iso}


def number(value: float | None) -> str:
    """12345 as "12,345", 3.25 as "3.25"; what is not known as a dash."""
    if value is None:
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def size(mib: int) -> str:
    """MiB in the unit that keeps the number short: "512 MiB", "2 GiB", "7.6 TiB"."""
    amount, unit = float(mib), "MiB"
    for larger in ("GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    shown = f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}"
    return f"{shown} {unit}"


def many(count: int, noun: str, plural: str = "") -> str:
    """Count and noun: "1 glidein", "3,000 glideins"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def anchor(kind: str, name: str) -> str:
    """The id of the row of `name`, for links to it: "site-PSC". A name that is no word is told by its hash."""
    safe = name.isascii() and name.replace("-", "a").replace("_", "a").replace(".", "a").isalnum()
    return f"{kind}-{name if safe else 'x' + hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"
