# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demand server: the controllers' view of pool and sites, in the forms of docs/protocol.md, and as old as there."""

from simulation import checkout
from simulation.jobs import RESOURCES
from simulation.parameters import REFRESH_S, STALE_S

checkout.importable()
from glidein_demand.pool.slots import job_deadline  # noqa: E402
from glidein_demand.store import glidein_tracking as tracking  # noqa: E402

EPOCH = 1_800_000_000
"""When the simulation begins, for whoever wants epoch seconds."""

LEAST_LIFE_S = 60
DEMAND_HISTORY_POINTS = 100


def epoch(time_s):
    """Return simulated seconds as epoch seconds."""
    return EPOCH + int(time_s)


class DemandServer:
    """A server that reads the pool every REFRESH_S and stores reports and leases.

    The history of glideins comes from the real server's rules (glidein_demand.store.glidein_tracking). They are applied
    to simulated reports and readings, so the history is as late and as incomplete as in the real server.
    """

    def __init__(self, engine, pool, entries):
        self.engine = engine
        self.pool = pool
        self.entries = {entry.key: entry for entry in entries}
        self.as_of = None
        self._readings = {}  # schedd: (time, {kind: (count, oldest job, number of jobs older than ten minutes)})
        self._supply = {}
        self._demand_history = []
        self._leases = {}  # (site, entry): ({group: jobs}, expires)
        self._known = {}  # (site, batch id): tracking.Glidein
        self._plans = {}  # key: [plan]
        self._told = {}  # key: time of the last list of running glideins
        self._samples = {}  # (site, entry): attributes
        engine.every(REFRESH_S, self.refresh, first_s=5)  # PyGlidein's server, too, first reads after 5 s

    # --- Queries of the pool

    def refresh(self):
        """Read all schedds that respond, and the collector."""
        now = self.engine.now
        for schedd in self.pool.schedds - self.pool.silent:
            found = {}
            for (owner, kind), jobs in self.pool.idle.items():
                if owner == schedd and jobs:
                    old = sum(job.submitted <= now - 600 for job in jobs)
                    found[kind] = (len(jobs), jobs[0], old)
            self._readings[schedd] = (now, found)
        answered = [time for schedd, (time, _found) in self._readings.items() if schedd not in self.pool.silent]
        self.as_of = min(answered, default=self.as_of)
        idle = sum(count for _time, found in self._readings.values() for count, _first, _old in found.values())
        self._demand_history = [*self._demand_history, [epoch(now), idle]][-DEMAND_HISTORY_POINTS:]
        self._read_collector(epoch(now))

    def _read_collector(self, now):
        rows = [(*glidein.entry.key, batch_id(glidein), epoch(glidein.started), now) for glidein in self.pool.glideins]
        self._supply = {key: self._of_entry(key) for key in self.entries}
        for key, found in self._supply.items():
            if found["registered"]:
                self._samples[key[:2]] = sample(self.entries[key])
        for one in tracking.after_reading(self._known, rows, now):
            self._known[(one.site, one.batch_id)] = one
        for name in [name for name, one in self._known.items() if one.first_seen < now - 48 * 3600]:
            del self._known[name]

    def _of_entry(self, key):
        now = self.engine.now
        glideins = [glidein for glidein in self.pool.glideins if glidein.entry.key == key]
        free, passed = [], []
        for glidein in glideins:
            if glidein.takes_jobs and glidein.left[0] and glidein.left[1] and not glidein.retired(now + LEAST_LIFE_S):
                slot = (glidein.left, job_deadline({"GLIDEIN_ToDie": epoch(glidein.dies)}))
                (passed if self.pool.passed_over(glidein) else free).append(slot)
        cpus = sum(glidein.entry.size[0] for glidein in glideins)
        starts = [epoch(glidein.started) for glidein in glideins]
        return {
            "registered": len(glideins),
            "retired": sum(glidein.retired(now) for glidein in glideins),
            "cpus": cpus,
            "cpus_claimed": cpus - sum(glidein.left[0] for glidein in glideins),
            "free": counted(free),
            "passed_over": counted(passed),
            "oldest": min(starts, default=None),
        }

    # --- Requests

    def demand(self, sites=(), with_silent=True):
        """Return get_demand's result for a controller of these sites.

        with_silent: True if the last reading of schedds that do not respond counts, as in this server; PyGlidein's and
        GlideinWMS's queries of the queue do not include those.
        """
        groups = {}
        for schedd, (time, found) in sorted(self._readings.items()):
            if schedd in self.pool.silent and not with_silent:
                continue
            stale = self.engine.now - time > STALE_S
            for kind, (count, first, _old) in found.items():
                group = groups.setdefault(kind, new_group(kind, first.number, epoch(time)))
                group["count"] += count
                group["stale"] += count if stale else 0
                group["users"]["alice@pool"] += count
                group["as_of"] = min(group["as_of"], epoch(time))
                group["first_job"] = min(group["first_job"], job_id(first.number), key=float)
        held = self._held(set(sites))
        for group in groups.values():
            group["leased"] = min(group["count"], held.get(group["id"], 0))
            group["count"] -= group["leased"]
        silent = sorted(self.pool.silent)
        return {
            "as_of": None if self.as_of is None else epoch(self.as_of),
            "schedds": {
                "answered": sorted(self.pool.schedds - self.pool.silent),
                "failed": [{"name": name, "error": "no answer", "as_of": epoch(self._seen(name))} for name in silent],
            },
            "groups": sorted(groups.values(), key=lambda group: group["id"]),
            "unreadable": [],
            "waiting_for_limit": [],
            "paused": False,
        }

    def older_than_ten_minutes(self):
        """Return {group id: jobs} of schedds that respond.

        The protocol does not include it; GlideinWMS reads it from the jobs.
        """
        jobs = {}
        for schedd, (_time, found) in self._readings.items():
            if schedd not in self.pool.silent:
                for kind, (_count, _first, old) in found.items():
                    jobs[kind.id] = jobs.get(kind.id, 0) + old
        return jobs

    def supply(self):
        """Return get_supply's result for a caller with a token."""
        now = epoch(self.engine.now)
        entries = {key: (self._plans.get(key, []), self._told.get(key)) for key in self.entries}
        histories = tracking.summaries(self._known.values(), entries, now, endings={})
        return {
            "as_of": None if self.as_of is None else self._demand_history[-1][0],
            "error": None,
            "entries": [
                {
                    **dict(zip(("site", "entry", "shape"), key, strict=True)),
                    **found,
                    "sample": self._samples.get(key[:2]),
                    "history": histories.get(key),
                }
                for key, found in sorted(self._supply.items())
            ],
            "others": 0,
            "others_cpus": 0,
            "others_cpus_claimed": 0,
            "others_free": [],
            "problems": [],
            "demand_history": self._demand_history,
        }

    # --- Reports and leases

    def lease(self, site, entries, ttl_s):
        """Lease jobs, {entry: {group: jobs}}; return the granted ones in the same form."""
        now = self.engine.now
        asking = {(site, entry) for entry in entries}
        counts = {}
        for _time, found in self._readings.values():
            for kind, (count, _first, _old) in found.items():
                counts[kind.id] = counts.get(kind.id, 0) + count
        for name, (groups, expires) in self._leases.items():
            if name not in asking and expires > now:
                for group, jobs in groups.items():
                    counts[group] = counts.get(group, 0) - jobs
        granted = {}
        for entry in sorted(entries):
            granted[entry] = {}
            for group, jobs in sorted(entries[entry].items()):
                granted[entry][group] = max(0, min(jobs, counts.get(group, 0)))
                counts[group] = counts.get(group, 0) - granted[entry][group]
            self._leases[(site, entry)] = (granted[entry], now + ttl_s)
        return granted

    def report(self, site, rows):
        """Store a cycle's report. rows: {key: (plan as in history.plans, running glideins)}."""
        now = epoch(self.engine.now)
        running = []
        for key, (plan, glideins) in rows.items():
            self._plans[key] = tracking.with_plan(self._plans.get(key, []), {"as_of": now, **plan})
            self._told[key] = now
            running += [(*key[1:], batch_id(one), int(one.started - one.queued)) for one in glideins]
        known = {name: one for (owner, name), one in self._known.items() if owner == site}
        for one in tracking.after_report(known, site, running, {key[1:] for key in rows}, now):
            self._known[(one.site, one.batch_id)] = one

    def _held(self, excluding):
        held = {}
        for (site, _entry), (groups, expires) in self._leases.items():
            if site not in excluding and expires > self.engine.now:
                for group, jobs in groups.items():
                    held[group] = held.get(group, 0) + jobs
        return held

    def _seen(self, schedd):
        return self._readings[schedd][0] if schedd in self._readings else self.engine.now


