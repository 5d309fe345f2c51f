# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GlideinWMS's rule, with its default settings, at efdc530 of github.com/glideinWMS/glideinwms.

Frontend (frontend/glideinFrontendElement.py, glideinFrontendLib.py): countMatch gives an entry 1/k of each job that k
entries match, in cores (`prop_mc`); idle slots are subtracted; compute_glidein_min_idle requests a third of the rest
and a reserve, halved at every curb that is reached; compute_glidein_max_run limits the running ones;
choose_remove_excess_type withdraws queued glideins when no job has been idle for long enough. Factory
(factory/glideFactoryLib.py): keepIdleGlideins fills the queue up to min_idle within max_run and the entry's limits.

Settings are the defaults of creation/lib/cvWParams.py and cgWParams.py, except for the limits of an entry, which are
the same for all policies. Frontend and factory run once a minute, and count cycles before they withdraw glideins: here
these are as many seconds. The real frontend reads the queue in every cycle; here it gets the demand server's reading
like the other policies. The match expression is assumed to use the entry's size and walltime.
"""

import math
from dataclasses import dataclass

from simulation.parameters import IDLE_S
from simulation.policies.base import Order, fits

LOOP_S = 60
IDLE_GLIDEINS_MAX, IDLE_GLIDEINS_RESERVE = 100, 5
IDLE_SLOTS_CURB, IDLE_SLOTS_MAX = 5, 100
IDLE_SLOTS_TOTAL_CURB, IDLE_SLOTS_TOTAL_MAX = 200, 1000
RAMP_UP_ATTENUATION = 3
RELATIVE_TO_QUEUE = 1.15
WAIT_CYCLES, EMPTY_CYCLES = 5, 10
LEAST_FREE_MB = 2500
REMOVED_PER_CYCLE = 5


@dataclass
class Memory:
    """Seconds without an idle job, without a used glidein, and without any glidein (history_obj)."""

    no_job_s: int = 0
    unused_s: int = 0
    none_s: int = 0
    last_s: int | None = None

    def see(self, now_s, idle_jobs, slots, idle_slots):
        """Update the times from one cycle to the next."""
        passed = 0 if self.last_s is None else now_s - self.last_s
        self.last_s = now_s
        self.no_job_s = 0 if idle_jobs else self.no_job_s + passed
        self.unused_s = self.unused_s + passed if idle_slots >= slots else 0
        self.none_s = 0 if slots else self.none_s + passed

    def removes(self):
        """Return NO, WAIT, IDLE or ALL."""
        if self.no_job_s <= WAIT_CYCLES * LOOP_S:
            return "NO"
        if self.none_s > EMPTY_CYCLES * LOOP_S:
            return "ALL"
        return "IDLE" if self.unused_s > EMPTY_CYCLES * LOOP_S else "WAIT"


class GlideinWMS:
    """One frontend, and the factory that fulfils its requests."""

    def __init__(self, parameters):
        self.cycle_s = parameters.cycle_s
        self.memory = {}

    @staticmethod
    def idle_s(_entry):
        """Return an entry's idle times of a glidein: before the first job, after a job."""
        return IDLE_S["glideinwms"]

    def decide(self, readings):
        """Return {entry's key: Order}."""
        groups = readings.server.demand(with_silent=False)["groups"]
        old = readings.server.older_than_ten_minutes()
        groups = [dict(group, count=group["count"] + group["leased"], old=old[group["id"]]) for group in groups]
        found = readings.server.supply()["entries"]
        supplied = {(one["site"], one["entry"], one["shape"]): one for one in found}
        matching = {group["id"]: [entry.key for entry in readings.entries if matches(group, entry)] for group in groups}
        total_idle = sum(idle_slots(supplied[entry.key]) for entry in readings.entries)
        orders = {}
        for entry in readings.entries:
            mine = [group for group in groups if entry.key in matching[group["id"]]]
            orders[entry.key] = self._entry(readings, entry, mine, matching, supplied[entry.key], total_idle)
        return orders

    def _entry(self, readings, entry, groups, matching, supplied, total_idle):
        queued, running = readings.counts[entry.key]
        free = idle_slots(supplied)
        idle = proportional(groups, matching, entry, "count")
        old = proportional(groups, matching, entry, "old")
        least = min_idle(max(0, idle - free), max(0, old - free), free, total_idle)
        busy = busy_glideins(supplied)
        most = max_run(idle, busy, free)
        memory = self.memory.setdefault(entry.key, Memory())
        memory.see(readings.now_s, sum(group["count"] for group in groups), supplied["registered"], free)
        submit = min(least - queued, most - queued - running, entry.total - queued - running, entry.queued - queued)
        if submit > 0:
            return Order(submit=min(submit, entry.per_cycle))
        # WAIT withdraws glideins that the factory has not submitted to the site yet: here, none.
        if memory.removes() in ("IDLE", "ALL") and queued > least:
            return Order(cancel=min(queued - least, REMOVED_PER_CYCLE * self.cycle_s // LOOP_S))
        return Order()


def matches(group, entry):
    """Apply match_expr: size and walltime. An attribute that an entry's configuration does not set matches."""
    runtime_s = group["max_runtime_s"]
    return fits(group, entry) and (runtime_s is None or runtime_s <= entry.walltime_s)


def proportional(groups, matching, entry, key):
    """Return prop_mc of countMatch: the glideins that this entry's part of the jobs would fill by their cores."""
    straight = sum(group[key] for group in groups)
    if not straight:
        return 0
    parts = sum(group[key] / len(matching[group["id"]]) for group in groups)
    cores = sum(group[key] * group["cpus"] for group in groups)
    return math.ceil(cores * parts / straight / entry.size[0])


def idle_slots(supplied):
    """Return the partitionable slots with a free core and more than 2500 MB (getIdleCondorStatus)."""
    slots = [*supplied["free"], *supplied["passed_over"]]
    return sum(slot["count"] for slot in slots if slot["cpus"] and slot["memory_mb"] > LEAST_FREE_MB)


def busy_glideins(supplied):
    """Return the glideins that run jobs, those with a used part in the supply (countRealRunning)."""
    if not supplied["registered"]:
        return 0
    size = supplied["cpus"] // supplied["registered"]
    slots = [*supplied["free"], *supplied["passed_over"]]
    return supplied["registered"] - sum(slot["count"] for slot in slots if slot["cpus"] == size)


def min_idle(idle, old_idle, idle_here, idle_total):
    """Return compute_glidein_min_idle.

    idle, old_idle: jobs in glideins, minus idle slots; the others: idle slots.
    """
    if idle_here >= IDLE_SLOTS_MAX or idle_total >= IDLE_SLOTS_TOTAL_MAX or idle <= 0:
        return 0
    wanted = int(min(idle, IDLE_SLOTS_TOTAL_MAX - idle_total) / RAMP_UP_ATTENUATION)
    wanted = min(wanted + min(old_idle // 3, IDLE_GLIDEINS_RESERVE), IDLE_GLIDEINS_MAX)
    if idle_here >= IDLE_SLOTS_CURB:
        wanted /= 2
    if idle_total >= IDLE_SLOTS_TOTAL_CURB:
        wanted /= 2
    return int(max(wanted, 1))


def max_run(idle, busy, idle_here):
    """Return compute_glidein_max_run."""
    if idle > 0:
        return int((max(idle - idle_here, 0) + busy) * RELATIVE_TO_QUEUE + 1)
    return busy
