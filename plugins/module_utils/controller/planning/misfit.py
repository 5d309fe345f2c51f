# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons why the jobs of a class cannot run in a shape's glideins, as text."""

import time

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    UnparsableError,
    parts,
    reached,
    spelled,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.fit import (
    GPU_CONDITIONS,
    conditions_of_class,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_attributes import unreported_hint
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.job_classes import is_job_attribute
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine_ad import is_unknown_name
from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES, longest_job_s
from ansible_collections.glidein.ops.plugins.module_utils.token_expiry import utc

# No later time has a date.
_LATEST_S = 10**11


class Misfits:
    """Explains misfits.

    matcher: classad.Matcher; reported: names of the job attributes that the demand server divides groups by, or None if
    the server does not report them.
    """

    def __init__(self, matcher, reported):
        self._matcher = matcher
        self._reported = reported

    def reason(self, job_class, shape):
        """Return None if a glidein of the shape can run the jobs, else why not."""
        here = job_class.at(shape)
        return (
            here.ad_error
            or _too_large(here, shape)
            or self._not_accepted(here, shape)
            or self._not_required(here, shape)
            or _passed_over(here, shape)
        )

    def is_passed_over(self, job_class, shape):
        """Return whether only the negotiator's decision keeps the jobs away, although they fit."""
        here = job_class.at(shape)
        return _passed_over(here, shape) is not None and self.reason(job_class, shape) == _passed_over(here, shape)

    def unknown(self, job_class, shape):
        """Return the names of machine attributes that decide whether the jobs fit, and that no source knows yet."""
        found = set(job_class.at(shape).unknown)
        for condition in conditions_of_class(job_class, self._matcher):
            if not self._matcher.holds(condition, job_class.ad, shape.ad):
                found.update(_unknown(condition, job_class, shape))
        return sorted(found)

    def _not_accepted(self, job_class, shape):
        expression = shape.entry["accept_requirements"]
        for condition in self._matcher.conditions(expression) if expression else ():
            if not self._matcher.holds(condition, shape.ad, job_class.ad):
                names = (condition.target | (condition.bare - set(shape.ad))) - set(job_class.ad)
                names = spelled(condition, names)
                return (
                    f"accept_requirements wants {_shortened(condition.original)}"
                    + _unknown_names(names, "of these jobs")
                    + unreported_hint(names, self._reported)
                )
        return None

    def _not_required(self, job_class, shape):
        try:
            conditions = conditions_of_class(job_class, self._matcher)
        except UnparsableError as error:
            return f"their Requirements cannot be read: {error}"
        for condition in conditions:
            if not self._matcher.holds(condition, job_class.ad, shape.ad) and not _unknown(condition, job_class, shape):
                if condition in GPU_CONDITIONS:
                    return self._gpus_not_required(job_class, shape)
                return _deferral(condition, job_class.ad) or (
                    f"Requirements want {_shortened(condition.original)}"
                    + _why_false(condition, job_class.ad, shape.ad)
                )
        return None

    def _gpus_not_required(self, job_class, shape):
        gpus = shape.ad.get("availablegpus")
        text = f"RequireGPUs wants {_shortened(job_class.group['gpu_requirements'])}"
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


def _unknown(condition, job_class, shape):
    """Return the names of a condition's machine attributes that no source knows, as _named."""
    condition = reached(condition, job_class.ad)
    return _named(condition, shape.unknown(condition, job_class.ad))


def _named(condition, names):
    """Return names (in lower case): those in the condition's text first, spelled as there, then the others."""
    in_text = spelled(condition, names)
    return in_text + sorted(names - {name.lower() for name in in_text})


def _passed_over(job_class, shape):
    """Return how the negotiator passed these jobs over here, or None."""
    found = shape.passed_over_for(job_class.request)
    if found:
        free = f"{found[0]} of {found[1]} free glideins"
        return f"the negotiator has left {free} there empty that have room for these jobs"
    row = shape.passed_over_groups.get(job_class.group_id)
    if not row:
        return None
    return f"the negotiator left these jobs idle beside free glideins there; none is ordered before {utc(row['until'])}"


def _too_large(job_class, shape):
    """Return which request or run time the entry and shape do not admit, or None."""
    request = dict(zip(RESOURCES, job_class.request))
    for resource, bounds in sorted(shape.entry["accept"].items()):
        low, high = bounds["min"], bounds["max"]
        if low is not None and request[resource] < low:
            return f"asks for {request[resource]} {resource}, accept has min {low}"
        if high is not None and request[resource] > high:
            return f"asks for {request[resource]} {resource}, accept has max {high}"
    runtime_s = job_class.runtime_s
    if runtime_s is not None and runtime_s > longest_job_s(shape.entry):
        return f"may run {runtime_s} s, a glidein there has {longest_job_s(shape.entry)} s for a job"
    for resource, asked, there in zip(RESOURCES, job_class.request, shape.size):
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


def _unknown_names(names, whose):
    if not names:
        return ""
    return f", and {', '.join(names)} {'is' if len(names) == 1 else 'are'} not known {whose}"


def _values(condition, own, other):
    """Return the values of the other ad that a condition has looked at, as text."""
    theirs = parts(condition, own, other)[1]
    values = [f"{name} is {value!r}" for name, value in sorted(theirs.items()) if not isinstance(value, (list, dict))]
    return f"; there {', '.join(values[:3])}" if values else ""


def _shortened(text):
    return text if len(text) <= 120 else text[:117] + "..."
