# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of the benches, kept in one file and shown as a table."""

import json
from collections import namedtuple

WIDTH = 100

# A number of a bench's result that has a goal: its key, "<=" or ">=", the bound.
Goal = namedtuple("Goal", "key relation bound")


def load(path):
    """Return the results of earlier runs, {bench: {key: number}}; empty if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(path, name, found):
    """Replace the result of one bench in the file; keep the others."""
    results = {**load(path), name: found}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n", encoding="utf-8")
    fresh.replace(path)


def is_met(goal, found):
    """Return whether a result reaches a goal."""
    value = found[goal.key]
    return value <= goal.bound if goal.relation == "<=" else value >= goal.bound


def table(results, goals):
    """Return lines of at most WIDTH characters, one per number; numbers with a goal come first.

    goals: {bench: [Goal]}
    """
    rows = [("bench", "number", "value", "goal", "")]
    for name, found in results.items():
        wanted = {goal.key: goal for goal in goals.get(name, ()) if goal.key in found}
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            goal = wanted.get(key)
            bound = f"{goal.relation} {goal.bound:g}" if goal else ""
            verdict = ("met" if is_met(goal, found) else "MISSED") if goal else ""
            rows.append((name, key, shown(found[key]), bound, verdict))
            name = ""  # noqa: PLW2901 - printed once per bench
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for bench, key, value, bound, verdict in rows:
        line = f"{bench:<{widths[0]}}  {key:<{widths[1]}}  {value:>{widths[2]}}  {bound:<{widths[3]}}  {verdict}"
        lines.append(line.rstrip()[:WIDTH])
    return lines


def shown(value):
    """Return a number with three significant digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
