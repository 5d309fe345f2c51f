# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input of the status page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ..config import Settings

NOT_PAUSED: Mapping[str, Any] = {"paused": False, "since": None, "reason": "", "by": ""}

_NO_ROWS: Mapping[str, Any] = {"rows": (), "more": 0}
NO_USAGE: Mapping[str, Any] = {"months": (), "sites": _NO_ROWS, "projects": _NO_ROWS, "vos": None, "users": None}


@dataclass(frozen=True)
class PageContext:
    """The data of the page, as plain values that the page does not change.

    Times are in epoch seconds. `demand` is the full demand: the page selects what the caller may see.
    """

    settings: Settings
    now: float
    demand: Mapping[str, Any]
    """`QueryResults.demand()`: the full demand, before leases are subtracted."""
    supply: Mapping[str, Any]
    """The full result of get_supply (`supply.supply_result`), with `history` per entry. A missing key is unknown."""
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{site: report with "received"}, as `Reports.reports()` gives it. An entry may carry "sick_reasons": [text]."""
    monitoring: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{uuid: {"received", "metrics", "site" (optional)}} of PyGlidein clients, as `Clients.recent()` gives it."""
    anonymous: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The same for clients without a token. The page uses them only in a table of their own."""
    leases: Sequence[Mapping[str, Any]] = ()
    """`Leases.rows()`: {"site", "entry", "group", "jobs", "expires"}; the page ignores expired leases."""
    pause: Mapping[str, Any] = field(default_factory=lambda: NOT_PAUSED)
    """`Pause.state()`: {"paused", "since", "reason", "by"}."""
    history: Mapping[str, Any] | None = None
    """`charts.history_json(history, work, range, now)` for the range in the address (`?range=`)."""
    usage: Mapping[str, Any] = field(default_factory=lambda: NO_USAGE)
    """`usage.page_data`: core-hours of this month and the last one."""
    caller_has_token: bool = False
    """True if the caller may see user names, Requirements, and texts that contain them."""
    job: Mapping[str, Any] | None = None
    """The job in the address (`?job=`): {"query", "result": of get_job} or {"query", "error"}. Needs a token."""
    can_report: bool = True
    """True if a site can report: at least one token exists."""
