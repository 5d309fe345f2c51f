# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sites are revoked, since when; and what their machines still have in the pool is taken from them.

`note` keeps the state file; HTCondor's configuration is made from it. `retire`, once the collector refuses those sites,
tells their glideins to stop, takes their jobs back and removes their ads, whether the machines obey or not. Standard
library only; Python 3.6.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The negotiator may have given away, just before, slots that it read before: such a job starts a little later.
SETTLE_S = 6
PAUSE_S = 2
# How long jobs that were told to vacate fast, after the grace, may take to be gone.
LAST_S = 30
COMMAND_S = 60
# Bounds on what a thief may make us keep and say.
MOST_MACHINES = 10000
IDS_AT_ONCE = 500


class RevokeError(Exception):
    """A command of HTCondor failed; the text has it, its status and what it said."""


# --- State -----------------------------------------------------------------------------------------------------------


def noted(sites, revoked, known, now):
    """The state {site: {"before", "denied", "machines"}} that follows from `sites`, when `revoked` are to be, at `now`.

    known: sites of the inventory; one that has left it stays as it is.
    before: epoch seconds; tokens issued until then are refused for good, also after the site is back. denied: whether
    the site is refused altogether. machines: names of startds that came with its token, of which jobs may still be
    running.
    """
    following = {}
    for site in sorted(set(sites).union(revoked)):
        has = sites.get(site, {"before": 0, "denied": False, "machines": []})
        if site in revoked:
            following[site] = has if has["denied"] else {"before": now, "denied": True, "machines": []}
        elif has["denied"] and site in known:
            # Whoever has a stolen token may have got another one by it, until just now.
            following[site] = {"before": now, "denied": False, "machines": []}
        else:
            following[site] = has
    return following


