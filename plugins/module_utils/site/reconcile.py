# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to submit and cancel so that a site's queue matches the plan. Pure: decides, does nothing."""

import collections

from ansible_collections.glidein.ops.plugins.module_utils.entries import LIMITS
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError, StaleInputError
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.validation import integer

# submit: glideins to submit now; cancel: list of Job to cancel, the sick ones first, then the newest first; limited_by:
# name of the limit that made submit smaller than what is missing, or None.
Decision = collections.namedtuple("Decision", ["entry", "shape", "present", "submit", "cancel", "limited_by"])

# A plan from the future by more than this means that two clocks disagree.
CLOCK_TOLERANCE_S = 60


class Room:
    """How many more glideins an entry or a site may get, by its limits {queued, total, per_cycle: int or None}.

    queued, total: glideins that wait, and all that are in the queue; ordered: those of this cycle among them.
    """

    def __init__(self, label, limits, queued, total, ordered=0):
        used = {"queued": queued, "total": total, "per_cycle": ordered}
        self.label = label
        self.limits = limits
        self.left = {key: None if limits[key] is None else max(0, limits[key] - used[key]) for key in LIMITS}

    def tightest(self):
        """Return (glideins that may still come or None for any number, name of the limit that says so)."""
        bounded = [(self.left[key], key) for key in LIMITS if self.left[key] is not None]
        if not bounded:
            return None, None
        left, key = min(bounded)
        return left, f"{self.label} {key} {self.limits[key]}"

    def take(self, glideins):
        """Use up room for this many more glideins."""
        for key in LIMITS:
            if self.left[key] is not None:
                self.left[key] -= glideins


def room_of(rooms):
    """Return (glideins that all `rooms` admit or None for any number, name of the limit that is the tightest)."""
    bounded = [room.tightest() for room in rooms]
    bounded = [(left, name) for left, name in bounded if left is not None]
    return min(bounded) if bounded else (None, None)


def check_plan(plan, plan_as_of, site, now_s, max_age_s):
    """Return {(entry, shape): plan item} of a plan for `site` (of normalise_site).

    Raises StaleInputError when it is older than max_age_s or from the future, InputError when it is not for this site.
    """
    age_s = now_s - plan_as_of
    if age_s > max_age_s:
        raise StaleInputError(
            f"plan_as_of: the plan is {int(age_s)} s old; allowed: at most {max_age_s} s "
            "(max_plan_age). Nothing was changed: make a new plan. If that is refused, too, the clock of this login "
            "node is ahead of the controller's."
        )
    if age_s < -CLOCK_TOLERANCE_S:
        raise StaleInputError(
            f"plan_as_of: the plan is from {int(-age_s)} s in the future: the clocks of the "
            "controller and of this login node disagree. Nothing was changed."
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
            problems.append(f"{where}: entry {item['entry']!r} with shape {item['shape']!r} is there twice")
        present = None if item["present"] is None else integer(item["present"])
        if item["present"] is not None and (present is None or present < 0):
            problems.append(
                f"{where}.present: {item['present']!r} is invalid; expected a whole number of at least 0, or "
                "null to leave the entry as it is"
            )
        wanted[key] = dict(item, present=present)
    if problems:
        raise InputError(problems)
    return wanted


def decide(wanted, counted, site, cancel_running=False):
    """Return a Decision for every (entry, shape) of the plan, in order of entry priority and name.

    wanted: see check_plan; counted: Counted of this moment; site: normalise_site. What is `present` are the queued and
    running; sick and completing glideins meet no target but take their place in the limits. One that can never start is
    not replaced, as another one of the same request could not start either. Only glideins that have not started are
    cancelled, the sick ones first; with cancel_running those that run, too, when that is not enough. Room that
    cancelling makes is used by the next cycle, when it is known to be there.
    """
    waiting = sum(1 for job in counted.ours() if job.state in (QUEUED, SICK))
    site_room = Room("site limit", site["limits"], waiting, len(counted.ours()))
    rooms = {}
    decisions = []
    for key in sorted(wanted, key=lambda key: (-site["entries"][key[0]]["priority"], key)):
        entry = site["entries"][key[0]]
        if key[0] not in rooms:
            rooms[key[0]] = _entry_room(entry, counted)
        present = wanted[key]["present"]
        if present is None:
            decisions.append(Decision(key[0], key[1], None, 0, [], None))
            continue
        there = counted.number(key, QUEUED, RUNNING)
        never_start = sum(1 for job in counted.targets[key] if job.never_starts)
        missing = min(present - there - never_start, _ordered(wanted[key]))
        sick_surplus = there + counted.number(key, SICK) - present - (wanted[key].get("kept_sick") or 0)
        submit, cancel, limited_by = 0, _sick_to_cancel(counted.targets[key], sick_surplus, cancel_running), None
        if missing > 0:
            room, name = room_of([rooms[key[0]], site_room])
            submit = missing if room is None else min(missing, room)
            limited_by = name if submit < missing else None
            rooms[key[0]].take(submit)
            site_room.take(submit)
        elif present < there:
            cancel = cancel + _to_cancel(counted.targets[key], there - present, cancel_running)
        decisions.append(Decision(key[0], key[1], present, submit, cancel, limited_by))
    return decisions


def newest_first(jobs):
    """Return jobs sorted by submit time, the newest first; tasks of one array by falling number."""
    return sorted(jobs, key=lambda job: (job.submitted, _numbers(job.id)), reverse=True)


def orphans_to_cancel(counted, cancel_running=False):
    """Return the orphans that have not started; with cancel_running all that do not end already."""
    return newest_first(
        [job for job in counted.orphans if job.cancellable or (cancel_running and job.state != COMPLETING)]
    )


def _ordered(item):
    """Return how many more glideins a plan item asks for than it was made with, or `present` when it does not say that.

    What ended in the meantime is not replaced: the plan may have wanted it to end, or be made on input that allows no
    ordering. The next plan sees that it is gone.
    """
    if item.get("queued") is None or item.get("running") is None:
        return item["present"]
    return item["present"] - item["queued"] - item["running"]


def _sick_to_cancel(jobs, surplus, cancel_running):
    """Return at most `surplus` sick jobs: those that may start before those that never do, the newest of each first.

    One that never starts shows, as long as it stays, that its request is in vain.
    """
    sick = [job for job in jobs if job.state == SICK and (job.cancellable or cancel_running)]
    chosen = newest_first([job for job in sick if not job.never_starts])
    chosen += newest_first([job for job in sick if job.never_starts])
    return chosen[: max(0, surplus)]


def _to_cancel(jobs, surplus, cancel_running):
    """Return at most `surplus` jobs: queued ones, then (if allowed) running ones, the newest of each first."""
    chosen = newest_first([job for job in jobs if job.state == QUEUED and job.cancellable])
    if cancel_running:
        chosen += newest_first([job for job in jobs if job.state == RUNNING])
    return chosen[:surplus]


def _entry_room(entry, counted):
    jobs = [job for shape in entry["shapes"] for job in counted.targets[(entry["name"], shape)]]
    waiting = sum(1 for job in jobs if job.state in (QUEUED, SICK))
    return Room("limit", entry["limits"], waiting, len(jobs))


def _numbers(job_id):
    digits = "".join(char if char.isdigit() else " " for char in job_id)
    return [int(number) for number in digits.split()]