def job_id(number):
    """Return a job's id in the schedd."""
    return f"{number}.0"


def new_group(kind, first, as_of):
    """Return a demand group without jobs. first: number of the oldest job; as_of: epoch seconds."""
    return {
        "id": kind.id,
        "count": 0,
        **{resource: getattr(kind, resource) for resource in RESOURCES},
        "gpu_requirements": None,
        "requirements": kind.requirements,
        "attributes": {},
        "max_runtime_s": kind.max_runtime_s,
        "first_job": job_id(first),
        "users": {"alice@pool": 0},
        "as_of": as_of,
        "stale": 0,
        "unmaterialized": 0,
        "over_limit": 0,
        "leased": 0,
    }


def counted(slots):
    """Return equal free slots with their counts, as get_supply returns them."""
    counts = {}
    for slot in slots:
        counts[slot] = counts.get(slot, 0) + 1
    return [
        {**dict(zip(RESOURCES, left, strict=True)), "count": count, "until": until}
        for (left, until), count in sorted(counts.items())
    ]


def sample(entry):
    """Return the attributes of one of the entry's machines."""
    return {"OpSysAndVer": "Debian13", "Arch": "X86_64", **dict.fromkeys(sorted(entry.provides), True)}


def batch_id(glidein):
    """Return the id that report and machine ad use for the same batch job."""
    return f"{glidein.entry.name}.{glidein.number}"
