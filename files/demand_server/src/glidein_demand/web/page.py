# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status page says, decided apart from how it looks: pure functions of plain data and the time.

`view(Shown(...))` gives everything that templates/status.html needs; nothing of it is text that could disturb the page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from .. import __version__
from ..config import Settings
from . import charts, problems, rows
from .words import cleaned, many, moment, number

NOT_PAUSED: Mapping[str, Any] = {"paused": False, "since": None, "reason": "", "by": ""}
LEAST_REFRESH_S = 10


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
    """The full result of get_supply (`pool.supply.present`), with `history` per entry; what it lacks is unknown."""
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{site: report with "received"}, as `Reports.reports()` gives it. An entry may carry "sick_reasons": [text]."""
    monitoring: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{uuid: {"received", "metrics", "site" (optional)}} of PyGlidein clients, as `Reports.monitoring()` gives it."""
    leases: Sequence[Mapping[str, Any]] = ()
    """`Leases.rows()`: {"site", "entry", "group", "jobs", "expires"}; those that have expired are left out here."""
    pause: Mapping[str, Any] = field(default_factory=lambda: NOT_PAUSED)
    """`Switch.state()`: {"paused", "since", "reason", "by"}; `settings.paused` is looked at besides."""
    history: Mapping[str, Any] | None = None
    """`charts.history_json(history, range, now)` of the range that the address asks for (`?range=`)."""
    caller_has_token: bool = False
    """Whether the caller may see user names, Requirements, and texts that name them."""
    can_report: bool = True
    """Whether any token exists with which a site can report."""


def view(shown: Shown) -> dict[str, Any]:
    """The template's variables: texts, counts and lists of them."""
    found = problems.find(shown)
    groups, rest = rows.groups(shown)
    return cleaned(
        {
            "version": __version__,
            "now": moment(shown.now, shown.now),
            "refresh_s": max(LEAST_REFRESH_S, shown.settings.refresh_seconds),
            "pause": problems.pause(shown),
            "problems": problems.listed(found),
            "wrong": sum(problem.severity != problems.NOTE for problem in found),
            "with_users": shown.caller_has_token,
            "demand": {**moment(shown.demand["as_of"], shown.now), **rows.demand_total(shown)},
            "groups": groups,
            "more_groups": rest,
            "supply": _supply(shown),
            "sites": rows.sites(shown, {problem.site for problem in found if problem.site}),
            "clients": [rows.client(uuid, entry, shown) for uuid, entry in sorted(shown.monitoring.items())],
            "charts": None if shown.history is None else charts.figures(shown.history),
            "ranges": charts.ranges(shown.history),
        }
    )


def _supply(shown: Shown) -> dict[str, Any]:
    supply = shown.supply
    cpus, claimed = supply.get("others_cpus"), supply.get("others_cpus_claimed")
    cores = "" if not cpus else f", {number(claimed)} of {number(cpus)} cores busy"
    others = many(supply.get("others") or 0, "machine") + " of the pool that are no glideins" + cores
    return {**moment(supply["as_of"], shown.now), "others": others}
