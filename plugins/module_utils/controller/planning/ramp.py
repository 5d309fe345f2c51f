# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: how many unproven glideins an entry may have. It opens fast where they work, and leaves one probe where they
fail.

An unproven glidein is one that is queued, that is starting, or that runs and has not registered in time. What is known
is the server's history of the last hours; without it an entry gets what one gets that is new.
"""

import collections

from ansible_collections.glidein.ops.plugins.module_utils.entries import idle_after_job_s, idle_timeout_s

# glideins: unproven ones that the entry may have; why: in words; failing: whether all but these are to be withdrawn.
Ceiling = collections.namedtuple("Ceiling", ["glideins", "why", "failing"])

# The server counts a glidein as ended early up to one refresh after 300 s. Where glideins are meant to end so soon,
# it says nothing. One that had a good job counts only until its summary is read.
_EARLY_S = 600
_EARLY_AFTER_JOB_S = 300
_PROBE = 1


def ceilings(targets, guard, now_s):
    """Return {(site, entry): Ceiling}. targets: all Targets; guard: of plan_options."""
    by_entry = {}
    for target in targets:
        by_entry.setdefault(target.key[:2], []).append(target)
    return {key: _ceiling(here, guard, now_s) for key, here in by_entry.items()}


def close(targets, found):
    """Leave only the probe of an entry that fails: what else starts or waits there serves no job, and does not stay."""
    left = {key: ceiling.glideins for key, ceiling in found.items() if ceiling.failing}
    for target in targets:
        key = target.key[:2]
        if key in left and target.counts:
            left[key] -= min(target.late, left[key])
            target.starting = min(target.starting, left[key])
            target.planned = min(target.planned, left[key] - target.starting)
            left[key] -= target.starting + target.planned
            if target.planned < target.counts["queued"]:
                target.said.append(found[key].why)


def _ceiling(targets, guard, now_s):
    good, failed = record(targets)
    alive = _alive(targets, now_s)
    if failed >= guard["probe_failures"] and failed > good:
        glideins = _PROBE + guard["ramp_factor"] * alive
        text = f"lets {glideins} unproven glideins in, as {failed} of the last {good + failed} did not work"
        return Ceiling(
            glideins,
            text if alive else f"is probed with one glidein, as {failed} of the last {good + failed} did not work",
            True,
        )
    good = max([good] + [target.registered for target in targets])
    if any(target.supply["sample"] for target in targets):
        good = max(good, guard["ramp_first"])
    glideins = guard["ramp_first"] + guard["ramp_factor"] * good
    return Ceiling(glideins, f"ramp of {glideins} unproven glideins", False)


def record(targets):
    """Return (glideins that worked, glideins that failed) of an entry, as far as the history tells."""
    good = failed = 0
    for target in targets:
        history = target.supply["history"] or {}
        entry = target.entry
        # Whatever the timeouts are: jobs failed there, one after the other.
        early = history.get("jobs_failing" if _ends_soon(entry, entry["shapes"][target.shape]) else "ended_early") or 0
        good += max(0, (history.get("registered") or 0) - early)
        failed += early + (history.get("never_registered") or 0)
    return good, failed


def _ends_soon(entry, shape):
    """Return whether glideins of this shape are meant to end so soon that this says nothing of the entry."""
    return (
        min(idle_timeout_s(entry, shape), entry["walltime_s"]) <= _EARLY_S
        or idle_after_job_s(entry, shape) < _EARLY_AFTER_JOB_S
    )


def _alive(targets, now_s):
    """Return how many registered glideins of an entry have shown that they last, or run jobs."""
    return sum(
        target.registered
        for target in targets
        if target.supply["cpus_claimed"]
        or (target.supply["oldest"] is not None and target.supply["oldest"] <= now_s - _EARLY_S)
    )
