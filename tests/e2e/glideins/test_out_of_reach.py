# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins on real Slurm: a damaged tarball, a collector that hangs or stops, and the size of the logs."""

import re

import pytest
from conftest import no_glideins, playbook, wait_for

SITE = "reach"
HOME = f"/home/glidein/.glidein/{SITE}"
ENTRY = {
    "walltime": "1h",
    "lost_timeout": "5s",
    "log_mb": 1,
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
    done = playbook("deploy", "-l", f"cm,{SITE}", inventory=inventory)
    assert done.rc == 0, done
    yield inventory
    no_glideins(slurm)
    slurm.check_output(f"rm -rf {HOME}")


def probe(inventory, *arguments):
    """Run one glidein. Return ((exit status, reason, seconds) or None if it has joined the pool, the play)."""
    done = playbook("probe", "-l", SITE, *arguments, inventory=inventory)
    ended = re.search(r"ended because (.*) \(exit status (\d+), after (\d+) s\)", done.output)
    return (ended and (int(ended.group(2)), ended.group(1), int(ended.group(3)))), done


def test_a_damaged_tarball_and_a_collector_that_is_out_of_reach(site, alice, cm, slurm):
    # Nothing listens on that port. The glidein tries for a minute, in which a central manager may restart.
    (status, reason, seconds), done = probe(site, "-e", "glidein_collector=cm:1")
    assert status == 35, done
    assert reason.startswith("the pool's collector does not respond: GLIDEIN_COLLECTOR=cm:1, "), done
    assert 60 <= seconds < 120

    # The tarball has one wrong byte.
    tarball = f"{HOME}/current/tarballs/native.tar.gz"
    slurm.check_output(
        f"cp -p {tarball} ~/whole && printf x | dd of={tarball} bs=1 seek=100000 conv=notrunc 2>/dev/null"
    )
    (status, reason, seconds), done = probe(site)
    assert (status, "is damaged: its sha256 is" in reason) == (12, True), done
    slurm.check_output(f"mv ~/whole {tarball}; ls -d /tmp/glidein.* && exit 1; true")

    # 44 jobs on two slots write more than the limit of a log, 1 MiB / (2 x 9).
    alice.host.check_output(f"cat >many.sub <<'END'\n{JOBS}END")
    cluster = alice.host.check_output("condor_submit -terse many.sub").split(".")[0]
    ended, done = probe(site)
    assert ended is None, done
    assert float(re.search(r"registered with \S+ as \S+, (\d+\.\d\d) s after start", done.output).group(1)) < 60
    done_jobs = f"condor_history {cluster} -af ExitCode"
    wait_for("the jobs' end", lambda: alice.host.check_output(done_jobs).split() == ["0"] * 44, 600)
    log = slurm.check_output("ls -d /tmp/glidein.*/log")
    sizes = dict(
        reversed(line.split())
        for line in slurm.check_output(f"cd {log} && find . -type f -printf '%s %f\\n'").splitlines()
    )
    assert [name for name in sizes if name.endswith(".old")], sizes
    # (a log may exceed the limit by one write)
    assert max(map(int, sizes.values())) < 80 * 1024, sizes
    assert sum(map(int, sizes.values())) < 1024 * 1024, sizes

    # The master of one glidein is killed, another glidein is cancelled: both leave nothing.
    for kill, words in (
        ("pkill -KILL -u glidein -x condor_master", "condor_master ended by itself with status 137 (exit status 18, "),
        ("scancel -u glidein", "of signal TERM (exit status 143, "),
    ):
        slurm.check_output(kill)
        wait_for("its end", lambda words=words: words in slurm.check_output(f"cat {HOME}/log/*.out"), 60)
        wait_for("nothing left", lambda: slurm.run("ls -d /tmp/glidein.*; pgrep -u glidein condor").stdout == "", 20)
        no_glideins(slurm)
        ended, done = probe(site)
        assert ended is None, done

    # The collector is stopped (and loses the killed glidein's ad). No job runs, so the glidein ends.
    cm.check_output("systemctl stop condor")
    try:
        ended = wait_for(
            "its end",
            lambda: slurm.check_output(f"grep -h 'ended because the pool.s collector, ' {HOME}/log/*.out; true"),
            150,
        )
    finally:
        cm.check_output("systemctl start condor")
    assert "the pool's collector, cm:9618, could not be reached for" in ended
    assert "(exit status 36, " in ended
    assert slurm.check_output("ls -d /tmp/glidein.* 2>/dev/null; pgrep -u glidein condor; true") == ""
    wait_for("the pool", lambda: cm.run("condor_status -schedd -af Name").stdout, 90)
