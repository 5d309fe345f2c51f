# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons in the sites' last reports why jobs are not served, for the page: by group and by site.

A reason may quote Requirements or name a user, so it is shown only to callers with a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .shown import Shown
from .words import many, number

MOST_REASONS = 5
"""The most reasons of one group, or of one site."""

NOTHING: Mapping[str, Any] = {"unserved": "", "why": ()}


def by_group(shown: Shown) -> dict[str, dict[str, Any]]:
    """Return {group id: {"unserved": number of jobs, "why": [sites and their reason]}}, as texts.

    Controllers plan independently of each other, so the largest number is shown.
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
            if shown.caller_has_token
            else (),
        }
        for group, count in counts.items()
    }


def of_site(site: str, shown: Shown) -> list[str]:
    """Return the reasons of a site, those of most jobs first: "3 jobs in 2 groups: main/core: asks for 8 cpus ..."."""
    jobs: dict[str, list[int]] = {}
    for row in _rows(site, shown) if shown.caller_has_token else ():
        jobs.setdefault(row["reason"], []).append(row["count"])
    ordered = sorted(jobs.items(), key=lambda item: (-sum(item[1]), item[0]))
    return _first([
        f"{many(sum(counts), 'job')} in {many(len(counts), 'group')}: {reason}" for reason, counts in ordered
    ])  # fmt: skip


def _rows(site: str, shown: Shown) -> list[Mapping[str, Any]]:
    """Return the rows of a site's report for groups that still exist; none if the site has been silent."""
    report = shown.reports.get(site)
    if report is None or shown.now - report["received"] > shown.settings.silent_seconds:
        return []
    there = {group["id"] for group in shown.demand["groups"]}
    return [row for row in report.get("unserved") or () if row["group"] in there]


def _first(texts: list[str]) -> list[str]:
    more = len(texts) - MOST_REASONS
    return texts[:MOST_REASONS] + ([f"and {many(more, 'more reason')}"] if more > 0 else [])
