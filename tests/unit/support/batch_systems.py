# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every batch system with commands that answer as a test says, and its listings in the form of its command."""

import shlex

from ansible_collections.glidein.ops.plugins.module_utils import batch
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm.commands import Slurm
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support import (
    fake_lsf,
    fake_pbs,
    fake_slurm,
    gridengine_output,
    htcondor_output,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import PAYLOAD, raw_entry, site
from ansible_collections.glidein.ops.tests.unit.support.fake_queue import NOTICE
from ansible_collections.glidein.ops.tests.unit.support.programs import Answering

OURS = "g5bf7a-7eb8c79c"
# sbatch's output at TACC before the job's id.
FILTER = """
-----------------------------------------------------------------
          Welcome to the Lonestar6 Supercomputer
-----------------------------------------------------------------

No reservation for this job
--> Verifying valid submit host (login1)...OK
--> Verifying access to desired queue (normal)...OK
--> Checking available allocation (ABC123)...OK
--> Verifying that quota for filesystem /home1/01234/me is at 24.47% allocated...OK
"""
LSF_RETRIES = "Cannot connect to LSF. Please wait ...\n" * 3


def answering(kind, *answers, **options):
    """Return a batch system whose commands return these texts in turn, or raise these errors."""
    made = make_scheduler(kind, options, environ={})
    made.runner = Answering(*answers)
    return made


def slurm_with(monkeypatch, capability, **methods):
    """Replace Slurm by one that also has a class of capabilities.py, with these methods."""
    monkeypatch.setattr(batch, "scheduler_class", lambda _name: type("SlurmWithMore", (capability, Slurm), methods))


def printing(kind, stdout="", stderr="", rc=0):
    """Return a batch system whose commands are processes that print these texts and exit with `rc`."""
    script = f"printf %s {shlex.quote(stdout)}; printf %s {shlex.quote(stderr)} >&2; exit {rc}"
    made = make_scheduler(kind)
    made.argv = dict.fromkeys(made.argv, ["/bin/sh", "-c", script, "sh"])
    made.runner = Runner({"PATH": "/usr/bin:/bin"}, 300)
    return made


def refused(stderr, rc=1, stdout=""):
    """Return the runner's error for a command that failed."""
    return CommandError("it failed", ["command"], rc, stdout, stderr)


def files(kind, entry=None, options=None, path="/s/main.core.sh", **payload):
    """Return the texts of an entry's submitted files, the script and the submit description if there is one.

    The entry is checked as the modules check it. payload: changes of PAYLOAD.
    """
    one = site({"main": raw_entry(**(entry or {}))})
    made = make_scheduler(kind, options, one["entries"])
    return [text for _path, text in batch_files(made, one, "main", "core", PAYLOAD._replace(**payload), path)]


def commands(kind, entry=None, options=None, **payload):
    """Return the commands of the submit description as a dict."""
    lines = files(kind, entry, options, **payload)[1].splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    found = dict(line.split(" = ", 1) for line in lines)
    assert len(found) == len(lines)
    return found


# -- listings ----------------------------------------------------------------------------------------------------------


def _printer(kind, show, suffix=""):
    """Return a function that prints jobs (number, name, state) in the form of a stand-in. show: (stand-in, jobs)."""
    fake = kind.__new__(kind)

    def listed(jobs):
        made = [fake.job(f"{number}{suffix}", name, state) for number, name, state in jobs]
        for job in made:
            job.update(user="me", submitted=SUBMITTED, started=SUBMITTED + 1 if job["state"] == kind.running else None)
        return show(fake, made)

    return listed


def _of_slurm(fake, jobs):
    return fake_slurm.HEADER + "".join(map(fake_slurm.line, jobs))


def _of_pbs(fake, jobs):
    return fake.document(jobs)


def _of_sge(jobs):
    return gridengine_output.listing(
        *(gridengine_output.record(state, str(number), "", name) for number, name, state in jobs)
    )


def _of_htcondor(jobs):
    ads = [
        htcondor_output.ad(ClusterId=number, ProcId=0, GlideinJobName=name, JobStatus=state)
        for number, name, state in jobs
    ]
    return htcondor_output.printed(*ads)


SUBMITTED = 1795243993  # Sat Nov 21 06:53:13 2026
JSON = ["-o", fake_lsf.FIELDS, "-json"]
# Name -> (batch system, function of the jobs, states: queued and unknown).
LISTINGS = {
    "slurm": ("slurm", _printer(fake_slurm.FakeSlurm, _of_slurm), ("PENDING", "DREAMING")),
    "sge": ("sge", _of_sge, ("qw", "Xqw")),
    "uge": ("uge", _of_sge, ("qw", "V")),
    "lsf": ("lsf", _printer(fake_lsf.FakeSpectrumLsf, lambda fake, jobs: fake.listing(jobs, JSON)), ("PEND", "DREAM")),
    "lsf -W": ("lsf", _printer(fake_lsf.FakeLsf, lambda fake, jobs: fake.listing(jobs, ["-W"])), ("PEND", "DREAM")),
    "pbspro": ("pbspro", _printer(fake_pbs.FakePbsPro, _of_pbs, ".pbs"), ("Q", "Z")),
    "torque": ("torque", _printer(fake_pbs.FakeTorque, _of_pbs, ".server"), ("Q", "Z")),
    "htcondor": ("htcondor", _of_htcondor, (1, 8)),
}
NOISE = [(NOTICE, ""), ("", "\n" + NOTICE), (LSF_RETRIES, ""), ("CLUSTER: a\n", "")]


def listing(name, *jobs):
    """Return what the listing command prints for jobs (number, name, state)."""
    return LISTINGS[name][1](jobs)
