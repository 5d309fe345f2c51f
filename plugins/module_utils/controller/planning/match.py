# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Match: find the capacities (EntryShape and OtherMachines) where the jobs of each class fit, and why not elsewhere.

A set of capacities is an integer with one bit for each (a mask), so that thousands of groups and entries are matched by
a few operations each. The evaluation of ClassAd expressions is slow. It is done once for all capacities and job classes
that are alike in the attributes that the expression refers to.
"""

import bisect
import itertools
import time
from typing import TYPE_CHECKING, AbstractSet, Any, Dict, FrozenSet, Iterable, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import RESOURCES, longest_job_s
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import Capacity, EntryShape
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    Ad,
    Condition,
    Matcher,
    UnparsableError,
    conditions_of,
    frozen,
    parts,
    reached,
    spelled,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import (
    JobClass,
    is_job_attribute,
    unreported_hint,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import is_unknown_name
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count, cut

if TYPE_CHECKING:
    import classad2

# HTCondor itself tests it when it makes the dynamic slot; condor_submit puts it into Requirements as well.
GPU_CONDITIONS = conditions_of("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs")

# No later time has a date.
_LATEST_S = 10**11
# Characters of an expression in a reason.
_TEXT_MOST = 120
_BITS = bytes.maketrans(b"01", b"\0\1")


def indices(mask: int) -> List[int]:
    """Return the indices in a mask."""
    return list(itertools.compress(itertools.count(), bin(mask)[:1:-1].encode().translate(_BITS)))


class Fit:
    """Matches job classes with capacities: as masks for all of them, and with the reason why one does not fit."""

    def __init__(self, capacities: Tuple[Capacity, ...], matcher: Matcher, reported: List[str]) -> None:
        """capacities: each EntryShape, then each OtherMachines; reported: attributes that the demand is divided by."""
        self.capacities = capacities
        self._matcher = matcher
        self._reported = reported
        self._all = (1 << len(capacities)) - 1
        self._sizes = [
            _Thresholds([one.size[number] if one.size else None for one in capacities])
            for number in range(len(RESOURCES))
        ]
        self._bounds = [
            (_Thresholds(_accepted(capacities, resource, "max")), _Thresholds(_accepted(capacities, resource, "min")))
            for resource in RESOURCES
        ]
        # START takes only what ends before the glidein does.
        self._longest = _Thresholds([longest_job_s(one.entry) if one.entry else None for one in capacities])
        self._with_ad = sum(1 << index for index, one in enumerate(capacities) if one.ad is not None)
        # Of the others, a sample shows all attributes.
        self._incomplete = sum(
            1 << index
            for index, one in enumerate(capacities)
            if one.size and (one.size[3] or not one.supply.sample or one.outdated)
        )
        self._ads: Dict[Optional[FrozenSet[str]], List[Tuple[Optional[classad2.ClassAd], int]]] = {}
        self._true_at: Dict[Tuple[Any, ...], Tuple[int, int]] = {}
        self._accepting = self._accept_requirements()
        self._passed_over = [
            (index, one) for index, one in enumerate(capacities) if one.size and one.supply.passed_over
        ]
        self._passed_over_groups: Dict[str, int] = {}
        for index, one in enumerate(capacities):
            for group in one.passed_over_groups:
                self._passed_over_groups[group] = self._passed_over_groups.get(group, 0) | 1 << index

    def masks(self, job_class: JobClass) -> Tuple[int, int]:
        """Return (capacities whose machines the negotiator would match with the jobs, those where it may do so).

        What jobs require of the latter is unknown until a glidein has registered there.
        """
        certain, possible = self._by_expressions(job_class)
        if job_class.variants:
            unknown = [index for index, one in enumerate(self.capacities) if job_class.at(one).unknown]
            certain &= ~sum(1 << index for index in unknown)
        mask = self._by_size(job_class) & possible & ~self._passed_over_groups.get(job_class.group_id, 0)
        for index, one in self._passed_over:
            if mask >> index & 1 and one.passed_over_for(job_class.at(one).request):
                mask &= ~(1 << index)
        return mask & certain, mask & ~certain

    def nearest_misses(self, job_class: JobClass) -> List[EntryShape]:
        """Return the shapes where the jobs do not fit; first those that are large enough."""
        certain, possible = self.masks(job_class)
        fitting = certain | possible
        large = self._by_size(job_class) & ~fitting
        others = self._all & ~large & ~fitting
        missed = [self.capacities[index] for index in indices(large) + indices(others)]
        return [one for one in missed if one.size]

    def reason(self, job_class: JobClass, shape: EntryShape) -> Optional[str]:
        """Return None if a glidein of the shape can run the jobs, else why not."""
        here = job_class.at(shape)
        return (
            here.ad_error
            or _too_large(here, shape)
            or self._not_accepted(here, shape)
            or self._not_required(here, shape)
            or _passed_over(here, shape)
        )

    def is_passed_over(self, job_class: JobClass, shape: EntryShape) -> bool:
        """Return whether only the negotiator's decision keeps the jobs away, although they fit."""
        passed_over = _passed_over(job_class.at(shape), shape)
        return passed_over is not None and self.reason(job_class, shape) == passed_over

    def unknown(self, job_class: JobClass, shape: EntryShape) -> List[str]:
        """Return the names of machine attributes that decide whether the jobs fit, and that no source knows yet."""
        found = set(job_class.at(shape).unknown)
        for condition in self._conditions(job_class):
            if not self._matcher.holds(condition, job_class.ad, shape.ad):
                found.update(_unknown(condition, job_class, shape))
        return sorted(found)

    def _conditions(self, job_class: JobClass) -> List[Condition]:
        """Return the conditions of the Requirements and RequireGPUs of a job class. Raises UnparsableError."""
        required, of_gpus = job_class.group["requirements"], job_class.group["gpu_requirements"]
        if of_gpus:
            self._matcher.conditions(of_gpus)
        return [*(self._matcher.conditions(required) if required else ()), *(GPU_CONDITIONS if of_gpus else ())]

    def _by_size(self, job_class: JobClass) -> int:
        if not job_class.variants:
            return self._where_large_enough(job_class)
        masks, mask = {}, 0
        for index, one in enumerate(self.capacities):
            variant = job_class.at(one)
            key = (variant.request, variant.runtime_s)
            if key not in masks:
                masks[key] = self._where_large_enough(variant)
            # Beside a machine whose ad is unknown, the request is unknown.
            mask |= masks[key] & (0 if variant.ad_error or one.ad is None else 1 << index)
        return mask

    def _where_large_enough(self, job_class: JobClass) -> int:
        mask = self._all
        for asked, sizes in zip(job_class.request, self._sizes):
            mask &= sizes.at_least(asked)
        for asked, (most, least) in zip(job_class.request, self._bounds):
            mask &= most.at_least(asked) & least.at_most(asked)
        if job_class.runtime_s is not None:
            mask &= self._longest.at_least(job_class.runtime_s)
        return mask

    def _by_expressions(self, job_class: JobClass) -> Tuple[int, int]:
        """Return (capacities where all conditions are true, those where none is known to be false)."""
        try:
            conditions = self._conditions(job_class)
        except UnparsableError:
            return 0, 0
        if job_class.ad_error:
            return 0, 0
        certain = possible = self._all
        for condition in conditions:
            true, unknown = self._where(condition, job_class.ad)
            certain &= true | ~self._with_ad
            possible &= true | unknown | ~self._with_ad
        for expression, own, others in self._accepting:
            if possible & others and not self._accepts(expression, own, job_class):
                possible &= ~others
        return certain & possible, possible

    def _where(self, condition: Condition, ad: Ad) -> Tuple[int, int]:
        """Return the capacities (of those with a known ad) where a condition of a job ad is (true, unknown)."""
        own = parts(condition, ad, {})[0]
        key = (condition.text, frozen(own))
        if key not in self._true_at:
            condition = reached(condition, own)
            names = None if condition.opaque else condition.target | (condition.bare - set(own))
            is_true = self._matcher.test(condition, own)
            true = 0
            for other, having in self._ads_by(names):
                if is_true(other):
                    true |= having
            unknown = [
                index for index in indices(self._incomplete & ~true) if self.capacities[index].unknown(condition, ad)
            ]
            self._true_at[key] = (true, sum(1 << index for index in unknown))
        return self._true_at[key]

    def _ads_by(self, names: Optional[FrozenSet[str]]) -> "List[Tuple[Optional[classad2.ClassAd], int]]":
        """Return [(part of a machine ad, as Matcher.ad, mask of the capacities that have it)].

        names: those of the attributes that matter, None for all.
        """
        if names not in self._ads:
            classes: Dict[Tuple[Any, ...], Tuple[Ad, int]] = {}
            for index in indices(self._with_ad):
                ad = self.capacities[index].ad or {}
                part = ad if names is None else {name: ad[name] for name in names if name in ad}
                key = frozen(part)
                classes[key] = (part, classes.get(key, (part, 0))[1] | 1 << index)
            self._ads[names] = [(self._matcher.ad(part), mask) for part, mask in classes.values()]
        return self._ads[names]

    def _accept_requirements(self) -> List[Tuple[str, Ad, int]]:
        """Return [(accept_requirements, part of the machine ad that it refers to, mask)] of entries that have any."""
        classes: Dict[Tuple[Any, ...], Tuple[str, Ad, int]] = {}
        for index, capacity in enumerate(self.capacities):
            if not capacity.entry or not capacity.entry["accept_requirements"]:
                continue
            expression = capacity.entry["accept_requirements"]
            own: Ad = {}
            for condition in self._matcher.conditions(expression):
                own.update(parts(condition, capacity.ad, {})[0])
            key = (expression, frozen(own))
            classes[key] = (expression, own, classes.get(key, (expression, own, 0))[2] | 1 << index)
        return list(classes.values())

    def _accepts(self, expression: str, own: Ad, job_class: JobClass) -> bool:
        return all(
            self._matcher.holds(condition, own, job_class.ad) for condition in self._matcher.conditions(expression)
        )

    def _not_accepted(self, job_class: JobClass, shape: EntryShape) -> Optional[str]:
        expression = shape.entry["accept_requirements"]
        for condition in self._matcher.conditions(expression) if expression else ():
            if not self._matcher.holds(condition, shape.ad, job_class.ad):
                missing = (condition.target | (condition.bare - set(shape.ad))) - set(job_class.ad)
                names = spelled(condition, missing)
                return (
                    f"accept_requirements wants {cut(condition.original, _TEXT_MOST)}"
                    + _unknown_names(names, "of these jobs")
                    + unreported_hint(names, self._reported)
                )
        return None

    def _not_required(self, job_class: JobClass, shape: EntryShape) -> Optional[str]:
        try:
            conditions = self._conditions(job_class)
        except UnparsableError as error:
            return f"their Requirements cannot be read: {error}"
        for condition in conditions:
            if not self._matcher.holds(condition, job_class.ad, shape.ad) and not _unknown(condition, job_class, shape):
                if condition in GPU_CONDITIONS:
                    return self._gpus_not_required(job_class, shape)
                return _deferral(condition, job_class.ad) or (
                    f"Requirements want {cut(condition.original, _TEXT_MOST)}"
                    + _why_false(condition, job_class.ad, shape.ad)
                )
        return None

    def _gpus_not_required(self, job_class: JobClass, shape: EntryShape) -> str:
        gpus = shape.ad.get("availablegpus")
        text = f"RequireGPUs wants {cut(job_class.group['gpu_requirements'], _TEXT_MOST)}"
        if not gpus:
            return text + ", and it has no GPU"
        known = set(gpus[0]) | set(job_class.ad)
        names = sorted(
            {
                name
                for condition in self._matcher.conditions(job_class.group["gpu_requirements"])
                for name in spelled(condition, (condition.my | condition.bare) - known)
            }
        )
        if not names:
            return text
        stated = " and ".join(f"GPUs_{name}" for name in names)
        return text + _unknown_names(names, "of its GPUs") + f": state {stated} in the entry's attributes"


