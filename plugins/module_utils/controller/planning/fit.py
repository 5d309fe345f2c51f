# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit: which jobs can run in which places, and if not, why not.

A set of places is a whole number with one bit for each (a mask), so that thousands of groups and entries are matched by
a few operations each. What is costly, the evaluation of ClassAd expressions, is done once for all places and groups
that are alike in what the expression refers to.
"""

import bisect
import time

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    UnparsableError,
    frozen,
    parts,
    spelled,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.expressions import conditions_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_attributes import not_told
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.lots import is_of_jobs
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import is_unknown_name
from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES, longest_job_s
from ansible_collections.glidein.ops.plugins.module_utils.token_expiry import utc

# No later time has a date.
_LATEST_S = 10**11

# HTCondor itself tests it when it makes the dynamic slot; condor_submit puts it into Requirements as well.
_GPU_CONDITIONS = conditions_of("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs")


class Fit:
    """Matches lots with places (Target and Elsewhere), which are meant by their index."""

    def __init__(self, places, matcher, told=None):
        """told: names of the job attributes that the demand server divides groups by; None when it does not say."""
        self.places = places
        self.told = told
        self.matcher = matcher
        self.everywhere = (1 << len(places)) - 1
        self._sizes = [_Thresholds([place.size and place.size[i] for place in places]) for i in range(len(RESOURCES))]
        self._bounds = [
            (_Thresholds(_of_entries(places, resource, "max")), _Thresholds(_of_entries(places, resource, "min")))
            for resource in RESOURCES
        ]
        # START takes only what ends before the glidein does.
        self._longest = _Thresholds([place.entry and longest_job_s(place.entry) for place in places])
        self._known = sum(1 << index for index, place in enumerate(places) if place.ad is not None)
        self._projections = {}
        self._holding = {}
        self._accepting = self._classes_of_accept()
        self._passed_over = [index for index, place in enumerate(places) if place.size and place.passed_over]
        self._remembered = {}
        for index, place in enumerate(places):
            for group in place.passed_over_groups:
                self._remembered[group] = self._remembered.get(group, 0) | 1 << index

    def mask(self, lot):
        """Return the places whose machines the lot's jobs would be matched with."""
        mask = self._by_size(lot) & self._by_expressions(lot) & ~self._remembered.get(lot.key, 0)
        for index in self._passed_over:
            if mask >> index & 1 and self.places[index].passed_over_for(lot.asked):
                mask &= ~(1 << index)
        return mask

    def nearest_misses(self, lot):
        """Return the targets where a lot does not fit, those where only its last condition fails first."""
        fitting = self.mask(lot)
        small = self._by_size(lot) & ~fitting
        return [
            self.places[index]
            for mask in (small, self.everywhere & ~small & ~fitting)
            for index in indices(mask)
            if self.places[index].size
        ]

    def reason(self, lot, target):
        """Return None if a glidein of `target` can run the lot's jobs, else why not."""
        return (
            lot.flaw
            or _misfit(lot, target)
            or self._not_accepted(lot, target)
            or self._not_required(lot, target)
            or self._is_passed_over(lot, target)
            or _is_remembered_as_passed_over(lot, target)
        )

    def _by_size(self, lot):
        mask = self.everywhere
        for asked, sizes in zip(lot.asked, self._sizes):
            mask &= sizes.at_least(asked)
        for resource, (most, least) in zip(RESOURCES, self._bounds):
            mask &= most.at_least(lot.group[resource]) & least.at_most(lot.group[resource])
        if lot.group["max_runtime_s"] is not None:
            mask &= self._longest.at_least(lot.group["max_runtime_s"])
        return mask

    def _by_expressions(self, lot):
        conditions = self._conditions(lot)
        if conditions is None or lot.flaw:
            return 0
        mask = self.everywhere
        for condition in conditions:
            mask &= self._where(condition, lot.ad) | ~self._known
        for expression, own, others in self._accepting:
            if mask & others and not self._accepts(expression, own, lot):
                mask &= ~others
        return mask

    def _conditions(self, lot):
        """Return the conditions of a lot's Requirements and RequireGPUs; None when they cannot be read."""
        found = []
        try:
            if lot.group["requirements"]:
                found += self.matcher.conditions(lot.group["requirements"])
            if lot.group["gpu_requirements"]:
                self.matcher.conditions(lot.group["gpu_requirements"])
                found += _GPU_CONDITIONS
        except UnparsableError:
            return None
        return found

    def _where(self, condition, ad):
        """Return the places (of those with a known ad) where a condition of the job ad `ad` is true."""
        own = parts(condition, ad, {})[0]
        key = (condition.text, frozen(own))
        if key not in self._holding:
            names = None if condition.opaque else condition.target | (condition.bare - set(own))
            is_true = self.matcher.test(condition, own)
            mask = 0
            for other, places in self._projected(names):
                if is_true(other):
                    mask |= places
            self._holding[key] = mask
        return self._holding[key]

    def _projected(self, names):
        """Return [(part of a machine ad, as Matcher.ad, mask of the places that have it)].

        names: those of the attributes that matter, None for all.
        """
        if names not in self._projections:
            classes = {}
            for index in indices(self._known):
                ad = self.places[index].ad
                part = ad if names is None else {name: ad[name] for name in names if name in ad}
                known = classes.setdefault(frozen(part), [part, 0])
                known[1] |= 1 << index
            self._projections[names] = [(self.matcher.ad(part), mask) for part, mask in classes.values()]
        return self._projections[names]

    def _classes_of_accept(self):
        """Return [(accept_requirements, part of the machine ad that it refers to, mask)] of entries that have any."""
        classes = {}
        for index, place in enumerate(self.places):
            expression = place.entry and place.entry["accept_requirements"]
            if not expression:
                continue
            own = {}
            for condition in self.matcher.conditions(expression):
                own.update(parts(condition, place.ad, {})[0])
            known = classes.setdefault((expression, frozen(own)), [expression, own, 0])
            known[2] |= 1 << index
        return [tuple(known) for known in classes.values()]

    def _accepts(self, expression, own, lot):
        return all(self.matcher.holds(condition, own, lot.ad) for condition in self.matcher.conditions(expression))

    def _not_accepted(self, lot, target):
        expression = target.entry["accept_requirements"]
        for condition in self.matcher.conditions(expression) if expression else ():
            if not self.matcher.holds(condition, target.ad, lot.ad):
                names = (condition.target | (condition.bare - set(target.ad))) - set(lot.ad)
                names = spelled(condition, names)
                return (
                    f"accept_requirements wants {_shown(condition.original)}"
                    + _unknown_names(names, "of these jobs")
                    + not_told(names, self.told)
                )
        return None

    def _not_required(self, lot, target):
        try:
            for text in (lot.group["requirements"], lot.group["gpu_requirements"]):
                if text:
                    self.matcher.conditions(text)
        except UnparsableError as error:
            return f"their Requirements cannot be read: {error}"
        for condition in self._conditions(lot):
            if not self.matcher.holds(condition, lot.ad, target.ad):
                if condition in _GPU_CONDITIONS:
                    return self._gpus_not_required(lot, target)
                return _deferral(condition, lot.ad) or (
                    f"Requirements want {_shown(condition.original)}" + _why_false(condition, lot.ad, target.ad)
                )
        return None

    def _gpus_not_required(self, lot, target):
        gpus = target.ad.get("availablegpus")
        text = f"RequireGPUs wants {_shown(lot.group['gpu_requirements'])}"
        if not gpus:
            return text + ", and it has no GPU"
        known = set(gpus[0]) | set(lot.ad)
        names = sorted(
            {
                name
                for condition in self.matcher.conditions(lot.group["gpu_requirements"])
                for name in spelled(condition, (condition.my | condition.bare) - known)
            }
        )
        if not names:
            return text
        stated = " and ".join(f"GPUs_{name}" for name in names)
        return text + _unknown_names(names, "of its GPUs") + f": state {stated} in the entry's attributes"

    def _is_passed_over(self, lot, target):
        found = target.passed_over_for(lot.asked)
        if not found:
            return None
        return (
            f"the negotiator has left {found[0]} of {found[1]} free glideins there empty that have room for these jobs"
        )


