# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision what to submit and cancel so that a site's queue matches the plan. Pure functions."""

import collections

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.drains import drain_of, drain_text
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError, StaleInputError
from ansible_collections.glidein.ops.plugins.module_utils.common.room import Room, tightest_of
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import integer

# submit: number of glideins to submit; cancel: list of Job to cancel, the sick ones first, then the newest first;
# limited_by: the limit or drain that reduced submit, as text, or None.
Decision = collections.namedtuple("Decision", ["entry", "shape", "present", "submit", "cancel", "limited_by"])

# A cycle applies its plan at once. An older one is of another cycle, or the clocks of two hosts disagree.
MAX_PLAN_AGE_S = 600
# A plan that is further in the future proves that the clocks of two hosts disagree.
CLOCK_TOLERANCE_S = 60


def check_plan(plan, plan_as_of, site, now_s):
    """Return {(entry, shape): plan item} of a plan for `site` (result of normalise_site).

    Raises StaleInputError if the plan is older than MAX_PLAN_AGE_S or from the future, InputError if it is for another
    site.
    """
    age_s = now_s - plan_as_of
    if age_s > MAX_PLAN_AGE_S:
        raise StaleInputError(
            f"plan_as_of: the plan is {int(age_s)} s old; expected at most {MAX_PLAN_AGE_S} s. Nothing was changed. "
            "Make a new plan. If the new plan is refused, too, the clock of this login node is ahead of the "
            "controller's."
        )
    if age_s < -CLOCK_TOLERANCE_S:
        raise StaleInputError(
            f"plan_as_of: the plan is from {int(-age_s)} s in the future: the clocks of the "
            "controller and of this login node disagree. Nothing was changed. Correct the clocks."
        )
    problems = []
    wanted = {}
    for number, item in enumerate(plan):
        where = f"plan[{number}]"
        missing = [key for key in ("entry", "shape", "present") if key not in item]
        if missing:
            problems.append(f"{where}: has no {', '.join(missing)}")
            continue
        if item.get("site", site["site"]) != site["site"]:
            problems.append(f"{where}.site: {item['site']!r} is invalid; expected {site['site']!r}, this site")
        key = (item["entry"], item["shape"])
        if item["entry"] not in site["entries"] or item["shape"] not in site["entries"][item["entry"]]["shapes"]:
            problems.append(f"{where}: entry {item['entry']!r} with shape {item['shape']!r} is not in glidein_entries")
        if key in wanted:
            problems.append(f"{where}: entry {item['entry']!r} with shape {item['shape']!r} is in the plan twice")
        present = None if item["present"] is None else integer(item["present"])
        if item["present"] is not None and (present is None or present < 0):
            problems.append(
                f"{where}.present: {item['present']!r} is invalid; expected a whole number of at least 0, or "
                "null to leave the entry as it is"
            )
        numbers = {name: item[name] for name in ("added", "kept_sick") if item.get(name) is not None}
        for name, value in numbers.items():
            numbers[name] = integer(value)
            if numbers[name] is None:
                problems.append(f"{where}.{name}: {value!r} is invalid; expected a whole number")
        wanted[key] = dict(item, present=present, **numbers)
    if problems:
        raise InputError(problems)
    return wanted


