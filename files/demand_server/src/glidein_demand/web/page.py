# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status page says, decided apart from how it looks: pure functions of plain data and the time.

`view(Shown(...))` gives everything that templates/status.html needs; nothing of it is text that could disturb the page.
"""

from __future__ import annotations

from typing import Any

from .. import __version__
from . import charts, problems, rows
from .shown import Shown
from .words import cleaned, many, moment, number

LEAST_REFRESH_S = 10


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
            "anonymous_clients": [rows.client(uuid, one, shown) for uuid, one in sorted(shown.anonymous.items())],
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