def read_state(path):
    """The sites in the state file; {} before there is one. RevokeError when it is not one of ours."""
    try:
        sites = json.loads(path.read_text())["sites"]
        return {
            str(site): {
                "before": int(has["before"]),
                "denied": bool(has["denied"]),
                "machines": [str(name) for name in has["machines"]],
            }
            for site, has in sites.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RevokeError(
            "{0} cannot be read ({1}): it says which tokens are refused. Restore it from a backup.".format(path, error)
        ) from error


def write_state(path, sites):
    """Replace the state file, 0600 from its first moment."""
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=".new.")
    try:
        with os.fdopen(handle, "w") as out:
            json.dump({"sites": sites}, out, indent=1, sort_keys=True)
            out.flush()
            os.fsync(out.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


# --- What a site's machines have in the pool -------------------------------------------------------------------------


def startd_of(slot):
    """The startd's name of a slot's: "slot1_2@glidein_7@node" and "slot1@glidein_7@node" are of one startd."""
    first, at, rest = slot.partition("@")
    return rest if at and first.startswith("slot") else slot


def identity(site, domain):
    """Who a site's token says that it is."""
    return "glidein-{0}@{1}".format(site, domain)


def came_with(identities):
    """A ClassAd expression: the ad was sent by one of these. (The collector writes AuthenticatedIdentity itself.)"""
    return " || ".join('AuthenticatedIdentity =?= "{0}"'.format(identity) for identity in identities)


# Ads of a glidein: {what: (option of condor_status, command and TargetType that remove them)}. Since HTCondor 23.7 a
# startd has an ad of its own beside those of its slots.
ADS = {
    "slots": ([], "INVALIDATE_STARTD_ADS", "Machine"),
    "startds": (["-startd"], "INVALIDATE_STARTD_ADS", "StartD"),
    "masters": (["-master"], "INVALIDATE_MASTER_ADS", "DaemonMaster"),
}


def status_command(what, identities):
    return ["condor_status"] + ADS[what][0] + ["-constraint", came_with(identities), "-autoformat", "Name"]


def others_command(identities):
    """Prints the names of the slots that came with the credentials of others."""
    return ["condor_status", "-constraint", "!({0})".format(came_with(identities)), "-autoformat", "Name"]


def schedds_command():
    """Prints "ADDRESS NAME" of each. By its address a schedd is found also where its name is no host's."""
    return ["condor_status", "-schedd", "-autoformat", "MyAddress", "Name"]


def jobs_command(address):
    constraint = "RemoteHost isnt undefined"
    return ["condor_q", "-addr", address, "-allusers", "-constraint", constraint, "-af:j", "RemoteHost"]


def vacate_command(address, ids, fast):
    return ["condor_vacate_job", "-addr", address] + (["-fast"] if fast else []) + ids


def off_command(identities):
    return ["condor_off", "-graceful", "-daemon", "master", "-constraint", came_with(identities)]


def invalidation(what, identities):
    """(argument list, standard input) that remove ads."""
    _option, command, target = ADS[what]
    ad = 'MyType = "Query"\nTargetType = "{0}"\nRequirements = {1}\n'.format(target, came_with(identities))
    return ["condor_advertise", "-tcp", command, "-"], ad


def jobs_on(lines, machines):
    """Ids, out of lines "ID SLOT" as jobs_command prints them, of the jobs that run on one of the machines."""
    pairs = (line.split(None, 1) for line in lines)
    return [pair[0] for pair in pairs if len(pair) == 2 and startd_of(pair[1].strip()) in machines]


class Retirement:
    """Takes from the machines of some identities what they have in the pool.

    run(argv, stdin=None) gives a command's standard output or raises RevokeError; clock() and pause(seconds) tell and
    pass the time. known: names of machines of these identities that were seen before.
    """

    def __init__(self, run, identities, known, clock=time.monotonic, pause=time.sleep):
        self.run, self.identities, self.clock, self.pause = run, identities, clock, pause
        self.machines = set(known)
        self.found = set()
        self.jobs = set()
        self.errors = []
        self.said = {}

    def look(self):
        """({keys of ADS that are there}, {schedd's address: [job ids]}), read now. Raises RevokeError."""
        there = set()
        for what in ADS:
            names = self.run(status_command(what, self.identities)).splitlines()
            if names:
                there.add(what)
            if what != "masters":
                self.found.update(map(startd_of, names))
        # A thief may have put the name of somebody else's machine into an ad: that one's jobs are not to suffer.
        others = set(map(startd_of, self.run(others_command(self.identities)).splitlines())) if self.found else set()
        self.machines.update(sorted(self.found - others)[:MOST_MACHINES])
        self.machines -= others
        return there, self._jobs() if self.machines else {}

    def _jobs(self):
        jobs = {}
        for line in self.run(schedds_command()).splitlines():
            address, _blank, name = line.partition(" ")
            ids = jobs_on(self._try(jobs_command(address)).splitlines(), self.machines)
            if ids:
                jobs[address] = ids
                self.jobs.update("{0} of {1}".format(job, name) for job in ids)
        return jobs

    def act(self, grace_s):
        """Repeat until nothing is left. Jobs get so many seconds to save their work. Raises RevokeError."""
        begun = self.clock()
        quiet_since = None
        told = False
        while True:
            there, jobs = self.look()
            self._take_back(jobs, self.clock() - begun > grace_s)
            if there and not told:
                # Ours obey and end. One that does not answer is not worth waiting for: nothing depends on it.
                told = True
                self._try(off_command(self.identities))
            for what in sorted(there):
                self._try(*invalidation(what, self.identities))
            if there or jobs:
                quiet_since = None
            elif not self.found and not self.jobs:
                return
            else:
                quiet_since = self.clock() if quiet_since is None else quiet_since
                if self.clock() - quiet_since >= SETTLE_S:
                    return
            if self.clock() - begun > grace_s + LAST_S:
                self.errors = left_over(grace_s + LAST_S, there, jobs) + list(self.said.values())
                return
            self.pause(PAUSE_S)

    def _take_back(self, jobs, fast):
        for address, ids in sorted(jobs.items()):
            for first in range(0, len(ids), IDS_AT_ONCE):
                self._try(vacate_command(address, ids[first : first + IDS_AT_ONCE], fast))

    def _try(self, argv, stdin=None):
        """Standard output; "" for a command that failed: what counts is what is left in the end."""
        try:
            return self.run(argv, stdin)
        except RevokeError as error:
            self.said[tuple(argv[:3])] = str(error)
            return ""

    def report(self):
        return {
            "changed": bool(self.found or self.jobs),
            "machines": len(self.found),
            "jobs": len(self.jobs),
            "errors": self.errors,
        }


def left_over(seconds, there, jobs):
    """The sentence that says what would not go."""
    ids = ["{0} of the schedd {1}".format(job, address) for address, each in sorted(jobs.items()) for job in each]
    return [
        "after {0} s there are still ads ({1}) and jobs ({2})".format(
            seconds, ", ".join(sorted(there)) or "none", ", ".join(ids[:20]) or "none"
        )
    ]


# --- Command line ----------------------------------------------------------------------------------------------------


def run(argv, stdin=None):
    """Standard output of a command; RevokeError when it fails or takes too long."""
    try:
        done = subprocess.run(
            argv,
            input=stdin or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=COMMAND_S,
            universal_newlines=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RevokeError("{0}: {1}".format(" ".join(argv[:3]), error)) from error
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())[:500]
        raise RevokeError("{0}: exit status {1}: {2}".format(" ".join(argv[:3]), done.returncode, said))
    return done.stdout


def note(options):
    """Note which sites are revoked now; the report has the state, for the configuration."""
    before = read_state(options.state)
    after = noted(before, set(options.sites), set(options.known), int(time.time()))
    if after != before and not options.check:
        write_state(options.state, after)
    shown = {site: {"before": has["before"], "denied": has["denied"]} for site, has in after.items()}
    return {"changed": after != before, "sites": shown}


def retire(options):
    """Take from the revoked sites what they have in the pool; the report has a part for each."""
    sites = read_state(options.state)
    denied = sorted(site for site, has in sites.items() if has["denied"])
    domain = run(["condor_config_val", "UID_DOMAIN"]).strip() if denied else ""
    reports = {}
    for site in denied:
        known = sites[site]["machines"]
        retirement = Retirement(run, [identity(site, domain)], known)
        retirement.look()
        if not options.check:
            # Noted first: when the ads are gone, nothing else tells whose jobs these machines run.
            sites[site]["machines"] = sorted(retirement.machines)
            if sites[site]["machines"] != known:
                write_state(options.state, sites)
            retirement.act(options.grace)
        reports[site] = retirement.report()
    return {"changed": any(report["changed"] for report in reports.values()), "sites": reports}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["note", "retire"])
    parser.add_argument("--state", type=Path, required=True, help="the state file")
    parser.add_argument("--grace", type=int, default=60, help="seconds that jobs get to vacate")
    parser.add_argument("--check", action="store_true", help="change nothing, only say what would change")
    parser.add_argument("--site", dest="sites", action="append", default=[], help="of note: one that is revoked")
    parser.add_argument("--known", action="append", default=[], help="of note: one of the inventory, revoked or not")
    options = parser.parse_args(argv)
    try:
        report = {"note": note, "retire": retire}[options.action](options)
    except (RevokeError, OSError) as error:
        print("revoke.py: {0}".format(error), file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
