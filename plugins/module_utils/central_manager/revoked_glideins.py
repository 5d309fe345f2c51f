# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes what the machines of a revoked site have in the pool: their ads, and the jobs that run on them."""

import time

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError

# The negotiator may have assigned slots that it read before: such a job starts a little later.
SETTLE_S = 6
PAUSE_S = 2
# The time that jobs have to save their work, and then to end, when they are vacated fast.
GRACE_S = 60
LAST_S = 30
# Limits on what the ads of a stolen token can add to the state file and to the command lines.
MOST_MACHINES = 10000
IDS_AT_ONCE = 500

# Ads of a glidein: {kind: (options of condor_status, command and TargetType that remove them)}. Since HTCondor 23.7 a
# startd has an ad of its own beside those of its slots.
ADS = {
    "slots": ([], "INVALIDATE_STARTD_ADS", "Machine"),
    "startds": (["-startd"], "INVALIDATE_STARTD_ADS", "StartD"),
    "masters": (["-master"], "INVALIDATE_MASTER_ADS", "DaemonMaster"),
}


def startd_of(slot):
    """Return the startd's name of a slot: "slot1_2@glidein_7@node" and "slot1@glidein_7@node" have the same startd."""
    first, at, rest = slot.partition("@")
    return rest if at and first.startswith("slot") else slot


def sent_by(identity):
    """Return a ClassAd expression for the ads of an identity. The collector itself sets AuthenticatedIdentity."""
    return f'AuthenticatedIdentity =?= "{identity}"'


def status_command(kind, identity):
    """Return the argument list that prints the names of an identity's ads of one kind of ADS."""
    return ["condor_status"] + ADS[kind][0] + ["-constraint", sent_by(identity), "-autoformat", "Name"]


def others_command(identity):
    """Return the argument list that prints the names of all other identities' slots."""
    return ["condor_status", "-constraint", f"!({sent_by(identity)})", "-autoformat", "Name"]


def schedds_command():
    """Return the argument list that prints "ADDRESS NAME" of each schedd with users' jobs.

    A schedd is found by its address also where its name is not a host's. A gateway's schedd has pilots only, and
    root of the central manager has no token for it.
    """
    constraint = 'is_glidein =!= true && regexp("^gateway-", AuthenticatedIdentity) =!= true'
    return ["condor_status", "-schedd", "-constraint", constraint, "-autoformat", "MyAddress", "Name"]


def jobs_command(address):
    """Return the argument list that prints "ID SLOT" of a schedd's running jobs."""
    constraint = "RemoteHost isnt undefined"
    return ["condor_q", "-addr", address, "-allusers", "-constraint", constraint, "-af:j", "RemoteHost"]


def vacate_command(address, ids, fast):
    """Return the argument list that vacates jobs. fast: without time to save their work."""
    return ["condor_vacate_job", "-addr", address] + (["-fast"] if fast else []) + ids


def off_command(identity):
    """Return the argument list that stops an identity's glideins."""
    return ["condor_off", "-graceful", "-daemon", "master", "-constraint", sent_by(identity)]


def invalidation(kind, identity):
    """Return (argument list, standard input) that remove an identity's ads of one kind of ADS."""
    _options, command, target = ADS[kind]
    ad = f'MyType = "Query"\nTargetType = "{target}"\nRequirements = {sent_by(identity)}\n'
    return ["condor_advertise", "-tcp", command, "-"], ad


def jobs_on(lines, machines):
    """Return the ids of the jobs that run on one of the machines. lines: "ID SLOT", as jobs_command prints them."""
    pairs = (line.split(None, 1) for line in lines)
    return [pair[0] for pair in pairs if len(pair) == 2 and startd_of(pair[1].strip()) in machines]


