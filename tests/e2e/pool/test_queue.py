# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the demand: the idle jobs of all schedds of the pool, evaluated as HTCondor does."""

import time

import pytest
from conftest import STATE, wait_for

SNIPPET = "/etc/condor/config.d/95-second-schedd.conf"
SPOOL = "/var/spool/condor-second"
SECOND = f"""\
SCHEDD_SECOND = $(SCHEDD)
SCHEDD_SECOND_ARGS = -f -local-name SECOND
SECOND.SCHEDD_NAME = second@
SECOND.SCHEDD_LOG = $(LOG)/SchedLog.second
SECOND.SPOOL = {SPOOL}
SECOND.HISTORY = {SPOOL}/history
SECOND.JOB_QUEUE_LOG = {SPOOL}/job_queue.log
SECOND.SCHEDD_ADDRESS_FILE = {SPOOL}/.schedd_address
SECOND.SCHEDD_DAEMON_AD_FILE = {SPOOL}/.schedd_classad
SECOND.MAX_JOBS_RUNNING = 4
MASTER_SCHEDD_SECOND_BACKOFF_CONSTANT = 30
DAEMON_LIST = $(DAEMON_LIST) SCHEDD_SECOND
"""

# A machine that accepts no job. Because it is in the collector, the negotiator requests jobs from the schedds, and they
# assign their jobs to autoclusters.
SLOT = """\
MyType = "Machine"
Name = "slot1@nobody"
Machine = "nobody"
MyAddress = "<127.0.0.1:1>"
State = "Unclaimed"
Activity = "Idle"
Cpus = 1
Memory = 1
Disk = 1
Start = false
Requirements = Start && TARGET.RequestMemory <= Memory
"""
NO_SLOT = 'MyType = "Query"\nTargetType = "Machine"\nRequirements = Name == "slot1@nobody"\n'


@pytest.fixture(scope="module")
def second(cm, server):
    """Return the name of a second schedd, whose MAX_JOBS_RUNNING is 4; remove it afterwards, also from the server."""
    name = "second@"
    cm.check_output(f"install -d -o condor -g condor {SPOOL}")
    cm.check_output(f"cat > {SNIPPET} <<'END'\n{SECOND}END")
    cm.check_output("condor_reconfig -master")
    wait_for("the second schedd", lambda: cm.run(f"condor_q -name {name} -all").rc == 0)
    yield name
    cm.check_output(f"rm {SNIPPET}; condor_reconfig -master")
    wait_for("a pool with one schedd", lambda: name not in cm.check_output("condor_status -schedd -af Name"))
    cm.check_output(f"rm -rf {SPOOL}; systemctl restart glidein-demand")
    wait_for("the demand server", server.answers)


@pytest.fixture
def emptied(cm, second):
    """Return the second schedd, without jobs before and after."""
    empty = (
        f"condor_rm -name {second} -all >/dev/null 2>&1; condor_rm -name {second} -all -forcex >/dev/null 2>&1; true"
    )
    cm.check_output(empty)
    yield second
    wait_for("the second schedd", lambda: cm.run(f"condor_q -name {second} -all").rc == 0)
    cm.check_output(empty)


@pytest.fixture
def submit(alice):
    """Return a function that queues jobs with these submit file lines and returns the cluster's number."""

    def submit(*lines, queue=1, schedd=None):
        text = ["executable = /bin/sleep", "arguments = 60", "transfer_executable = false", *lines, f"queue {queue}"]
        alice.host.check_output("cat > queue.sub <<'END'\n" + "\n".join(text) + "\nEND")
        where = f"-name {schedd}" if schedd else ""
        return alice.host.check_output(f"condor_submit -terse {where} queue.sub").split(".")[0]

    return submit


@pytest.fixture
def demand(server):
    """Return a function that returns the demand of a new reading once `good` of it is true."""
    token = (STATE / "demand_tokens" / "slurm").read_text(encoding="ascii").strip()

    def demand(what, good, seconds=300):
        since = time.time()

        def look():
            found = server.call("get_demand", token=token)["result"]
            return found if (found["as_of"] or 0) > since and good(found) else None

        return wait_for(what, look, seconds)

    return demand


def counted(found):
    return sum(group["count"] for group in found["groups"])


def test_jobs_of_all_schedds_count(submit, demand, emptied):
    submit(queue=3)
    submit(queue=2, schedd=emptied)
    found = demand("five jobs of two schedds", lambda found: counted(found) == 5)
    assert emptied in found["schedds"]["answered"]
    (group,) = found["groups"]  # their requests are equal
    assert (group["count"], group["stale"]) == (5, 0)


