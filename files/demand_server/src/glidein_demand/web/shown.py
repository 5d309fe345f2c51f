# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ..config import Settings

NOT_PAUSED: Mapping[str, Any] = {"paused": False, "since": None, "reason": "", "by": ""}


@dataclass(frozen=True)
class Shown:
    """Everything that the page is made of, as plain data; nothing of it is changed here.

    Times are epoch seconds. The page takes only what the caller may see from `demand` itself: give it the full one.
    """

    settings: Settings
    now: float
    demand: Mapping[str, Any]
    """`Snapshot.demand`: the full one, as it was before leases are subtracted."""
    supply: Mapping[str, Any]
    """The full result of get_supply (`supply.supply_result`), with `history` per entry; what it lacks is unknown."""
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{site: report with "received"}, as `Reports.reports()` gives it. An entry may carry "sick_reasons": [text]."""
    monitoring: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{uuid: {"received", "metrics", "site" (optional)}} of PyGlidein clients, as `Reports.monitoring()` gives it."""
    anonymous: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The same of clients that have no token: nothing else on the page depends on them."""
    leases: Sequence[Mapping[str, Any]] = ()
    """`Leases.rows()`: {"site", "entry", "group", "jobs", "expires"}; those that have expired are left out here."""
    pause: Mapping[str, Any] = field(default_factory=lambda: NOT_PAUSED)
    """`Pause.state()`: {"paused", "since", "reason", "by"}; `settings.paused` is looked at besides."""
    history: Mapping[str, Any] | None = None
    """`charts.history_json(history, work, range, now)` of the range that the address asks for (`?range=`)."""
    caller_has_token: bool = False
    """Whether the caller may see user names, Requirements, and texts that name them."""
    can_report: bool = True
    """Whether any token exists with which a site can report."""
