# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins on real Slurm: the size of the logs, a master that is killed, and a collector that stops."""

import pytest
from conftest import no_glideins, playbook, wait_for
from site_deployment import deploy_sites

SITE = "reach"
HOME = f"/home/glidein/.glidein/{SITE}"
ENTRY = {
    "walltime": "2h",
    "idle_timeout": "1h",
    "shapes": {"two": {"cpus": 2, "memory_mb": 1024, "disk_mb": 500}},
}
JOBS = """\
executable = /bin/true
transfer_executable = false
requirements = TARGET.GLIDEIN_Site == "reach"
log = many.log
request_cpus = 1
request_memory = 100MB
request_disk = 10MB
queue 44
"""


@pytest.fixture
def site(slurm, more_sites):
    """Deploy another site on the lab's login node; yield the inventories to use."""
    inventory = more_sites({SITE: {"ansible_host": "slurm", "glidein_entries": {"main": ENTRY}}})
    deploy_sites(inventory, SITE)
    # With the defaults, 20 min and 20 MiB, the test would take too long.
    shorter = "/^GLIDEIN_LOST_S /s/ 1200 / 30 /; /^GLIDEIN_LOG_MB /s/ 20 / 1 /"
    slurm.check_output(f"sed -i '{shorter}' {HOME}/current/lib/settings.sh")
    yield inventory
    no_glideins(slurm)
    slurm.check_output(f"rm -rf {HOME}")


def probe(inventory):
    """Run one glidein, which joins the pool."""
    done = playbook("probe", "-l", SITE, inventory=inventory)
    assert done.rc == 0, done


def test_logs_keep_to_their_size_and_a_lost_master_or_collector_ends_the_glidein(site, alice, cm, slurm):
    # 44 jobs on two slots write more than the limit of a log, 1 MiB / (2 x 9).
    alice.host.check_output(f"cat >many.sub <<'END'\n{JOBS}END")
    cluster = alice.host.check_output("condor_submit -terse many.sub").split(".")[0]
    probe(site)
    done_jobs = f"condor_history {cluster} -af ExitCode"
    wait_for("the jobs' end", lambda: alice.host.check_output(done_jobs).split() == ["0"] * 44, 900)
    log = slurm.check_output("ls -d /tmp/glidein.*/log")
    sizes = dict(
        reversed(line.split())
        for line in slurm.check_output(f"cd {log} && find . -type f -printf '%s %f\\n'").splitlines()
    )
    assert [name for name in sizes if name.endswith(".old")], sizes
    # (a log may exceed the limit by one write)
    assert max(map(int, sizes.values())) < 80 * 1024, sizes
    assert sum(map(int, sizes.values())) < 1024 * 1024, sizes

    # The master of the glidein is killed: the glidein leaves nothing.
    slurm.check_output("pkill -KILL -u glidein -x condor_master")
    words = "condor_master ended by itself with status 137, signal KILL (exit status 18, "
    wait_for("its end", lambda: words in slurm.check_output(f"cat {HOME}/log/*.out"))
    wait_for("nothing left", lambda: slurm.run("ls -d /tmp/glidein.*; pgrep -u glidein condor").stdout == "")
    wait_for("an empty Slurm queue", lambda: not slurm.check_output("squeue -h -u glidein"))

    # The collector is stopped (and loses the killed glidein's ad). No job runs, so the glidein ends.
    probe(site)
    cm.check_output("systemctl stop condor")
    try:
        ended = wait_for(
            "its end",
            lambda: slurm.check_output(f"grep -h 'ended because the pool.s collector, ' {HOME}/log/*.out; true"),
            600,
        )
    finally:
        cm.check_output("systemctl start condor")
    assert "the pool's collector, cm:9618, could not be reached for" in ended
    assert "(exit status 36, " in ended
    assert slurm.check_output("ls -d /tmp/glidein.* 2>/dev/null; pgrep -u glidein condor; true") == ""
    wait_for("the pool", lambda: cm.run("condor_status -schedd -af Name").stdout)
