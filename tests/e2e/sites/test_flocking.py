# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a schedd of another pool, the lab's host `htc`, that flocks into the pool as in docs/flocking.md."""

import re
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, bring_up, host, playbook, wait_for

# In the pool's configuration, HTCondor uses the later file.
ALLOWED = "/etc/condor/config.d/95-flock.config"
FLOCKING = "/etc/condor/config.d/95-flock.config"
TOKEN = "/etc/condor/tokens.d/flock"  # noqa: S105  (a path)
GONE = r'MyType="Query"\nTargetType="Scheduler"\nRequirements = Name == "htc"\n'
JOB = """\
executable = /bin/sh
arguments = "-c 'echo site `sed -n s/^GLIDEIN_Site.=.//p $_CONDOR_MACHINE_AD`'"
transfer_executable = false
should_transfer_files = YES
output = flock.out
log = flock.log
request_memory = 100MB
request_disk = 10MB
requirements = TARGET.is_glidein =?= True
queue
"""


def block(language):
    """Return the document's code block of this language."""
    text = Path(ROOT, "docs", "flocking.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^   ```{language}\n(.*?)^   ```$", text, re.MULTILINE | re.DOTALL)
    return found.replace("cm.example.org", "cm")


def write(machine, path, text):
    machine.check_output(f"cat >{path} <<'END'\n{text}\nEND")


@pytest.fixture
def flocking(cm):
    """Return the other pool's access point, as a user; its schedd flocks into the pool."""
    bring_up("htc")
    htc_root, htc = host("htc-root"), host("htc")
    token = cm.check_output(block("sh").strip())
    extra = yaml.safe_load(block("yaml"))["central_manager_extra_config"]
    write(cm, ALLOWED, extra)
    cm.check_output("condor_reconfig -collector")
    wait_for("the other schedd", lambda: htc.run("condor_q").rc == 0)
    write(htc_root, FLOCKING, block("text"))
    htc_root.check_output(f"umask 077; echo '{token}' >{TOKEN}; condor_reconfig")
    yield htc
    htc.check_output("condor_rm -all >/dev/null 2>&1; true")
    htc_root.check_output(f"rm {FLOCKING} {TOKEN}; condor_reconfig")
    cm.check_output(f"rm {ALLOWED}; condor_reconfig -collector")
    # Otherwise the server would report the schedd as missing for a day.
    wait_for(
        "a pool without the schedd",
        lambda: (
            cm.check_output(f"printf '{GONE}' | condor_advertise INVALIDATE_SCHEDD_ADS -")
            and "htc" not in cm.check_output("condor_status -schedd -af Name").split()
        ),
    )
    cm.check_output("systemctl restart glidein-demand")


def test_a_job_of_a_schedd_that_flocks_gets_a_glidein(flocking, server):
    write(flocking, "flock.sub", JOB)
    job = flocking.check_output("condor_submit -terse flock.sub").split()[0]
    server.wait_for_jobs(1)
    explained = playbook("explain", "-e", f"job=htc#{job}")
    assert f"Job htc#{job} of glidein@htc: idle" in explained.summary, explained
    assert "Wait for the next cycle, which submits a glidein to slurm/cpu/small" in explained.summary, explained
    cycle = playbook("cycle")
    assert "1 (job " in cycle.summary, cycle
    status = f"condor_history {job} -limit 1 -af JobStatus"
    wait_for("the end of the job", lambda: flocking.check_output(status) == "4")
    assert flocking.check_output("cat flock.out").strip() == 'site "slurm"'
    assert flocking.check_output(f"condor_history {job} -limit 1 -af LastRemotePool") == "cm"
