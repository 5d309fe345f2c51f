# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why jobs are not served, as the sites' last reports say: for the page, by group and by site.

A reason may quote Requirements, or name a user: only callers with a token see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .shown import Shown
from .words import many, number

MOST_REASONS = 5
"""Reasons of one group, or of one site."""

NOTHING: Mapping[str, Any] = {"unserved": "", "why": ()}


def by_group(shown: Shown) -> dict[str, dict[str, Any]]:
    """{group id: {"unserved": how many jobs, "why": [one reason and the sites that gave it]}}, as texts.

    Controllers plan apart from each other: the largest number is told.
    """
    counts: dict[str, int] = {}
    sites: dict[str, dict[str, list[str]]] = {}
    for site in sorted(shown.reports):
        for row in _rows(site, shown):
            counts[row["group"]] = max(row["count"], counts.get(row["group"], 0))
            sites.setdefault(row["group"], {}).setdefault(row["reason"], []).append(site)
    return {
        group: {
            "unserved": f"{number(count)} not served",
            "why": _first([f"{', '.join(names)}: {reason}" for reason, names in sites[group].items()])
            if _may(shown)
            else (),
        }
        for group, count in counts.items()
    }


def of_site(site: str, shown: Shown) -> list[str]:
    """The reasons of a site, those of most jobs first: "3 jobs in 2 groups: main/core: asks for 8 cpus ..."."""
    jobs: dict[str, list[int]] = {}
    for row in _rows(site, shown) if _may(shown) else ():
        jobs.setdefault(row["reason"], []).append(row["count"])
    ordered = sorted(jobs.items(), key=lambda item: (-sum(item[1]), item[0]))
    return _first([
        f"{many(sum(counts), 'job')} in {many(len(counts), 'group')}: {reason}" for reason, counts in ordered
    ])  # fmt: skip


def _rows(site: str, shown: Shown) -> list[Mapping[str, Any]]:
    """What a site's report says of groups that are still there; nothing of a site that has been silent for long."""
    report = shown.reports.get(site)
    if report is None or shown.now - report["received"] > shown.settings.silent_seconds:
        return []
    there = {group["id"] for group in shown.demand["groups"]}
    return [row for row in report.get("unserved") or () if row["group"] in there]


def _may(shown: Shown) -> bool:
    return shown.caller_has_token


def _first(texts: list[str]) -> list[str]:
    more = len(texts) - MOST_REASONS
    return texts[:MOST_REASONS] + ([f"and {many(more, 'more reason')}"] if more > 0 else [])
