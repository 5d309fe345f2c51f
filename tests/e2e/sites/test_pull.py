# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of pull mode: the login node runs the cycles of its site."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import STATE, playbook

HOME = "/home/glidein/.glidein-pull/slurm"
ENTRY = {
    "queue": "cpu",
    "walltime": "1h",
    "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 1000}},
    "directives": ["--begin=now+1hour"],  # they stay queued
}
VARIABLES = {
    "glidein_pull": True,
    "glidein_demand_url": "http://cm:11001",  # the server's name on the login node
    "glidein_pull_schedule": "7 3 1 1 *",  # a cron entry that does not start a cycle meanwhile
    "glidein_entries": {"cpu": ENTRY},
    "glidein_cache_dir": str(STATE / "cache"),
}


def pull(*arguments, name="pull", **variables):
    return playbook(name, "-l", "slurm", "-e", json.dumps(dict(VARIABLES, **variables)), *arguments)


def cycle(slurm):
    """Run a cycle on the login node in cron's environment; return its output without line breaks."""
    done = slurm.run(f"env -i HOME=/home/glidein PATH=/usr/bin:/bin {HOME}/run cycle")
    assert done.rc == 0, done
    return " ".join(done.stdout.split())


def queued(slurm):
    return len(slurm.check_output("squeue -h -r -u glidein").splitlines())


@pytest.fixture(scope="module", autouse=True)
def cron(slurm_root):
    """Return a login node with cron; remove the tests' entries afterwards."""
    slurm_root.check_output(f"rm -rf {HOME}")
    slurm_root.check_output("command -v crontab || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq cron")
    yield
    # This works with any Python that is installed there.
    removed = pull("-e", "pull_state=absent", glidein_pull_python="/opt/none/python3")
    assert removed.rc == 0, removed
    again = pull("-e", "pull_state=absent")
    assert (again.rc, again.recap["slurm"]["changed"]) == (0, 0), again
    slurm_root.check_output(f"test ! -e {HOME}")
    assert "glidein" not in slurm_root.check_output("crontab -l -u glidein || true")


@pytest.fixture
def rival(cm, slurm, server):
    """Return a demand server token of a second site, `rival`, deployed to the same account as `slurm`."""
    slurm.check_output("cp -a ~/.glidein/slurm ~/.glidein/rival && rm -f ~/.glidein/rival/*/submissions.jsonl")
    command = "runuser -u glidein-demand -- /opt/glidein-demand/current/bin/glidein-demand token"
    secret = cm.check_output(f"{command} create rival 2>/dev/null")
    nothing = {"site": "rival", "entries": {"cpu": {}}, "ttl_s": 60}
    assert server.call("lease", nothing, secret).get("result")
    yield secret
    server.call("lease", nothing, secret)
    cm.check_output(f"{command} revoke rival")
    slurm.check_output("rm -rf ~/.glidein/rival")


def test_the_login_node_runs_the_cycles_of_its_site_itself(alice, server, slurm, more_sites, rival):
    slurm.check_output(f"rm -rf {HOME}; crontab -r 2>/dev/null; true")
    old = pull("-e", "glidein_pull_python=/opt/none/python3")
    assert old.rc != 0
    assert "/opt/none/python3 on slurm does not run" in " ".join(old.output.split())

    check = pull("--check")
    assert check.rc == 0 and not slurm.file(HOME).exists, check
    first = pull()
    assert first.rc == 0, first
    # A running cycle keeps the next one from starting, and keeps the versions that it may use.
    slurm.check_output(f"mkdir {HOME}/versions/000000000000")
    slurm.check_output(f"mkdir {HOME}/state")
    locks = f"flock -s {HOME}/lock flock {HOME}/state/lock"
    holder = slurm.check_output(f"setsid {locks} sleep 3600 >/dev/null 2>&1 & echo $!")
    busy = slurm.run(f"{HOME}/run cycle")
    assert (busy.rc, "The previous glidein.ops.cycle is still running" in busy.stdout) == (75, True), busy
    second = pull("--diff")
    assert (second.rc, second.recap["slurm"]["changed"]) == (0, 0), second
    slurm.check_output(f"test -d {HOME}/versions/000000000000; kill -- -{holder}")
    assert slurm.file(f"{HOME}/token").mode == 0o600
    token = slurm.file(f"{HOME}/token").content_string
    assert token not in first.output + second.output + slurm.check_output(f"cat {HOME}/inventory.json")

    # The inventory has a new token of the demand server: server and login node get it. The cycles below use it.
    fresh = token[::-1]
    (STATE / "demand_tokens/slurm").write_text(fresh + "\n", encoding="ascii")
    rotate = playbook("rotate", "-e", "rotate=demand_tokens", "-e", json.dumps(VARIABLES))
    assert rotate.rc == 0 and fresh not in rotate.output, rotate
    assert slurm.file(f"{HOME}/token").content_string == fresh
    assert "error" in server.call("lease", {"site": "slurm", "entries": {}, "ttl_s": 60}, token)

    alice.submit(count=2)
    server.wait_for_jobs(2)
    # The controller skips the site: only the check of the hosts and the task that decides this run for it.
    left_out = pull(name="cycle")
    assert left_out.recap["slurm"]["ok"] == 2, left_out
    assert "Read the batch queue" not in left_out.output
    assert "2 (job " in cycle(slurm)
    assert queued(slurm) == 2

    # Two controllers run at the same time: each job gets one glidein, whichever is first.
    alice.submit(count=2)
    server.wait_for_jobs(4)
    racing = {"rival": {"ansible_host": "slurm", "glidein_demand_token": rival, "glidein_entries": {"cpu": ENTRY}}}
    inventory = more_sites(racing)
    with ThreadPoolExecutor() as pool:
        elsewhere = pool.submit(playbook, "cycle", "-l", "rival", inventory=inventory)
        here = cycle(slurm)
        assert "PROBLEMS" not in here, here
        assert "PROBLEMS" not in elsewhere.result().summary, elsewhere.result()
    assert queued(slurm) == 4, (here, elsewhere.result())

    job = next(line for line in slurm.check_output("crontab -l").splitlines() if line.startswith("7 3 1 1 *"))
    slurm.check_output("env -i HOME=/home/glidein sh -c '%s'" % job.split(maxsplit=5)[5])
    assert "PLAY RECAP" in slurm.check_output(f"cat {HOME}/state/log")

    # No cycle runs now: the next installation removes the old version.
    assert pull().rc == 0
    assert not slurm.file(f"{HOME}/versions/000000000000").exists
