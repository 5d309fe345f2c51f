# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every batch system with commands that answer as a test says, and its listings in the form of its command."""

import json
import shlex

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_files
from ansible_collections.glidein.ops.tests.unit.support import fake_lsf, fake_slurm, gridengine_output, htcondor_output
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
    return [text for _path, text in batch_files(made, one, "main", "core", dict(PAYLOAD, **payload), path)]


def commands(kind, entry=None, options=None, **payload):
    """Return the commands of the submit description as a dict."""
    lines = files(kind, entry, options, **payload)[1].splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    found = dict(line.split(" = ", 1) for line in lines)
    assert len(found) == len(lines)
    return found


# -- listings: record(number, name, state) and document(records) of each form --------------------------------------


def _slurm_record(number, name, state):
    return f"{number}|{state}|2026-11-21T03:30:54|N/A|Priority|{name}\n"


def _slurm_document(records):
    return fake_slurm.HEADER + "".join(records)


def _lsf_wide_record(number, name, state):
    return (
        f"{number}     me {state:<5} normal     login1          -    {name} 11/20-22:06:19 default    "
        "000:00:00.00 0   0  - - - \n"
    )


def _lsf_wide_document(records):
    return fake_lsf.HEADER + "".join(records)


def lsf_record(number, name, state, **changes):
    """Return a record of bjobs -o ... -json as IBM's documentation shows it."""
    values = (str(number), "0", state, name, "Nov 21 05:58", "", "")
    return dict(zip(fake_lsf.FIELDS.upper().split(), values), **changes)


def lsf_document(records):
    """Return the output of bjobs -o ... -json."""
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=1) + "\n"


def _pbspro_record(number, name, state):
    times = {"ctime": "Fri Nov 20 21:54:42 2026", "stime": "Fri Nov 20 21:54:43 2026"}
    return f"{number}.pbs", dict(times, Job_Name=name, Job_Owner="me@login", job_state=state, Hold_Types="n")


def pbspro_document(records):
    """Return the output of qstat -F json."""
    return json.dumps({"pbs_version": "23.06.06", "Jobs": dict(records)}, indent=4) + "\n"


def _torque_record(number, name, state):
    return (
        f"<Job><Job_Id>{number}.server</Job_Id><Job_Name>{name}</Job_Name><Job_Owner>me@login</Job_Owner>"
        f"<job_state>{state}</job_state><ctime>1795243993</ctime><start_time>1795243994</start_time></Job>"
    )


def _torque_document(records):
    return f"<Data>{''.join(records)}</Data>\n"


def _sge_record(number, name, state):
    return gridengine_output.record(state, str(number), "", name)


def _sge_document(records):
    return gridengine_output.listing(*records)


def _htcondor_record(number, name, state):
    return htcondor_output.ad(ClusterId=number, ProcId=0, GlideinJobName=name, JobStatus=state)


def _htcondor_document(records):
    return htcondor_output.printed(*records)


# Name -> (batch system, record, document, states: queued, unknown).
LISTINGS = {
    "slurm": ("slurm", _slurm_record, _slurm_document, ("PENDING", "DREAMING")),
    "sge": ("sge", _sge_record, _sge_document, ("qw", "Xqw")),
    "uge": ("uge", _sge_record, _sge_document, ("qw", "V")),
    "lsf": ("lsf", lsf_record, lsf_document, ("PEND", "DREAM")),
    "lsf -W": ("lsf", _lsf_wide_record, _lsf_wide_document, ("PEND", "DREAM")),
    "pbspro": ("pbspro", _pbspro_record, pbspro_document, ("Q", "Z")),
    "torque": ("torque", _torque_record, _torque_document, ("Q", "Z")),
    "htcondor": ("htcondor", _htcondor_record, _htcondor_document, (1, 8)),
}
NOISE = [(NOTICE, ""), ("", "\n" + NOTICE), (LSF_RETRIES, ""), ("CLUSTER: a\n", "")]


def listing(name, *jobs):
    """Return what the listing command prints for jobs (number, name, state)."""
    _kind, record, document, _states = LISTINGS[name]
    return document([record(*job) for job in jobs])