class RevokedGlideins:
    """Removes what the machines of one identity have in the pool."""

    def __init__(self, run, identity, known, clock=time.monotonic, pause=time.sleep):
        """run(argv, stdin=None): standard output of a command, or CommandError; known: names of machines seen before.

        clock(): seconds; pause(seconds).
        """
        self.run, self.identity, self.clock, self.pause = run, identity, clock, pause
        self.machines = set(known)
        self.found = set()
        self.jobs = set()
        self.errors = []
        self._failures = {}
        # Of the last look: {schedd's name: why its jobs are unknown}.
        self._unread = {}

    def look(self):
        """Return ({kinds of ADS that exist}, {schedd's address: [job ids]}), read now. Raises CommandError."""
        existing = set()
        self._unread = {}
        for kind in ADS:
            names = self.run(status_command(kind, self.identity)).splitlines()
            if names:
                existing.add(kind)
            if kind != "masters":
                self.found.update(map(startd_of, names))
        # A thief may have advertised the name of another site's machine: the jobs of that machine must not suffer.
        others = set(map(startd_of, self.run(others_command(self.identity)).splitlines())) if self.found else set()
        self.machines.update(sorted(self.found - others)[:MOST_MACHINES])
        self.machines -= others
        return existing, self._running_jobs() if self.machines else {}

    def _running_jobs(self):
        jobs = {}
        for line in self.run(schedds_command()).splitlines():
            address, _blank, name = line.partition(" ")
            try:
                ids = jobs_on(self.run(jobs_command(address)).splitlines(), self.machines)
            except CommandError as error:
                self._unread[name] = str(error)
                continue
            if ids:
                jobs[address] = ids
                self.jobs.update(f"{job} of {name}" for job in ids)
        return jobs

    def act(self):
        """Repeat until nothing is left, or until the times for jobs are over. Raises CommandError."""
        begun = self.clock()
        quiet_since = None
        is_off = False
        while True:
            existing, jobs = self.look()
            self._vacate(jobs, self.clock() - begun > GRACE_S)
            if existing and not is_off:
                # This deployment's glideins end. The answer of other startds does not matter.
                is_off = True
                self._attempt(off_command(self.identity))
            for kind in sorted(existing):
                self._attempt(*invalidation(kind, self.identity))
            if existing or jobs or self._unread:
                quiet_since = None
            elif not self.found and not self.jobs:
                return
            else:
                quiet_since = self.clock() if quiet_since is None else quiet_since
                if self.clock() - quiet_since >= SETTLE_S:
                    return
            if self.clock() - begun > GRACE_S + LAST_S:
                if existing or jobs:
                    self.errors = [left_over(GRACE_S + LAST_S, existing, jobs)] + list(self._failures.values())
                return
            self.pause(PAUSE_S)

    def _vacate(self, jobs, fast):
        for address, ids in sorted(jobs.items()):
            for first in range(0, len(ids), IDS_AT_ONCE):
                self._attempt(vacate_command(address, ids[first : first + IDS_AT_ONCE], fast))

    def _attempt(self, argv, stdin=None):
        """Return standard output; "" for a command that failed, because only what is left in the end counts."""
        try:
            return self.run(argv, stdin)
        except CommandError as error:
            self._failures[tuple(argv[:3])] = str(error)
            return ""

    def report(self):
        """Return {"changed", "machines" and "jobs": numbers, "errors": [texts]}."""
        unread = [f"the jobs of the schedd {name} are unknown: {error}" for name, error in sorted(self._unread.items())]
        return {
            "changed": bool(self.found or self.jobs),
            "machines": len(self.found),
            "jobs": len(self.jobs),
            "errors": self.errors + unread,
        }


def left_over(seconds, existing, jobs):
    """Return the error that names what was not removed in so many seconds."""
    ids = [f"{job} of the schedd {address}" for address, each in sorted(jobs.items()) for job in each]
    return (
        f"after {seconds} s there are still ads ({', '.join(sorted(existing)) or 'none'}) "
        f"and jobs ({', '.join(ids[:20]) or 'none'})"
    )