def decide(wanted, counted, site, cancel_running=False, drains=()):
    """Return a Decision for every (entry, shape) of the plan, in order of entry priority and name.

    wanted: see check_plan; counted: the current SiteJobs; site: result of normalise_site. `present` of the plan is the
    number of queued and running glideins. Sick and completing glideins are not part of it, but count towards the
    limits. A glidein that can never start is not replaced: another one of the same request could not start either.
    Glideins that have ended since the plan was made are not replaced either: at most `added` are submitted, if the plan
    has it. The plan may have expected their end, or may not allow further ones. Glideins that have appeared since then
    are not cancelled: of queued ones at most -`added` are. The plan may not have known their jobs. The next plan counts
    again.
    Only glideins that have not started are cancelled, the sick ones first; with cancel_running, also running ones if
    necessary. Glideins that a cycle cancels still count towards the limits in this cycle.

    drains: of queue_info. Nothing is submitted at a drained entry, also if the plan is older than its drain.
    """
    site_room = _room("site limit", site["limits"], counted.all())
    entry_rooms = {}
    decisions = []
    for key in sorted(wanted, key=lambda key: (-site["entries"][key[0]]["priority"], key)):
        entry = site["entries"][key[0]]
        if key[0] not in entry_rooms:
            entry_rooms[key[0]] = _room_of_entry(entry, counted)
        present = wanted[key]["present"]
        if present is None:
            decisions.append(Decision(key[0], key[1], None, 0, [], None))
            continue
        there = counted.count(key, QUEUED, RUNNING)
        never_start = sum(1 for job in counted.by_shape[key] if job.never_starts)
        missing, surplus = present - there - never_start, there - present
        added = wanted[key].get("added")
        if added is not None:
            missing, surplus = min(missing, added), min(surplus, -added)
        sick_surplus = surplus + counted.count(key, SICK) - (wanted[key].get("kept_sick") or 0)
        submit, cancel, limited_by = 0, _sick_to_cancel(counted.by_shape[key], sick_surplus, cancel_running), None
        if missing > 0:
            drain = drain_of(drains, key[0])
            room, reason = tightest_of([entry_rooms[key[0]], site_room])
            if drain:
                room, reason = 0, drain_text(drain)
            submit = missing if room is None else min(missing, room)
            limited_by = reason if submit < missing else None
            entry_rooms[key[0]].take(submit)
            site_room.take(submit)
        elif surplus > 0:
            cancel = cancel + _to_cancel(counted.by_shape[key], surplus, cancel_running)
        decisions.append(Decision(key[0], key[1], present, submit, cancel, limited_by))
    return decisions


def newest_first(jobs):
    """Return jobs sorted by submit time, the newest first; tasks of one array by descending number."""
    return sorted(jobs, key=lambda job: (job.submitted, _numbers(job.id)), reverse=True)


def orphans_to_cancel(counted, cancel_running=False):
    """Return the orphans that have not started; with cancel_running, all orphans but the completing ones."""
    return newest_first(
        [job for job in counted.orphans if job.cancellable or (cancel_running and job.state != COMPLETING)]
    )


def _sick_to_cancel(jobs, surplus, cancel_running):
    """Return at most `surplus` sick jobs: first those that may start, then those that never start, newest first each.

    A job that never starts is kept longest: it shows that its request cannot be fulfilled.
    """
    sick = [job for job in jobs if job.state == SICK and (job.cancellable or cancel_running)]
    chosen = newest_first([job for job in sick if not job.never_starts])
    chosen += newest_first([job for job in sick if job.never_starts])
    return chosen[: max(0, surplus)]


def _to_cancel(jobs, surplus, cancel_running):
    """Return at most `surplus` jobs: queued ones, then with cancel_running running ones, newest first each.

    Those in an unknown state may be running.
    """
    chosen = newest_first([job for job in jobs if job.state == QUEUED and job.cancellable])
    if cancel_running:
        chosen += newest_first([job for job in jobs if job.state in (QUEUED, RUNNING) and not job.cancellable])
    return chosen[:surplus]


def _room_of_entry(entry, counted):
    jobs = [job for shape in entry["shapes"] for job in counted.by_shape[(entry["name"], shape)]]
    return _room("limit", entry["limits"], jobs)


def _room(label, limits, jobs):
    """Return the Room that limits leave beside the glideins in the queue. Limits of cores and GPUs are the plan's."""
    waiting = sum(1 for job in jobs if job.state in (QUEUED, SICK))
    return Room.of(label, limits, {"queued": waiting, "total": len(jobs), "per_cycle": 0})


def _numbers(job_id):
    digits = "".join(char if char.isdigit() else " " for char in job_id)
    return [int(number) for number in digits.split()]
