# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Glideins through the HTCondor-CE of the lab's host `ce`: the site of inventories/lab-ce, alice on the access point.

If HTCondor-CE could not be built, HTCondor stands in for it: the tests are the same, except one.
"""

import json

import lab_ce
import pytest
from batch_site import BatchSite, grid_glideins
from conftest import INVENTORY, ROOT, bring_up, host, wait_for

SITE = BatchSite("ce-cluster", "htcondor_ce", "cpu", inventories=(INVENTORY, ROOT / "inventories" / "lab-ce"))
FOR_SITE = 'TARGET.GLIDEIN_Site == "ce-cluster"'
SCITOKEN = ("-e", f"glidein_ce_token_file={lab_ce.SCITOKEN_FILE}")
SHAPES = {"small": {"cpus": 1, "memory_mb": 1024, "disk_mb": 2000}}
LOGS = "/home/alice/.glidein/ce-cluster/log"
SPOOL = "/var/lib/condor-ce/spool"
LIMIT_S = 400  # on a busy machine
SETTINGS = "/etc/condor/config.d/95-lab-ce.config"
# Jobs that alice submits by hand: one without a walltime, for which the CE requests more than the queue allows.
NO_WALLTIME = f"""\
universe = grid
grid_resource = condor {lab_ce.SCHEDD} {lab_ce.CE}
+remote_JobUniverse = 5
executable = /bin/true
transfer_executable = false
should_transfer_files = yes
+maxMemory = 100
+xcount = 1
+queue = "cpu"
queue
"""


@pytest.fixture(scope="module")
def ce():
    """Start the CE's host; return it as its administrator."""
    bring_up("ce")
    return host("ce-root")


@pytest.fixture(scope="module")
def deployed(ce, cm, alice):
    """Deploy the access point; return it as alice. Until the end of the module, it has settings for tests."""
    lab_ce.trust_authority()
    lab_ce.use_idtoken()
    cm.check_output(f"cat >{SETTINGS} <<'END'\n{lab_ce.GRIDMANAGER_SETTINGS}\nEND\ncondor_reconfig")
    SITE.deploy()
    yield alice.host
    alice.host.check_output(f"rm -f {lab_ce.IDTOKEN_FILE} {lab_ce.SCITOKEN_FILE}")
    cm.check_output(f"rm {SETTINGS}; condor_reconfig")


@pytest.fixture
def access_point(deployed, ce):
    """Return the access point as alice, who has an IDTOKEN. There are no glideins before and after the test."""
    yield deployed
    ce.check_output("systemctl start condor-ce")
    deployed.check_output("condor_rm -all >/dev/null 2>&1; true")
    wait_for("no glidein on the access point", lambda: not grid_glideins(deployed), LIMIT_S)
    # Do not wait until the CE cancels them.
    ce.check_output("scancel -u glidein")
    wait_for("an empty Slurm", lambda: not ce.check_output("squeue -h"), LIMIT_S)
    ce.check_output("scontrol update nodename=ce state=resume || true")


@pytest.fixture
def with_scitoken(cm, access_point):
    """Return the access point as alice, who has a SciToken."""
    # A session that was opened with the other token would still be valid.
    end_sessions = "pkill -u alice condor_gridman || true"
    lab_ce.use_scitoken()
    cm.check_output(end_sessions)
    yield access_point
    lab_ce.use_idtoken()
    cm.check_output(end_sessions)


def queue(ce):
    """Return the rows of squeue."""
    columns = "UserName:9,State:10,Partition:8,NumCPUs:6,MinMemory:10,TimeLimit:12"
    return [row.split() for row in ce.check_output(f"squeue -h -O {columns}").splitlines()]


def source_jobs(ce, attribute):
    """Return an attribute of each job that the CE has got, without those that its routes have made of them."""
    return ce.check_output(f"condor_ce_q -constraint 'JobUniverse == 5' -af {attribute}").splitlines()


def refusals(ce):
    """Return how often the CE's schedd has refused a client without a valid token."""
    refused = "did not result in a valid mapped user name"
    return len(ce.check_output(f"grep -h '{refused}' /var/log/condor-ce/SchedLog || true").splitlines())


def drained(ce):
    """Let Slurm start no jobs."""
    ce.check_output("scontrol update nodename=ce state=drain reason=test")


def request(alice, server, count=1):
    """Queue jobs for the site's glideins; return the cluster id."""
    cluster = alice.submit(count=count, requirements=FOR_SITE)
    server.wait_for_jobs(count)
    return cluster


def test_a_pilot_by_idtoken_runs_a_job_without_the_token_of_the_ce_and_its_log_comes_back(
    alice, server, ce, access_point
):
    token = access_point.check_output(f"cat {lab_ce.IDTOKEN_FILE}")
    access_point.check_output(f"rm -f {LOGS}/*")
    cluster = request(alice, server)
    entries = {"cpu": {"queue": "cpu", "walltime": "30m", "idle_after_job": "10s", "shapes": SHAPES}}
    cycle = SITE.play("cycle", "-e", json.dumps({"glidein_entries": entries}))
    (job_id,) = grid_glideins(access_point)
    assert f"1 (job {job_id.split('.')[0]})" in cycle.summary

    # The glidein's 1024 MB, and 68 for itself.
    row = ["glidein", "RUNNING", "cpu", "1", "1092M", "30:00"]
    wait_for("a job of Slurm", lambda: queue(ce) == [row], LIMIT_S)
    assert source_jobs(ce, "AuthTokenSubject") == ["glidein@users.htcondor.org"]
    # The credential of the pool came with the pilot, but no part of the CE's token.
    kept = set(ce.check_output(f"find {SPOOL} -name credential -printf '%m %u\n'").splitlines())
    assert kept == {"600 glidein"}
    places = f"{SPOOL} /tmp /home/glidein"
    assert ce.run(f"grep -rqF -e {token} -e {token.rsplit('.', 1)[1]} {places}").rc == 1
    assert alice.outputs(cluster) == ['ce\n"ce-cluster"']

    log = f"cat {LOGS}/*.{job_id}.out"
    wait_for("the glidein's log", lambda: "no job ran for 10 s" in access_point.run(log).stdout, LIMIT_S)
    wait_for("the end of the glidein on the access point", lambda: not grid_glideins(access_point), LIMIT_S)


