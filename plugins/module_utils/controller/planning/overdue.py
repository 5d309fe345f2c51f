# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: queued glideins that have waited for long may never start. What they wait for is served elsewhere as well.

They stay in the queue and in the limits as long as jobs wait that they could run.
"""


def find(targets, guard, now_s):
    """Say in `overdue` of each target how many of its queued glideins are."""
    for target in targets:
        if target.counts and guard["overdue_s"]:
            target.overdue_s = guard["overdue_s"]
            target.overdue = min(target.counts["queued"], _overdue(target, now_s))


def _overdue(target, now_s):
    ages = target.counts["queued_ages"]
    if ages is not None:
        return sum(number for age_s, number in ages if age_s > target.overdue_s)
    oldest_s = target.counts["oldest_queued_s"]
    if oldest_s is None or oldest_s <= target.overdue_s:
        return 0
    # The oldest one is; of the others it is known by when they were ordered.
    plans = (target.supply["history"] or {}).get("plans") or []
    launched = [plan.get("launched") for plan in plans if plan["as_of"] >= now_s - target.overdue_s]
    reaches_back = any(plan["as_of"] < now_s - target.overdue_s for plan in plans)
    if not reaches_back or None in launched:
        return 1
    return max(1, target.counts["queued"] - sum(launched))
