# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of batch systems that the access point reaches through its grid universe: a gateway, an HTCondor-CE.

Sources: the manual's page of the grid universe; HTCondor's gridmanager; tests with 23.9.6 and Slurm 24.11.
"""

import abc
import re
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import LateOutput
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.commands import ScheddJobs
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc

# The schedd and the collector of a submit description.
_GRID_RESOURCE = re.compile(r"^grid_resource = condor (\S+) (\S+)$", re.MULTILINE)
# Since when the gridmanager of the access point gets no answer from the remote schedd (epoch seconds).
_SILENT_SINCE = "GridResourceUnavailableTime"
# In the remote queue: the access point's schedd, and GlobalJobId there: SCHEDD#CLUSTER.PROCESS#TIME.
_SUBMITTER_SCHEDD = "SubmitterId"
_SUBMITTER = "SubmitterGlobalJobId"
# JobStatus
_IDLE, _HELD = 1, 5
# A restart of the remote schedd, or of its host, takes less.
_MAX_SILENCE_S = 900


class GridUniverse(LateOutput, ScheddJobs):
    """Batch jobs as grid jobs of the access point, through its condor_submit, condor_q and condor_rm."""

    commands = dict(ScheddJobs.commands, condor_status=["condor_status"])
    job_attributes = (*ScheddJobs.job_attributes, _SILENT_SINCE)
    streams_output = False
    # The name of the remote schedd in messages.
    remote = ""
    # Held jobs that can be released: why they were held, and an expression. They are not submitted twice.
    held_because = "Its files could not be transferred."
    releasable = 'regexp("^Error (sending|receiving) files", HoldReason ?: "") && (NumSystemHolds ?: 0) < 20'
    # blahp runs the script in a new directory. It moves the input files there, and leaves the input directories beside
    # the script.
    shell_settings = {
        "GLIDEIN_HOME": '"$PWD"',
        "GLIDEIN_CREDENTIAL": '"$PWD/credential"',
        "GLIDEIN_LOG_DIR": "'-'",
        "GLIDEIN_LOG_S3": '"$PWD/log_s3"',
    }
    call = (
        "# The gateway's blahp leaves directories beside this script.",
        "for part in lib checks tarballs files; do",
        '  [ -e "$part" ] || [ ! -d "${0%/*}/$part" ] || ln -s "${0%/*}/$part" "$part"',
        "done",
        'exec /bin/sh "$GLIDEIN_HOME/glidein.sh"',
    )

    # -- scripts -----------------------------------------------------------------------------------------------

    def description(self, entry, shape, job_name, payload, script):
        lines = [
            "",
            f"# The schedd copies the script now; the other files are fetched when the {self.remote} accepts the job."
            if self.has_schedd
            else "# The files are sent when the login node accepts the job.",
            *self._file_commands(job_name, self.carried(payload), script),
            "",
            "# What it needs",
            # Without it, blahp requests 1 MB.
            f"request_memory = {shape['memory_mb']}",
            *self.requests(entry, shape, job_name),
        ]
        # No job_lease_duration: with universe 9, its first renewal makes the gateway's gridmanager loop (23.9.6).
        if self.has_schedd:
            release = f"periodic_release = {self.releasable} && time() - EnteredCurrentStatus > 300"
            lines += ["", f"# {self.held_because} It has not been submitted twice.", release]
        return self.description_text(entry, job_name, ["universe = grid", *self.target(payload)], [*lines, ""])

    @abc.abstractmethod
    def target(self, payload):
        """Return the lines that say where the job goes, and what is done with it there. Raises InputError."""

    def carried(self, payload):
        """Return the payload with only the parts that travel with a glidein."""
        return payload

    @abc.abstractmethod
    def requests(self, entry, shape, job_name):
        """Return the lines that request what a glidein needs, without request_memory."""

    @staticmethod
    def routed_requests(entry, shape):
        """Return the attributes that the routes of a CE read, and those of a gateway."""
        lines = [f"request_gpus = {shape['gpus']}"] if shape["gpus"] else []
        lines += [
            f"+maxMemory = {shape['memory_mb']}",
            f"+xcount = {shape['cpus']}",
            f"+maxWallTime = {-(-entry['walltime_s'] // 60)}",
        ]
        if entry["queue"]:
            lines.append(f"+queue = {classad_literal(entry['queue'])}")
        return lines

    # -- counting ----------------------------------------------------------------------------------------------

    def constraint(self, user):
        # Users' jobs may be in the same queue.
        return f"{super().constraint(user)} && GlideinJobName isnt undefined"

    def _parse_ad(self, ad):
        job = super()._parse_ad(ad)
        since = ad.get(_SILENT_SINCE)
        if job and job.state == QUEUED and isinstance(since, int) and time.time() - since > _MAX_SILENCE_S:
            # It cannot start, or its start is not known.
            return job._replace(state=SICK, reason=f"{self.silence()} since {utc(since)}")
        return job

    def silence(self):
        """Return the reason of jobs whose remote schedd gives no answer."""
        return f"the {self.remote} has not answered"

    def registered(self, site, submission):
        # The output comes back when a glidein ends.
        constraint = (
            f'GLIDEIN_Site == {classad_literal(site)} && regexp("^{re.escape(submission)}[.]", GLIDEIN_BatchId ?: "")'
        )
        printed = self.runner.run([*self.argv["condor_status"], "-constraint", constraint, "-af", "GLIDEIN_BatchId"])
        return len({word for word in printed.split() if word.startswith(f"{submission}.")})

    # -- submitting --------------------------------------------------------------------------------------------

    def submit(self, path, job_name, tasks):
        """See Scheduler.submit. Raises GlideinError if the remote schedd cannot be reached."""
        with open(path, encoding="utf-8") as handle:
            match = _GRID_RESOURCE.search(handle.read())
        if match:
            # The access point would keep the glideins until the remote schedd is back.
            self.check_schedd(*match.groups())
        return super().submit(path, job_name, tasks)

    @abc.abstractmethod
    def check_schedd(self, schedd, collector):
        """Raise GlideinError if the collector does not list the remote schedd."""

    # -- cancelling --------------------------------------------------------------------------------------------

    def cancel(self, user, ids, running=False):
        if ids and not running and self.has_schedd:
            started = self._started(user, set(ids))
            ids = [job_id for job_id in ids if job_id not in started]
        return super().cancel(user, ids, running)

    def _started(self, user, ids):
        """Return those of the ids whose jobs have started, as their remote schedds report it.

        The access point learns that later. A schedd that does not answer is left out. Raises CommandError.
        """
        argv = [*self.argv["condor_q"], "-allusers", "-constraint", self.constraint(user)]
        printed = self.runner.run([*argv, "-af", "GlobalJobId", "GridResource"])
        jobs = {}
        for words in map(str.split, printed.splitlines()):
            if len(words) >= 4 and words[0].count("#") == 2 and words[0].split("#")[1] in ids and words[1] == "condor":
                jobs.setdefault((words[2], words[3]), set()).add(words[0])
        found = set()
        for (schedd, collector), names in jobs.items():
            try:
                listed = self.runner.run(self._started_argv(schedd, collector, min(names).split("#")[0]))
            except CommandError:
                continue
            found.update(name.split("#")[1] for name in names.intersection(listed.split()))
        return found

    def _started_argv(self, schedd, collector, submitter):
        """Return the argument list that prints the GlobalJobId of the submitting schedd's jobs that have started."""
        constraint = (
            f"{_SUBMITTER_SCHEDD} == {classad_literal(submitter)} && JobStatus != {_IDLE} && JobStatus != {_HELD} && "
            f"{_SUBMITTER} isnt undefined"
        )
        return [
            *self.remote_argv("condor_q"),
            *("-name", schedd, "-pool", collector, "-allusers", "-constraint", constraint, "-af", _SUBMITTER),
        ]

    def remote_argv(self, command):
        """Return the first arguments of a command that asks a remote daemon."""
        return self.argv[command]
