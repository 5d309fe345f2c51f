# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard rule: limit the unproven glideins of an entry.

The limit grows fast where glideins work, and leaves a single one where they fail.

An unproven glidein is queued, is starting, or runs and has not registered in time. The record of an entry is the
server's history of the last hours; without one the entry gets the limit of a new one.
"""

from typing import NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.entries import idle_after_job_s, idle_timeout_s

# The server counts a glidein as ended early up to one refresh after 300 s. Where glideins are meant to end so soon,
# that proves nothing. A glidein that had a good job counts only until its summary is read.
_EARLY_S = 600
_EARLY_AFTER_JOB_S = 300
_PROBE = 1


class UnprovenLimit(NamedTuple):
    """The unproven glideins that an entry may have.

    glideins: their number; reason: as text; is_failing: whether the entry's glideins fail, so that all others are
    withdrawn.
    """

    glideins: int
    reason: str
    is_failing: bool


def limits(shapes, guard, now_s):
    """Return {(site, entry): UnprovenLimit}. guard: of plan_options."""
    by_entry = {}
    for shape in shapes:
        by_entry.setdefault(shape.path, []).append(shape)
    return {path: _limit(here, guard, now_s) for path, here in by_entry.items()}


def withdraw(shapes, found):
    """Return the shapes of failing entries with the glideins only that their limit admits.

    found: of limits(). Other starting glideins of such an entry serve no job, and other queued ones are withdrawn.
    """
    left = {path: limit.glideins for path, limit in found.items() if limit.is_failing}
    after = []
    for shape in shapes:
        path = shape.path
        if path in left and shape.counts:
            left[path] -= min(shape.late, left[path])
            starting = min(shape.starting, left[path])
            queued = min(shape.queued, left[path] - starting)
            left[path] -= starting + queued
            withdrawn = found[path].reason if queued < shape.counts["queued"] else None
            shape = shape._replace(starting=starting, queued=queued, withdrawn=withdrawn)
        after.append(shape)
    return tuple(after)


def _limit(shapes, guard, now_s):
    good, failed = _record(shapes)
    lasting = _lasting(shapes, now_s)
    if failed >= guard["probe_failures"] and failed > good:
        glideins = _PROBE + guard["ramp_factor"] * lasting
        because = f"as {failed} of the last {good + failed} did not work"
        if lasting:
            return UnprovenLimit(glideins, f"lets {glideins} unproven glideins in, {because}", True)
        return UnprovenLimit(glideins, f"is probed with one glidein, {because}", True)
    good = max([good] + [shape.registered for shape in shapes])
    if any(shape.supply["sample"] for shape in shapes):
        good = max(good, guard["ramp_first"])
    glideins = guard["ramp_first"] + guard["ramp_factor"] * good
    return UnprovenLimit(glideins, f"ramp of {glideins} unproven glideins", False)


def _record(shapes):
    """Return (glideins that worked, glideins that failed) of an entry in the history."""
    good = failed = 0
    for shape in shapes:
        # jobs_failing counts whatever the timeouts are: jobs failed there, one after the other.
        early = shape.history.get("jobs_failing" if _ends_soon(shape) else "ended_early") or 0
        good += max(0, (shape.history.get("registered") or 0) - early)
        failed += early + (shape.history.get("never_registered") or 0)
    return good, failed


def _ends_soon(shape):
    """Return whether glideins of this shape are meant to end so soon that this proves nothing about the entry."""
    entry, size = shape.entry, shape.entry["shapes"][shape.key[2]]
    return (
        min(idle_timeout_s(entry, size), entry["walltime_s"]) <= _EARLY_S
        or idle_after_job_s(entry, size) < _EARLY_AFTER_JOB_S
    )


def _lasting(shapes, now_s):
    """Return how many registered glideins of an entry have shown that they last, or run jobs."""
    return sum(
        shape.registered
        for shape in shapes
        if shape.supply["cpus_claimed"]
        or (shape.supply["oldest"] is not None and shape.supply["oldest"] <= now_s - _EARLY_S)
    )
