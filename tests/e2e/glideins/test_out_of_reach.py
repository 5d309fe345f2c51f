# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Glideins on real Slurm whose tarball is damaged, whose pool does not answer, or goes away; what their logs take."""

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
    """A further site on the lab's login node, deployed: the inventories to use."""
    inventory = more_sites({SITE: {"ansible_host": "slurm", "glidein_entries": {"main": ENTRY}}})
    done = playbook("deploy", "-l", f"cm,{SITE}", inventory=inventory)
    assert done.rc == 0, done
    yield inventory
    no_glideins(slurm)
    slurm.check_output(f"rm -rf {HOME}")


def probe(inventory, *arguments):
    """(exit status of one glidein that did not join, its reason); None when it did; and what was shown."""
    done = playbook("probe", "-l", SITE, *arguments, inventory=inventory)
    ended = re.search(r"ended because (.*) \(exit status (\d+), after (\d+) s\)", done.output)
    return (ended and (int(ended.group(2)), ended.group(1), int(ended.group(3)))), done


def test_what_a_glidein_needs_is_damaged_or_gone(site, alice, cm, slurm):
    # Nobody listens there, which takes a minute to say: a central manager may be starting anew.
    (status, reason, seconds), done = probe(site, "-e", "glidein_collector=cm:1")
    assert (status, reason.startswith("the pool's collector does not respond: GLIDEIN_COLLECTOR=cm:1, ")) == (35, True), done
    assert 60 <= seconds < 120

    # One byte of the tarball is another.
    tarball = f"{HOME}/current/tarballs/native.tar.gz"
    slurm.check_output(
        f"cp -p {tarball} ~/whole && printf x | dd of={tarball} bs=1 seek=100000 conv=notrunc 2>/dev/null"
    )
    (status, reason, seconds), done = probe(site)
    assert (status, "is damaged: its sha256 is" in reason) == (12, True), done
    slurm.check_output(f"mv ~/whole {tarball}; ls -d /tmp/glidein.* && exit 1; true")

    # Two slots, 44 jobs: more than a log may take, which is 1 MiB / (2 x 9).
    alice.host.check_output(f"cat >many.sub <<'END'\n{JOBS}END")
    cluster = alice.host.check_output("condor_submit -terse many.sub").split(".")[0]
    ended, done = probe(site)
    assert ended is None, done
    assert float(re.search(r"registered with \S+ as \S+, (\d+\.\d\d) s after start", done.output).group(1)) < 60
    done_jobs = f"condor_history {cluster} -af ExitCode"
    wait_for("the jobs' end", lambda: alice.host.check_output(done_jobs).split() == ["0"] * 44, 180)
    log = slurm.check_output("ls -d /tmp/glidein.*/log")
    sizes = dict(
        reversed(line.split())
        for line in slurm.check_output(f"cd {log} && find . -type f -printf '%s %f\\n'").splitlines()
    )
    assert [name for name in sizes if name.endswith(".old")], sizes
    # (one may run over by what is written at once)
    assert max(map(int, sizes.values())) < 80 * 1024, sizes
    assert sum(map(int, sizes.values())) < 1024 * 1024, sizes

    # Its master dies; another is cancelled: nothing is left of either.
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

    # The collector goes (and with it what it knew of the one that was killed): no job runs, and it says so, and ends.
    cm.check_output("systemctl stop condor")
    try:
        ended = wait_for(
            "its end",
            lambda: slurm.check_output(f"grep -h 'glidein: ended because the pool.s' {HOME}/log/*.out; true"),
            150,
        )
    finally:
        cm.check_output("systemctl start condor")
    assert "the pool's collector, cm:9618, could not be reached for" in ended
    assert "(exit status 36, " in ended
    assert slurm.check_output("ls -d /tmp/glidein.* 2>/dev/null; pgrep -u glidein condor; true") == ""
    wait_for("the pool", lambda: cm.run("condor_status -schedd -af Name").stdout, 90)