def test_pilots_that_the_ce_holds_are_held_on_the_access_point_with_slurms_error(alice, server, ce, access_point):
    access_point.check_output("cat > held.sub <<'END'\n" + NO_WALLTIME + "END")
    access_point.check_output("condor_submit held.sub")
    request(alice, server)
    entries = {"cpu": {"queue": "cpu", "walltime": "100h", "shapes": SHAPES}}
    SITE.play("cycle", "-e", json.dumps({"glidein_entries": entries}))
    reasons = "condor_q -constraint 'JobUniverse == 9 && JobStatus == 5' -af HoldReason"
    found = wait_for("two held jobs", lambda: _if(2, access_point.check_output(reasons).splitlines()), LIMIT_S)
    assert all("Requested time limit is invalid" in reason for reason in found)
    # The one of alice is not a glidein.
    assert SITE.counted(SITE.play("status"))[:3] == [0, 0, 1]
    assert queue(ce) == []


def test_a_pilot_by_scitoken_runs_a_job(alice, server, ce, with_scitoken):
    lab_ce.use_scitoken(subject="pilots-of-the-lab")
    cluster = request(alice, server)
    SITE.play("cycle", *SCITOKEN)
    assert len(grid_glideins(with_scitoken)) == 1
    wait_for("a job of Slurm", lambda: [row[0] for row in queue(ce)] == ["glidein"], LIMIT_S)
    assert source_jobs(ce, "AuthTokenIssuer AuthTokenSubject") == [f"{lab_ce.ISSUER} pilots-of-the-lab"]
    assert alice.outputs(cluster) == ['ce\n"ce-cluster"']


def test_ten_pilots_are_ten_jobs_of_slurm_and_are_not_submitted_twice_by_a_ce_that_was_down(
    alice, server, ce, with_scitoken
):
    drained(ce)
    request(alice, server, count=10)
    SITE.play("cycle", *SCITOKEN)
    assert len(grid_glideins(with_scitoken)) == 10
    # A CE that is stopped before it has stored the id of the batch job submits the pilot twice.
    stored = "condor_ce_q -constraint 'regexp(\"slurm/\", GridJobId)' -af ClusterId"
    wait_for("jobs of Slurm that the CE knows", lambda: _if(10, ce.check_output(stored).splitlines()), LIMIT_S)
    assert len(queue(ce)) == len(source_jobs(ce, "ClusterId")) == 10
    ce.check_output("systemctl stop condor-ce")

    alice.submit(requirements=FOR_SITE)
    server.wait_for_jobs(11)
    cycle = SITE.play("cycle", *SCITOKEN)
    assert "The CE ce:9619 (glidein_ce) does not answer, and nothing is submitted" in cycle.output
    assert len(grid_glideins(with_scitoken)) == 10

    # When the CE is back, the token is for another CE, and is refused.
    lab_ce.use_scitoken(audience="other:9619")
    before = refusals(ce)
    ce.check_output("systemctl start condor-ce")
    wait_for("a refused token", lambda: refusals(ce) > before, LIMIT_S)
    lab_ce.use_scitoken()
    SITE.play("cycle", *SCITOKEN)
    wait_for("the new job of Slurm", lambda: len(queue(ce)) == 11, LIMIT_S)
    assert len(source_jobs(ce, "ClusterId")) == 11


def test_the_program_of_htcondor_ce_lists_the_catalogue_of_the_site(ce):
    if not lab_ce.is_htcondor_ce():
        pytest.skip(
            "HTCondor-CE is not on the host ce (LAB_HTCONDOR_CE_SOURCE), and HTCondor has no condor_ce_info_status"
        )
    listed = ce.check_output("condor_ce_info_status --pool ce:9619 --vo physics").splitlines()
    # The ad of a submitter has the catalogue, too.
    assert {tuple(line.split()) for line in listed[1:] if line} == {("gpu", "4", "16000", "60", "lab,", "physics")}


def _if(count, lines):
    return lines if len(lines) == count else None


def test_a_command_makes_the_scitoken_for_a_probe_which_joins_before_its_log_is_back(with_scitoken):
    made, used = "/home/alice/made.scitoken", "/home/alice/.glidein-ce/token"
    token = lab_ce.scitoken(3600)
    lab_ce.place(made, token)
    with_scitoken.check_output(f"rm -rf {lab_ce.SCITOKEN_FILE} {used}")
    variables = {"glidein_ce_token_file": "~/.glidein-ce/token", "glidein_ce_token_command": ["cat", made]}
    probe = SITE.play("probe", "-e", json.dumps(variables))
    assert "of cpu/small has joined the pool." in probe.output
    assert "It has written no log." in probe.summary
    assert with_scitoken.check_output(f"stat -c '%a %U' {used}; cat {used}").split() == ["600", "alice", token.strip()]
    assert token.split(".")[1] not in probe.output
