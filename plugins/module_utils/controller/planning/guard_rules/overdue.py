# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard rule: queued glideins that have waited for long may never start. Other entries may serve their jobs, too.

They stay in the queue and count towards the limits as long as there are idle jobs that they could run.

These variants gained nothing or too little in the simulation (docs/simulation.md): the entry orders again for the same
jobs; entries with overdue glideins are filled last; all overdue glideins stay while one job waits.
"""


def with_overdue(shapes, guard, now_s):
    """Return the shapes with the number of their queued glideins that are overdue."""
    if not guard["overdue_s"]:
        return shapes
    return tuple(
        shape._replace(
            overdue_s=guard["overdue_s"],
            overdue=min(shape.counts["queued"], _overdue(shape, guard["overdue_s"], now_s)),
        )
        if shape.counts
        else shape
        for shape in shapes
    )


def _overdue(shape, overdue_s, now_s):
    ages = shape.counts["queued_ages"]
    if ages is not None:
        return sum(number for age_s, number in ages if age_s > overdue_s)
    oldest_s = shape.counts["oldest_queued_s"]
    if oldest_s is None or oldest_s <= overdue_s:
        return 0
    # The oldest one is overdue. The age of the others follows from when they were ordered.
    launched = [plan.get("launched") for plan in shape.plans if plan["as_of"] >= now_s - overdue_s]
    reaches_back = any(plan["as_of"] < now_s - overdue_s for plan in shape.plans)
    if not reaches_back or None in launched:
        return 1
    return max(1, shape.counts["queued"] - sum(launched))
