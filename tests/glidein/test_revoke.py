# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of revoked sites, and the removal of their machines' ads and jobs from a pool."""

import json

import pytest
import revoke

NOW = 1_800_000_000
A = "glidein-a@pool"
MACHINE = "glidein_7@node"


def site(before, denied, machines=()):
    return {"before": before, "denied": denied, "machines": list(machines)}


@pytest.mark.parametrize(
    ("sites", "revoked", "following"),
    [
        ({}, [], {}),
        ({}, ["a"], {"a": site(NOW, True)}),
        # The time of the first run counts: later ones change nothing.
        ({"a": site(5, True, [MACHINE])}, ["a"], {"a": site(5, True, [MACHINE])}),
        # A site that is back is served again, with tokens issued later: by a stolen one another may have been got.
        ({"a": site(5, True, [MACHINE])}, [], {"a": site(NOW, False)}),
        ({"a": site(5, False)}, [], {"a": site(5, False)}),
        # Who takes a host out of the inventory does not mean to trust it.
        ({"left": site(5, True, [MACHINE])}, [], {"left": site(5, True, [MACHINE])}),
        ({"a": site(5, False), "b": site(6, True)}, ["a", "b"], {"a": site(NOW, True), "b": site(6, True)}),
    ],
)
def test_state_follows_the_inventory(sites, revoked, following):
    assert revoke.noted(sites, set(revoked), {"a", "b"}, NOW) == following


def test_state_is_kept_privately_and_read_back(tmp_path):
    path = tmp_path / "revoked.json"
    assert revoke.read_state(path) == {}
    revoke.write_state(path, {"a": site(5, True, [MACHINE])})
    assert path.stat().st_mode & 0o777 == 0o600
    assert revoke.read_state(path) == {"a": site(5, True, [MACHINE])}
    assert [each.name for each in tmp_path.iterdir()] == ["revoked.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"sites": {"a": {}}}', '{"sites": {"a": {"before": "x"}}}'])
def test_a_damaged_state_is_an_error_and_not_forgotten(tmp_path, text):
    path = tmp_path / "revoked.json"
    path.write_text(text)
    with pytest.raises(revoke.RevokeError, match="cannot be read"):
        revoke.read_state(path)


def test_check_writes_nothing(tmp_path, capsys):
    path = tmp_path / "revoked.json"
    assert revoke.main(["note", "--state", str(path), "--check", "--site=a"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["changed"] is True
    assert report["sites"]["a"]["denied"] is True
    assert not path.exists()


def test_jobs_are_found_by_the_startd_whichever_slot_they_run_in():
    lines = ["3.0 slot1_1@glidein_7@node", "3.1 slot1_2@glidein_8@node", "4.0 slot1@glidein_7@node", "5.0", ""]
    assert revoke.jobs_on(lines, {MACHINE}) == ["3.0", "4.0"]
    assert revoke.jobs_on(["6.0 slot1@host.example"], {"host.example"}) == ["6.0"]


class Pool:
    """HTCondor's commands, as far as they are used, over a pool with one machine and its jobs. Time passes by pauses.

    obeys: jobs leave after so many seconds, None: only when they are to vacate fast, "never".
    """

    def __init__(self, jobs=(), obeys=0, others=()):
        self.ads = {"slots": ["slot1@" + MACHINE], "startds": [MACHINE], "masters": [MACHINE]}
        self.others = others
        self.jobs = dict.fromkeys(jobs, "slot1_1@" + MACHINE)
        self.obeys = obeys
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
            raise revoke.RevokeError("condor_off: does not answer")
        assert argv[0] == "condor_advertise"
        assert A in stdin
        for what, (_option, command, target) in revoke.ADS.items():
            if (argv[2], 'TargetType = "%s"' % target) == (command, stdin.splitlines()[1]):
                self.ads[what] = []
        return ""

    def pause(self, seconds):
        self.now += seconds

    def retire(self, grace_s=60, known=()):
        retirement = revoke.Retirement(self.run, [A], known, clock=lambda: self.now, pause=self.pause)
        retirement.act(grace_s)
        return retirement.report()


def test_ads_go_and_jobs_go_back_even_when_the_machine_does_not_answer():
    pool = Pool(["3.0", "3.1"], obeys=10)
    assert pool.retire() == {"changed": True, "machines": 1, "jobs": 2, "errors": []}
    assert pool.ads == {"slots": [], "startds": [], "masters": []}
    assert not any("-fast" in argv for argv in pool.commands)
    assert sum(argv[0] == "condor_off" for argv in pool.commands) == 1


def test_a_job_that_does_not_vacate_is_taken_away_after_the_grace():
    pool = Pool(["3.0"], obeys=None)
    assert pool.retire(grace_s=20)["errors"] == []
    assert 20 < pool.now < 20 + revoke.LAST_S


def test_an_ad_that_stays_is_an_error_that_names_it():
    report = Pool(["3.0"], obeys="never").retire(grace_s=4)
    assert "3.0 of the schedd <1.2.3.4:9618?sock=schedd>" in report["errors"][0]
    assert "condor_off: does not answer" in report["errors"][1]


def test_jobs_of_a_machine_whose_name_was_borrowed_stay():
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


def test_a_failed_command_is_reported_with_its_status_and_output():
    with pytest.raises(revoke.RevokeError, match="exit status 3: no such pool"):
        revoke.run(["sh", "-c", "echo no such pool >&2; exit 3"])