def _is_remembered_as_passed_over(lot, target):
    row = target.passed_over_groups.get(lot.key)
    if not row:
        return None
    return f"the negotiator left these jobs idle beside free glideins there; none is ordered before {utc(row['until'])}"


def indices(mask):
    """Return the places in a mask, by their index."""
    return [index for index, bit in enumerate(bin(mask)[:1:-1]) if bit == "1"]


class _Thresholds:
    """Places by a value of theirs. None stands for no bound: such a place is in every answer."""

    def __init__(self, values):
        self._always = 0
        by_value = {}
        for index, value in enumerate(values):
            if value is None:
                self._always |= 1 << index
            else:
                by_value[value] = by_value.get(value, 0) | 1 << index
        self._values = sorted(by_value)
        self._from = [0] * (len(self._values) + 1)
        self._to = [0] * (len(self._values) + 1)
        for number, value in enumerate(self._values):
            self._to[number + 1] = self._to[number] | by_value[value]
        for number in range(len(self._values) - 1, -1, -1):
            self._from[number] = self._from[number + 1] | by_value[self._values[number]]

    def at_least(self, bound):
        """Return the places whose value is `bound` or more."""
        return self._always | self._from[bisect.bisect_left(self._values, bound)]

    def at_most(self, bound):
        """Return the places whose value is `bound` or less."""
        return self._always | self._to[bisect.bisect_right(self._values, bound)]


