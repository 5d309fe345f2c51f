# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, limits and small functions that several parts of the server share."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
"""Names of sites, entries, shapes and tokens."""

MAX_WHOLE = 2**53
"""The largest whole number that is accepted: every JSON reader stores numbers up to it exactly."""

MAX_SITES = 1000
"""The most sites that may report, or whose glideins are counted."""

MAX_BODY_BYTES = 1024 * 1024
"""The size of the largest request. The role's proxy has the same limit."""

Key = tuple[str, str, str]
"""Site, entry, shape."""

OTHER_MACHINES = ""
"""In place of a site's name in the account of core-hours: the machines of the pool that are not glideins."""


def one_line(value: object) -> str:
    """Return a value's text, such as an error's, without line breaks and repeated spaces."""
    return " ".join(str(value).split())
