# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs that are not served, and the reasons in the sites' last reports: by group and by site.

A reason may quote Requirements or name a user, so the page shows it only to callers with a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .formatting import format_count, format_number
from .page_context import PageContext

MAX_REASONS = 5
"""The most reasons of one group, or of one site."""

NONE: Mapping[str, Any] = {"unserved": "", "why": ()}


def by_group(context: PageContext) -> dict[str, dict[str, Any]]:
    """Return {group id: {"unserved": number of jobs, "why": [sites and reason]}}, as texts.

    Controllers plan independently of each other, so the number is the largest of all reports.
    """
    counts: dict[str, int] = {}
    sites: dict[str, dict[str, list[str]]] = {}
    for site in sorted(context.reports):
        for row in _rows(site, context):
            counts[row["group"]] = max(row["count"], counts.get(row["group"], 0))
            sites.setdefault(row["group"], {}).setdefault(row["reason"], []).append(site)
    return {
        group: {
            "unserved": f"{format_number(count)} not served",
            "why": _truncated([f"{', '.join(names)}: {reason}" for reason, names in sites[group].items()])
            if context.caller_has_token
            else (),
        }
        for group, count in counts.items()
    }


def reasons_of_site(site: str, context: PageContext) -> list[str]:
    """Return the reasons of a site, sorted by the number of jobs: "3 jobs in 2 groups: main/core: requests ..."."""
    jobs: dict[str, list[int]] = {}
    for row in _rows(site, context) if context.caller_has_token else ():
        jobs.setdefault(row["reason"], []).append(row["count"])
    ordered = sorted(jobs.items(), key=lambda item: (-sum(item[1]), item[0]))
    return _truncated([
        f"{format_count(sum(counts), 'job')} in {format_count(len(counts), 'group')}: {reason}"
        for reason, counts in ordered
    ])  # fmt: skip


def _rows(site: str, context: PageContext) -> list[Mapping[str, Any]]:
    """Return the rows of a site's report for groups that still exist, or [] if the report is too old."""
    report = context.reports.get(site)
    if report is None or context.now - report["received"] > context.settings.pool.silent_seconds:
        return []
    existing = {group["id"] for group in context.demand["groups"]}
    return [row for row in report.get("unserved") or () if row["group"] in existing]


def _truncated(texts: list[str]) -> list[str]:
    more = len(texts) - MAX_REASONS
    return texts[:MAX_REASONS] + ([f"and {format_count(more, 'more reason')}"] if more > 0 else [])