def test_a_schedd_that_was_killed_keeps_its_groups_with_their_age(cm, submit, demand, emptied):
    submit("request_cpus = 3", queue=2, schedd=emptied)
    before = demand("two jobs", lambda found: counted(found) == 2)
    pid = cm.check_output("pgrep -f -- '-local-name SECON[D]'")
    cm.check_output(f"kill -9 {pid}")
    found = demand("a failed schedd", lambda found: found["schedds"]["failed"])
    (failed,) = found["schedds"]["failed"]
    (group,) = found["groups"]
    assert (failed["name"], group["count"], group["cpus"]) == (emptied, 2, 3)
    assert before["as_of"] <= failed["as_of"] < found["as_of"]
    assert group["as_of"] == failed["as_of"]
    # The master starts the schedd again, and its jobs are still there.
    demand("the schedd's answer", lambda found: emptied in found["schedds"]["answered"] and counted(found) == 2)


def test_jobs_that_max_idle_keeps_out_of_the_queue_are_no_demand(submit, demand):
    submit("max_idle = 3", queue=40)
    # Between the queries of one reading, jobs may come into the queue.
    demand("three jobs, and more", lambda found: [(g["count"], g["over_limit"]) for g in found["groups"]] == [(3, 37)])


def test_jobs_that_max_materialize_keeps_out_of_the_queue_wait(submit, demand):
    submit("max_materialize = 3", queue=40)
    demand("three jobs, and more", lambda found: [(g["count"], g["over_limit"]) for g in found["groups"]] == [(3, 37)])


def test_a_factory_that_is_held_counts_not(alice, submit, demand):
    cluster = submit("max_idle = 3", queue=40)
    demand("three jobs", lambda found: counted(found) == 3)
    alice.host.check_output(f"condor_hold {cluster}")
    demand("no job", lambda found: not found["groups"])
    alice.host.check_output(f"condor_release {cluster}")
    demand("three jobs", lambda found: counted(found) == 3)


def test_no_more_jobs_are_startable_than_max_jobs_running_leaves(submit, demand, emptied):
    submit("request_cpus = 1", queue=3, schedd=emptied)
    submit("request_cpus = 2", queue=6, schedd=emptied)
    found = demand("four jobs", lambda found: counted(found) == 4)
    assert [(group["cpus"], group["count"], group["over_limit"]) for group in found["groups"]] == [(1, 3, 0), (2, 1, 5)]
    assert found["waiting_for_limit"] == [{"schedd": emptied, "count": 5, "limit": 4}]


def test_requests_that_are_expressions_are_evaluated(submit, demand):
    submit("request_memory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage, 1)", "request_cpus = 1 + 1")
    submit("request_memory = MY.Events * Each", "+Events = 300", "+Each = 7.5", "request_cpus = 3")
    submit('+RequestMemory = "plenty"', queue=2)
    found = demand("two jobs", lambda found: counted(found) == 2 and found["unreadable"])
    assert sorted((group["cpus"], group["memory_mb"]) for group in found["groups"]) == [(2, 1), (3, 2250)]
    (unreadable,) = found["unreadable"]
    assert (unreadable["count"], unreadable["attribute"]) == (2, "RequestMemory")


def test_held_local_and_scheduler_jobs_count_not(submit, demand):
    submit("hold = true")
    submit("universe = scheduler")
    submit("universe = local")
    submit()
    demand("one job", lambda found: counted(found) == 1)


def test_attributes_in_requirements_are_returned_with_and_without_a_negotiation(cm, alice, submit, demand):
    """Jobs that a negotiator has considered are grouped by their autocluster, others by Requirements."""

    def seen(found):
        return [(group["id"], group["count"], group["requirements"], group["attributes"]) for group in found["groups"]]

    for site, count in (("A", 2), ("B", 3)):
        submit(f'+WantSite = "{site}"', "requirements = TARGET.GLIDEIN_Site == MY.WantSite", queue=count)
    before = demand("five jobs", lambda found: counted(found) == 5)
    assert [group["attributes"]["WantSite"] for group in before["groups"]] == ["B", "A"]
    cm.check_output("condor_advertise UPDATE_STARTD_AD - <<'END'\n" + SLOT + "END")
    try:
        cluster = submit('+WantSite = "A"', "requirements = TARGET.GLIDEIN_Site == MY.WantSite")
        wait_for(
            "autoclusters",
            lambda: not cm.check_output("condor_q -all -constraint 'AutoClusterId is undefined' -af ClusterId"),
        )
    finally:
        cm.check_output("condor_advertise INVALIDATE_STARTD_ADS - <<'END'\n" + NO_SLOT + "END")
    alice.host.check_output(f"condor_rm {cluster}")
    after = demand("the five jobs", lambda found: counted(found) == 5)
    assert seen(after) == seen(before)

    # An edited job leaves its autocluster.
    alice.host.check_output("""condor_qedit -constraint 'WantSite == "A"' Requirements 'TARGET.GLIDEIN_Site == "C"'""")
    edited = demand("the edited jobs", lambda found: any("C" in group["requirements"] for group in found["groups"]))
    assert [group["count"] for group in edited["groups"]] == [3, 2]