class _Thresholds:
    """Masks of capacities by one of their values. Capacities whose value is None are in every mask."""

    def __init__(self, values: Iterable[Optional[int]]) -> None:
        self._always = 0
        by_value: Dict[int, int] = {}
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

    def at_least(self, bound: int) -> int:
        """Return the capacities whose value is `bound` or more."""
        return self._always | self._from[bisect.bisect_left(self._values, bound)]

    def at_most(self, bound: int) -> int:
        """Return the capacities whose value is `bound` or less."""
        return self._always | self._to[bisect.bisect_right(self._values, bound)]


def _accepted(capacities: Iterable[Capacity], resource: str, bound: str) -> List[Optional[int]]:
    return [one.entry["accept"].get(resource, {}).get(bound) if one.entry else None for one in capacities]


def _unknown(condition: Condition, job_class: JobClass, shape: EntryShape) -> List[str]:
    """Return the names of a condition's machine attributes that no source knows, as _named."""
    condition = reached(condition, job_class.ad)
    return _named(condition, shape.unknown(condition, job_class.ad))


def _named(condition: Condition, names: AbstractSet[str]) -> List[str]:
    """Return names (in lower case): those in the condition's text first, spelled as there, then the others."""
    in_text = spelled(condition, names)
    return in_text + sorted(names - {name.lower() for name in in_text})


