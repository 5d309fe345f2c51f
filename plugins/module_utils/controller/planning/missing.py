# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: nothing is ordered at a site whose queue shows far fewer glideins than there should be.

A batch system that is in trouble may answer with an empty or shortened list. What should be there is known by the
server's history of reports and by the collector. Such a list is believed when as many cycles as hold_readings have
reported it.
"""

# Fewer missing glideins than this may have any reason, and ordering them again does little harm.
_LEAST = 3
# Older reports say nothing of the queue as it should be now.
_RECENT_S = 3600


def doubts(targets, guard, supply_age_s, now_s):
    """Return {site: why its queue is not believed}. targets: all Targets; supply_age_s: seconds since it was read."""
    by_site = {}
    for target in targets:
        if target.counts:
            by_site.setdefault(target.site, []).append(target)
    found = {site: _doubt(here, guard, supply_age_s, now_s) for site, here in by_site.items()}
    return {site: text for site, text in found.items() if text}


def _doubt(targets, guard, supply_age_s, now_s):
    most = guard["hold_readings"]
    if not most:
        return None
    reports = _reports(targets, now_s)[-most:]
    there = _sum(targets, "queued", "running", "completing", "sick")
    expected = max((_expected(reports[number:]) for number in range(len(reports))), default=0)
    if _is_far_fewer(there, expected):
        return _text(f"{there} glideins, of {expected} that were there", most)
    started = _sum(targets, "running", "completing", "sick")
    registered = sum(target.registered for target in targets)
    is_fresh = supply_age_s <= guard["reading_s"]
    is_known = len(reports) == most and all(map(_was_contradicted, reports))
    if is_fresh and not is_known and _is_far_fewer(started, registered):
        return _text(f"{started} running glideins, of {registered} that are registered", most)
    return None


def _text(what, most):
    cycles = f"{most} cycles have" if most > 1 else "1 cycle has"
    return f"the queue shows only {what}: nothing is ordered until {cycles} seen that"


def _is_far_fewer(there, expected):
    return expected - there >= _LEAST and 2 * there < expected


def _sum(targets, *states):
    return sum(target.counts[state] for target in targets for state in states)


def _reports(targets, now_s):
    """Return the site's recent reports, the oldest first: [[(target, plan of its history)]]."""
    by_time = {}
    for target in targets:
        for plan in (target.supply["history"] or {}).get("plans") or []:
            if now_s - _RECENT_S <= plan["as_of"] <= now_s:
                by_time.setdefault(plan["as_of"], []).append((target, plan))
    return [by_time[as_of] for as_of in sorted(by_time)]


def _expected(reports):
    """Return how many glideins of the first of these reports should still be there.

    Those that have left the collector since then are not missing. The counts of a report are from after its
    submissions, if the queue could be read then.
    """
    most_registered = {}
    for report in reports:
        for target, plan in report:
            most_registered[target] = max(most_registered.get(target, 0), _count(plan, "registered"))
    number = 0
    for target, plan in reports[0]:
        reported = max(_count(plan, "queued") + _count(plan, "running"), _count(plan, "launched"))
        left = max(0, most_registered[target] - target.registered)
        number += max(0, reported - left)
    return number


def _was_contradicted(report):
    """Tell whether a report itself had far fewer glideins than were registered."""
    there = sum(_count(plan, "queued") + _count(plan, "running") for unused, plan in report)
    return _is_far_fewer(there, sum(_count(plan, "registered") for unused, plan in report))


def _count(plan, key):
    return plan.get(key) or 0
