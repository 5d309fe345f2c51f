# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard rule: order nothing at a site whose queue shows far fewer glideins than expected.

A batch system that is in trouble may answer with an empty or truncated list. The expected number follows from the
reports in the server's history and from the collector. The list is believed when `hold_readings` cycles have reported
it.
"""

# Fewer missing glideins than this have many possible causes, and ordering them again does little harm.
_LEAST = 3
# Older reports do not show what the queue should hold now.
_RECENT_S = 3600


def doubts(shapes, guard, supply_age_s, now_s):
    """Return {site: why its queue is not believed}. supply_age_s: seconds since the supply was read."""
    by_site = {}
    for shape in shapes:
        # A drain cancels queued glideins between two cycles.
        if shape.counts and not shape.drained:
            by_site.setdefault(shape.path[0], []).append(shape)
    found = {site: _doubt(here, guard, supply_age_s, now_s) for site, here in by_site.items()}
    return {site: text for site, text in found.items() if text}


def _doubt(shapes, guard, supply_age_s, now_s):
    cycles = guard["hold_readings"]
    if not cycles:
        return None
    reports = _reports(shapes, now_s)[-cycles:]
    there = _sum(shapes, "queued", "running", "completing", "sick")
    expected = max((_expected(reports[number:]) for number in range(len(reports))), default=0)
    if _is_far_fewer(there, expected):
        return _text(f"{there} glideins, of {expected} that were there", cycles)
    started = _sum(shapes, "running", "completing", "sick")
    registered = sum(shape.registered for shape in shapes)
    is_fresh = supply_age_s <= guard["reading_s"]
    is_known = len(reports) == cycles and all(map(_was_contradicted, reports))
    if is_fresh and not is_known and _is_far_fewer(started, registered):
        return _text(f"{started} running glideins, of {registered} that are registered", cycles)
    return None


def _text(found, cycles):
    seen = f"{cycles} cycles have" if cycles > 1 else "1 cycle has"
    return f"the queue shows only {found}: nothing is ordered until {seen} seen that"


def _is_far_fewer(there, expected):
    return expected - there >= _LEAST and 2 * there < expected


def _sum(shapes, *states):
    return sum(shape.counts[state] for shape in shapes for state in states)


def _reports(shapes, now_s):
    """Return the site's recent reports, the oldest first: [[(shape, plan of its history)]]."""
    by_time = {}
    for shape in shapes:
        for plan in shape.plans:
            if now_s - _RECENT_S <= plan["as_of"] <= now_s:
                by_time.setdefault(plan["as_of"], []).append((shape, plan))
    return [by_time[as_of] for as_of in sorted(by_time)]


def _expected(reports):
    """Return how many glideins of the first of these reports should still be in the queue.

    Glideins that have left the collector since then are not missing. The counts of a report are from after its
    submissions, if the queue could be read then.
    """
    most_registered = {}
    for report in reports:
        for shape, plan in report:
            most_registered[shape.key] = max(most_registered.get(shape.key, 0), _count(plan, "registered"))
    number = 0
    for shape, plan in reports[0]:
        reported = max(_count(plan, "queued") + _count(plan, "running"), _count(plan, "launched"))
        left = max(0, most_registered[shape.key] - shape.registered)
        number += max(0, reported - left)
    return number


def _was_contradicted(report):
    """Return whether a report itself had far fewer glideins than were registered."""
    there = sum(_count(plan, "queued") + _count(plan, "running") for _shape, plan in report)
    return _is_far_fewer(there, sum(_count(plan, "registered") for _shape, plan in report))


def _count(plan, key):
    return plan.get(key) or 0