def _passed_over(job_class: JobClass, shape: EntryShape) -> Optional[str]:
    """Return how the negotiator passed these jobs over here, or None."""
    found = shape.passed_over_for(job_class.request)
    if found:
        free = f"{found[0]} of {found[1]} free glideins"
        return f"the negotiator has left {free} empty there, although these jobs fit in them"
    until = shape.passed_over_groups.get(job_class.group_id)
    if until is None:
        return None
    return f"the negotiator left these jobs idle beside free glideins there; none is ordered before {utc(until)}"


def _too_large(job_class: JobClass, shape: EntryShape) -> Optional[str]:
    """Return which request or run time the entry and shape do not admit, or None."""
    request = dict(zip(RESOURCES, job_class.request))
    for resource, bounds in sorted(shape.entry["accept"].items()):
        low, high = bounds["min"], bounds["max"]
        if low is not None and request[resource] < low:
            return f"each job requests {_amount(request[resource], resource)}, but accept admits at least {low}"
        if high is not None and request[resource] > high:
            return f"each job requests {_amount(request[resource], resource)}, but accept admits at most {high}"
    runtime_s = job_class.runtime_s
    if runtime_s is not None and runtime_s > longest_job_s(shape.entry):
        return f"each job may run {runtime_s} s, but a glidein there has {longest_job_s(shape.entry)} s for a job"
    for resource, asked, there in zip(RESOURCES, job_class.request, shape.size):
        if asked > there:
            return f"each job requests {_amount(asked, resource)}, but the shape has {there}"
    return None


