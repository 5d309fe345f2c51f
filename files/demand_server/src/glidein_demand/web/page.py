# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of templates/status.html: pure functions of the page's input.

All texts are printable: `printable_values` escapes control characters.
"""

from __future__ import annotations

from typing import Any

from .. import __version__
from . import charts, job_section, problems, table_rows
from .formatting import format_count, format_number, format_time, printable_values
from .page_context import PageContext

MIN_REFRESH_S = 10


def template_variables(context: PageContext) -> dict[str, Any]:
    """Return the template's variables: texts, counts and lists of them."""
    all_problems = problems.find(context)
    groups, rest = table_rows.group_rows(context)
    return printable_values(
        {
            "version": __version__,
            "now": format_time(context.now, context.now),
            "refresh_s": max(MIN_REFRESH_S, context.settings.pool.refresh_seconds),
            "pause": problems.pause_banner(context),
            "problems": problems.lines(all_problems),
            "problem_count": sum(problem.severity != problems.NOTE for problem in all_problems),
            "with_users": context.caller_has_token,
            "demand": {**format_time(context.demand["as_of"], context.now), **table_rows.demand_total(context)},
            "groups": groups,
            "more_groups": rest,
            "job": job_section.section(context),
            "supply": _supply(context),
            "sites": table_rows.site_tables(context, {problem.site for problem in all_problems if problem.site}),
            "clients": [
                table_rows.client_row(uuid, entry, context) for uuid, entry in sorted(context.monitoring.items())
            ],
            "anonymous_clients": [
                table_rows.client_row(uuid, one, context) for uuid, one in sorted(context.anonymous.items())
            ],
            "gateways": [table_rows.gateway_row(row, context.now) for row in context.supply.get("gateways", ())],
            "charts": None if context.history is None else charts.figures(context.history),
            "usage": dict(context.usage),
            "ranges": charts.ranges(context.history),
        }
    )


def _supply(context: PageContext) -> dict[str, Any]:
    supply = context.supply
    cpus, claimed = supply.get("others_cpus"), supply.get("others_cpus_claimed")
    cores = "" if not cpus else f", {format_number(claimed)} of {format_number(cpus)} cores busy"
    others = format_count(supply.get("others") or 0, "other machine") + " in the pool" + cores
    return {**format_time(supply["as_of"], context.now), "others": others}