def _of_entries(places, resource, bound):
    return [place.entry and place.entry["accept"].get(resource, {}).get(bound) for place in places]


def _misfit(lot, target):
    """Return why a request is not one for the entry and shape, or None."""
    for resource, bounds in sorted(target.entry["accept"].items()):
        low, high = bounds["min"], bounds["max"]
        if low is not None and lot.group[resource] < low:
            return f"asks for {lot.group[resource]} {resource}, accept has min {low}"
        if high is not None and lot.group[resource] > high:
            return f"asks for {lot.group[resource]} {resource}, accept has max {high}"
    runtime_s = lot.group["max_runtime_s"]
    if runtime_s is not None and runtime_s > longest_job_s(target.entry):
        return f"may run {runtime_s} s, a glidein there has {longest_job_s(target.entry)} s for a job"
    for resource, asked, there in zip(RESOURCES, lot.asked, target.size):
        if asked > there:
            return f"asks for {asked} {resource}, the shape has {there}"
    return None


def _deferral(condition, job):
    """Return when deferred jobs may start, if that is what the condition of a job ad is about; else None.

    condor_submit adds such conditions to Requirements of jobs with deferral_time or cron_hour and the like.
    """
    deferred_s = job.get("deferraltime")
    if "deferraltime" not in condition.bare | condition.my or not _is_number(deferred_s):
        return None
    prepare_s, interval_s, window_s = (
        job[name] if _is_number(job.get(name)) else 0
        for name in ("deferralpreptime", "scheddinterval", "deferralwindow")
    )
    now_s, deferred = job["currenttime"], _clock(deferred_s, job["currenttime"])
    first_s = deferred_s - prepare_s - interval_s
    if now_s < first_s:
        return f"deferred jobs: not before {_clock(first_s, now_s)}, as their DeferralTime is {deferred}"
    if now_s >= deferred_s + window_s:
        return f"deferred jobs: their DeferralTime, {deferred}, and their DeferralWindow of {window_s} s are over"
    return None


def _clock(time_s, now_s):
    """Return epoch seconds as a time of day in UTC, with the date if it is not today's."""
    day, time_of_day = time.strftime("%Y-%m-%d", time.gmtime(time_s)), time.strftime("%H:%M UTC", time.gmtime(time_s))
    return time_of_day if day == time.strftime("%Y-%m-%d", time.gmtime(now_s)) else f"{day} {time_of_day}"


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LATEST_S


def _why_false(condition, job, machine):
    """Return why a condition of the job ad is not true for the machine ad, as far as the ads show it."""
    missing = condition.bare - set(job) - set(machine)
    of_jobs = (condition.my - set(job)) | {name for name in missing if is_of_jobs(name)}
    of_machines = ((condition.target - set(machine)) | missing) - of_jobs
    looked_up = condition.target | (condition.bare - set(job))
    names = spelled(condition, {name for name in looked_up if is_unknown_name(machine, name)})
    text = _unknown_names(spelled(condition, of_machines), "of its machines")
    if names:
        text += f", and the name of a glidein's node is not known beforehand ({', '.join(names)})"
    return text + _unknown_names(spelled(condition, of_jobs), "of these jobs") or _values(condition, job, machine)


def _unknown_names(names, whose):
    if not names:
        return ""
    return f", and {', '.join(names)} {'is' if len(names) == 1 else 'are'} not known {whose}"


def _values(condition, own, other):
    """Return the values of the other ad that a condition has looked at, as text."""
    theirs = parts(condition, own, other)[1]
    told = [f"{name} is {value!r}" for name, value in sorted(theirs.items()) if not isinstance(value, (list, dict))]
    return f"; there {', '.join(told[:3])}" if told else ""


def _shown(text):
    return text if len(text) <= 120 else text[:117] + "..."