def _amount(number: int, resource: str) -> str:
    """Return an amount of one of RESOURCES as text."""
    if resource in ("cpus", "gpus"):
        return count(number, resource[:-1])
    return f"{number} MB of {resource[: -len('_mb')]}"


def _deferral(condition: Condition, job: Ad) -> Optional[str]:
    """Return when deferred jobs may start, if that is what the condition of a job ad is about; else None.

    condor_submit adds such conditions to Requirements of jobs with deferral_time or cron_hour and the like.
    """
    deferred_s: Any = job.get("deferraltime")
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


def _clock(time_s: float, now_s: float) -> str:
    """Return epoch seconds as a time of day in UTC, with the date if it is not today's."""
    day, time_of_day = time.strftime("%Y-%m-%d", time.gmtime(time_s)), time.strftime("%H:%M UTC", time.gmtime(time_s))
    return time_of_day if day == time.strftime("%Y-%m-%d", time.gmtime(now_s)) else f"{day} {time_of_day}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LATEST_S


def _why_false(condition: Condition, job: Ad, machine: Ad) -> str:
    """Return why a condition of the job ad is not true for the machine ad, as far as the ads show it."""
    condition = reached(condition, job)
    missing = condition.bare - set(job) - set(machine)
    of_jobs = (condition.my - set(job)) | {name for name in missing if is_job_attribute(name)}
    of_machines = ((condition.target - set(machine)) | missing) - of_jobs
    looked_up = condition.target | (condition.bare - set(job))
    names = _named(condition, {name for name in looked_up if is_unknown_name(machine, name)})
    text = _unknown_names(_named(condition, of_machines), "of its machines")
    if names:
        text += f", and the name of a glidein's node is not known beforehand ({', '.join(names)})"
    return text + _unknown_names(_named(condition, of_jobs), "of these jobs") or _values(condition, job, machine)


def _unknown_names(names: List[str], whose: str) -> str:
    if not names:
        return ""
    return f", and {', '.join(names)} {'is' if len(names) == 1 else 'are'} not known {whose}"


def _values(condition: Condition, own: Ad, other: Ad) -> str:
    """Return the values of the other ad that a condition has looked at, as text."""
    theirs = parts(condition, own, other)[1]
    values = [f"{name} is {value!r}" for name, value in sorted(theirs.items()) if not isinstance(value, (list, dict))]
    return f"; there {', '.join(values[:3])}" if values else ""
