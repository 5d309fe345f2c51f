# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of removing a revoked site's ads and jobs from a pool."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager import revoked_glideins
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError

A = "glidein-a@pool"
MACHINE = "glidein_7@node"


def test_jobs_are_found_by_the_startd_whichever_slot_they_run_in():
    lines = ["3.0 slot1_1@glidein_7@node", "3.1 slot1_2@glidein_8@node", "4.0 slot1@glidein_7@node", "5.0", ""]
    assert revoked_glideins.jobs_on(lines, {MACHINE}) == ["3.0", "4.0"]
    assert revoked_glideins.jobs_on(["6.0 slot1@host.example"], {"host.example"}) == ["6.0"]


class Pool:
    """A pool with one machine and its jobs, behind stand-ins for the HTCondor commands. Pauses advance its clock.

    obeys: the seconds after which jobs leave, None if they leave only at a fast vacate, or "never"; answers_at: the
    time from which the schedd answers.
    """

    def __init__(self, jobs=(), obeys=0, others=(), answers_at=0):
        self.ads = {"slots": ["slot1@" + MACHINE], "startds": [MACHINE], "masters": [MACHINE]}
        self.others = others
        self.jobs = dict.fromkeys(jobs, "slot1_1@" + MACHINE)
        self.obeys = obeys
        self.answers_at = answers_at
        self.now = 0
        self.told = {}
        self.commands = []

    def run(self, argv, stdin=None):
        self.commands.append(argv)
        if argv[0] == "condor_status" and "-schedd" in argv:
            return "<1.2.3.4:9618?sock=schedd> cm\n"
        if argv[0] == "condor_status":
            assert A in " ".join(argv)
            if any(word.startswith("!(") for word in argv):
                return "".join(name + "\n" for name in self.others)
            what = {"-startd": "startds", "-master": "masters"}.get(argv[1], "slots")
            return "".join(name + "\n" for name in self.ads[what])
        if argv[0] == "condor_q":
            if self.now < self.answers_at:
                raise CommandError("condor_q: no answer", argv)
            gone = [job for job, when in self.told.items() if when <= self.now]
            self.jobs = {job: slot for job, slot in self.jobs.items() if job not in gone}
            return "".join("{} {}\n".format(*pair) for pair in self.jobs.items())
        if argv[0] == "condor_vacate_job":
            for job in argv[3:]:
                if "-fast" in argv and self.obeys != "never":
                    self.told[job] = self.now
                elif isinstance(self.obeys, int):
                    self.told.setdefault(job, self.now + self.obeys)
            return ""
        if argv[0] == "condor_off":
            raise CommandError("condor_off: does not answer", argv)
        assert argv[0] == "condor_advertise"
        assert A in stdin
        for what, (_option, command, target) in revoked_glideins.ADS.items():
            if (argv[2], 'TargetType = "%s"' % target) == (command, stdin.splitlines()[1]):
                self.ads[what] = []
        return ""

    def pause(self, seconds):
        self.now += seconds

    def retire(self, known=()):
        retiring = revoked_glideins.RevokedGlideins(self.run, A, known, clock=lambda: self.now, pause=self.pause)
        retiring.act()
        return retiring.report()


def test_ads_go_and_jobs_go_back_even_when_the_machine_does_not_answer():
    pool = Pool(["3.0", "3.1"], obeys=10)
    assert pool.retire() == {"changed": True, "machines": 1, "jobs": 2, "errors": []}
    assert pool.ads == {"slots": [], "startds": [], "masters": []}
    assert not any("-fast" in argv for argv in pool.commands)
    assert sum(argv[0] == "condor_off" for argv in pool.commands) == 1


def test_a_job_that_does_not_vacate_is_taken_away_after_the_grace():
    pool = Pool(["3.0"], obeys=None)
    assert pool.retire()["errors"] == []
    assert revoked_glideins.GRACE_S < pool.now < revoked_glideins.GRACE_S + revoked_glideins.LAST_S


def test_an_ad_that_stays_is_an_error_that_names_it():
    report = Pool(["3.0"], obeys="never").retire()
    assert "3.0 of the schedd <1.2.3.4:9618?sock=schedd>" in report["errors"][0]
    assert "condor_off: does not answer" in report["errors"][1]


@pytest.mark.parametrize("known", [[], [MACHINE]])
def test_the_jobs_of_a_schedd_that_does_not_answer_are_unknown_and_not_none(known):
    pool = Pool(["3.0"], answers_at=1000)
    if known:
        pool.ads = {"slots": [], "startds": [], "masters": []}
    (error,) = pool.retire(known)["errors"]
    assert error == "the jobs of the schedd cm are unknown: condor_q: no answer"


def test_a_schedd_that_answers_late_is_asked_again():
    pool = Pool(["3.0"], answers_at=30)
    assert pool.retire() == {"changed": True, "machines": 1, "jobs": 1, "errors": []}


def test_schedds_of_gateways_are_not_asked():
    pool = Pool()
    pool.retire()
    (words,) = {" ".join(argv) for argv in pool.commands if "-schedd" in argv}
    assert 'is_glidein =!= true && regexp("^gateway-", AuthenticatedIdentity) =!= true' in words


def test_jobs_of_a_machine_with_a_reused_name_stay():
    pool = Pool(["3.0"], others=["slot1_1@glidein_8@node"])
    pool.jobs["4.0"] = "slot1_1@glidein_8@node"
    pool.ads["slots"].append("slot1_1@glidein_8@node")
    assert pool.retire() == {"changed": True, "machines": 2, "jobs": 1, "errors": []}
    assert list(pool.jobs) == ["4.0"]
    assert not any("4.0" in argv for argv in pool.commands)


def test_a_second_run_finds_nothing_at_once():
    pool = Pool()
    pool.ads = {"slots": [], "startds": [], "masters": []}
    assert pool.retire(known=[MACHINE]) == {"changed": False, "machines": 0, "jobs": 0, "errors": []}
    assert pool.now == 0


def test_a_job_that_started_after_the_ads_went_is_found_by_the_noted_name():
    pool = Pool(["9.0"])
    pool.ads = {"slots": [], "startds": [], "masters": []}
    assert pool.retire(known=[MACHINE])["jobs"] == 1
