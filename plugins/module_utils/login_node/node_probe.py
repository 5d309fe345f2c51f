# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small batch jobs, one for each entry of a site, that report what the compute nodes offer.

The state between two runs of the module is in the file jobs.json of the probe's directory:
    {"made_parent": whether the probe made the parent of its directory,
     "entries": {entry: {"job_name": "p...", "job_id": "12" or null, "submitted_at": epoch s, "cpus": requested cores,
                         "reported_at": time at which the whole report was first seen, or null,
                         "gone_at": time at which the job was first missing in the queue, or null,
                         "error": why there is no job, or "", "unknown": why the outcome is unknown, or ""}}}
"""

import contextlib
import json
import os
import pwd
import re
import shutil
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import (
    MODULES,
    REPOSITORIES,
    SCRATCH,
    check_environment,
    normalise_site,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandTimeoutError,
    GlideinError,
    InputError,
    OutcomeUnknownError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.names import probe_job_name, probe_prefix
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import scratch_word, sh_quote
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import by_size
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import Spec, invalid
from ansible_collections.glidein.ops.plugins.module_utils.login_node.environment import parse_address
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import find_logs, tail
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import (
    Payload,
    script_head,
    with_description,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.node_report import is_complete, parse_report
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import SiteDirectory, read_text

# The longest walltime of a job. The report takes a few seconds, on a node with hanging file systems a few minutes.
WALLTIME_S = 600
# A shared file system may show a new file on the login node only after this time.
VISIBLE_S = 60
# The time for a job to leave the queue after its report. PBS then copies its output file to the probe's directory.
ENDING_S = 30
# The states of an entry's job besides those of batch/base.py.
REPORTED = "reported"
FAILED = "failed"
GONE = "gone"

_ADDRESS = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*:[0-9]{1,5}\Z")
_COLLECTOR_PORT = 9618
_OPTIONS = Spec(
    {
        "scratch": {"type": SCRATCH},
        "modules": {"type": MODULES, "default": []},
        "cvmfs": {"type": REPOSITORIES, "default": []},
    }
)


class NodeProbe:
    """The probe of one site on its login node.

    params: values of site_argument_spec, and scratch, environment, modules, addresses, cvmfs and script of the module
    node_probe. Raises InputError. An invalid entry is an error of this entry only: see `invalid`.
    """

    def __init__(self, params):
        problems = []
        checked = _OPTIONS.check(problems, "", {name: params[name] for name in _OPTIONS.options})
        environment = check_environment(problems, "environment", params["environment"] or {})
        self.addresses = [_address(problems, address) for address in params["addresses"]]
        if problems:
            raise InputError(problems)
        self.cvmfs = checked["cvmfs"]
        self.entries, self.invalid = _checked_entries(params)
        self.names = {name: probe_job_name(params["deployment"], params["site"], name) for name in params["entries"]}
        self.prefix = probe_prefix(params["deployment"], params["site"])
        self.scheduler = make_scheduler(params["scheduler"], params["scheduler_options"])
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        site_directory = SiteDirectory(params["home"], params["site"], params["log_dir"])
        base = site_directory.log_dir if params["log_dir"] else os.path.dirname(site_directory.path)
        self.directory = os.path.join(base, f"node_probe.{params['site']}")
        self.script = params["script"]
        self.payload = Payload(
            site=params["site"],
            home=self.directory,
            log_dir=self.directory,
            scratch=checked["scratch"],
            environment=environment,
            modules=checked["modules"],
            condor_config={},
            inputs=(),
        )

    # -- submitting --------------------------------------------------------------------------------------------

    def files(self, entry_name, walltime_s, script):
        """Return the files of an entry's job, [(path, text)]; the last one is submitted. Raises InputError.

        The job requests the entry's smallest shape, for at most walltime_s, and runs `script`.
        """
        entry = self.entries[entry_name]
        entry = dict(entry, walltime_s=min(walltime_s, entry["walltime_s"]))
        shape, name = _smallest_shape(entry), self.names[entry_name]
        path = os.path.join(self.directory, f"{entry_name}.sh")
        scratch = entry["scratch"] or self.payload.scratch
        words = {
            "NODE_REPORT_ADDRESSES": sh_quote(" ".join(self.addresses)),
            "NODE_REPORT_CVMFS": sh_quote(" ".join(sorted(set(self.cvmfs + entry["cvmfs"])))),
            "NODE_REPORT_SCRATCH": scratch_word(scratch) if scratch else "''",
        }
        lines = script_head(self.scheduler, entry, shape, name, self.payload)
        lines += ["", f"# A report of a compute node of the entry {entry_name}, written by glidein.ops."]
        lines += [f"{key}={word}" for key, word in words.items()]
        text = "\n".join([*lines, "", script])
        return with_description(self.scheduler, entry, shape, name, self.payload, path, text)

    def headers(self):
        """Return the files of all jobs, [(path, text)], without the report's script, which is the same for all.

        An entry whose files cannot be made has none: its job fails alone.
        """
        script = "# files/discovery/node_report.sh of the collection follows.\n"
        headers = []
        for entry in self.entries:
            with contextlib.suppress(InputError):
                headers += self.files(entry, WALLTIME_S, script)
        return headers

    def submit(self):
        """Submit a job for each entry, after those of earlier runs are cancelled.

        Raises CommandError, OutputError, InputError; then no job was submitted.
        """
        earlier = self.jobs()
        if earlier:
            self.scheduler.cancel(self.user, [job.id for job in earlier], running=True)
        made_parent = self._load()["made_parent"] or not os.path.isdir(os.path.dirname(self.directory))
        _remove(self.directory)
        try:
            os.makedirs(self.directory, mode=0o700)
        except OSError as error:
            raise InputError(f"{self.directory} on the login node cannot be made: {error.strerror}.") from error
        records = {name: self._no_job(name, text) for name, text in self.invalid.items()}
        state = {"made_parent": made_parent, "entries": records}
        timed_out = None
        for name in self.entries:
            if timed_out:
                text = f"no job was submitted, because {timed_out} timed out for another entry."
                records[name] = self._no_job(name, text)
                continue
            # Stored before the submission: if this run dies in it, the next one finds the job by its name.
            records[name] = self._no_job(name, "")
            self._store(state)
            try:
                records[name]["job_id"] = self._submit_one(name)
            except OutcomeUnknownError as error:
                # The job is searched for by its name. Without one, the entry fails after VISIBLE_S.
                records[name]["unknown"] = str(error.cause)
                if isinstance(error.cause, CommandTimeoutError):
                    timed_out = error.cause.cmd[0]
            except (GlideinError, OSError) as error:
                records[name]["error"] = f"the job was refused: {error}"
        self._store(state)

    def _submit_one(self, name):
        """Submit the job of an entry and return its id. Raises GlideinError, OSError.

        Some queues refuse a walltime below a minimum. Then the job requests the walltime of the entry.
        """
        longest_s = self.entries[name]["walltime_s"]
        try:
            return self._submit_files(name, WALLTIME_S)
        except OutcomeUnknownError:
            raise
        except GlideinError:
            if longest_s <= WALLTIME_S:
                raise
            return self._submit_files(name, longest_s)

    def _submit_files(self, name, walltime_s):
        files = self.files(name, walltime_s, self.script)
        for path, text in files:
            write_atomically(path, text)
        return self.scheduler.submit(files[-1][0], self.names[name], None)

    def _no_job(self, name, error):
        shape = _smallest_shape(self.entries[name]) if name in self.entries else {"cpus": 1}
        return {
            "job_name": self.names[name],
            "job_id": None,
            "submitted_at": int(time.time()),
            "cpus": shape["cpus"],
            "reported_at": None,
            "gone_at": None,
            "error": error,
            "unknown": "",
        }

    # -- following ---------------------------------------------------------------------------------------------

    def jobs(self):
        """Return the jobs of all runs of this probe that are in the queue. Raises CommandError, OutputError."""
        return [job for job in self.scheduler.jobs(self.user) if job.name.startswith(self.prefix)]

    def read(self, jobs=None):
        """Return {entry: node}, see `nodes` in the module's RETURN. Raises CommandError, OutputError.

        jobs: result of self.jobs(), if it was just read for the last time: a job with a report is then reported even if
        it is still in the queue.
        """
        is_last = jobs is not None
        state = self._load()
        # The queue before the reports: a job that has left the queue has written its last line.
        jobs = self.jobs() if jobs is None else jobs
        nodes = {name: self._read_one(record, jobs, is_last) for name, record in state["entries"].items()}
        # A run that was killed may leave a process that still reads, while another run removes the directory.
        if state["entries"] and os.path.isdir(self.directory):
            with contextlib.suppress(OSError):
                self._store(state)
        return nodes

    def _read_one(self, record, jobs, is_last):
        """Return the node of an entry. Sets the times and an unknown job id in `record`, its state."""
        if record["error"]:
            return self._node(record, FAILED, error=record["error"])
        named = [job for job in jobs if job.name == record["job_name"]]
        if named and not record["job_id"]:
            # The outcome of the submission was unknown. Jobs of earlier runs were cancelled before it.
            record["job_id"] = max(named, key=lambda job: job.submitted).submission
        job = next((job for job in named if job.submission == record["job_id"]), None)
        text = self._output(record["job_id"])
        if is_complete(text):
            record["reported_at"] = record["reported_at"] or int(time.time())
            is_ending = job and not is_last and time.time() - record["reported_at"] < ENDING_S
            return self._node(record, COMPLETING if is_ending else REPORTED, text=text)
        if job and job.state == SICK:
            return self._node(record, FAILED, f"the job cannot start, as {self.scheduler.name} reports: {job.reason}.")
        if job:
            return self._node(record, QUEUED if job.cancellable else job.state, reason=job.reason)
        if record["gone_at"] is None:
            record["gone_at"] = int(time.time())
        if time.time() - record["gone_at"] < VISIBLE_S:
            return self._node(record, GONE)
        return self._node(record, FAILED, error=self._why_no_report(record, text), text=text)

    def _why_no_report(self, record, text):
        if record["unknown"]:
            return f"the outcome of the submission is unknown, and the queue does not have the job: {record['unknown']}"
        if text.strip():
            return f"the job ended without a complete report; its output ends with: {excerpt(tail(text, 3))}"
        return (
            f"the job {record['job_id']} has left the queue and wrote no report to {self.directory}. The compute nodes "
            "must be able to write there: set glidein_log_dir to a directory that they share with the login node."
        )

    def _node(self, record, state, error=None, reason="", text=""):
        """Return the node of an entry, with the report in its job's output. waited_s: until the job's start, or now."""
        report = parse_report(text, record["cpus"])
        started_at = report.pop("time")
        until = int(time.time()) if started_at is None else started_at
        return dict(
            report,
            state=state,
            job_id=record["job_id"],
            waited_s=None if record["error"] else max(0, until - record["submitted_at"]),
            reason=reason,
            error=error,
        )

    def _output(self, job_id):
        """Return the output of a job; "" without one."""
        if not job_id:
            return ""
        texts = []
        for path in find_logs(self.directory, self.scheduler.log_pattern(job_id)):
            with contextlib.suppress(OSError):
                texts.append(read_text(path))
        return "\n".join(texts)

    # -- ending ------------------------------------------------------------------------------------------------

    def finish(self):
        """Cancel the jobs that have not ended and remove all files.

        Return ({entry: node}, why the directory cannot be removed, or ""); all nodes are finished. Raises CommandError,
        OutputError if the queue cannot be read; then nothing is changed.
        """
        made_parent = self._load()["made_parent"]
        jobs = self.jobs()
        nodes = self.read(jobs)
        problem = ""
        if jobs:
            try:
                self.scheduler.cancel(self.user, [job.id for job in jobs], running=True)
            except GlideinError as error:
                problem = f" It could not be cancelled: {error}"
        for node in unfinished(nodes):
            node.update(error=_why_unfinished(node) + problem, state=FAILED)
        problem = ""
        try:
            _remove(self.directory)
        except OSError as error:
            problem = f"{self.directory} on the login node cannot be removed: {error.strerror}"
        if made_parent:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(self.directory))  # only if it is empty
        return nodes, problem

    def left(self):
        """Return what runs have left, in words: jobs and the directory. Raises CommandError, OutputError."""
        jobs = [f"job {job.id} ({job.name})" for job in self.jobs()]
        return jobs + ([self.directory] if os.path.isdir(self.directory) else [])

    # -- the state file ----------------------------------------------------------------------------------------

    @property
    def _state_path(self):
        return os.path.join(self.directory, "jobs.json")

    def _load(self):
        """Return the state, without entries that are not among those of this run."""
        try:
            state = json.loads(read_text(self._state_path) or "{}")
        except ValueError:
            state = {}
        entries = {name: record for name, record in state.get("entries", {}).items() if name in self.names}
        return {"made_parent": bool(state.get("made_parent")), "entries": entries}

    def _store(self, state):
        write_atomically(self._state_path, json.dumps(state))


def unfinished(nodes):
    """Return the nodes whose report may still come."""
    return [node for node in nodes.values() if node["state"] not in (REPORTED, FAILED)]


def summary(nodes):
    """Return the states of all nodes as one sentence."""
    texts = []
    for name, node in sorted(nodes.items()):
        reason = node["error"] or node["reason"]
        state = "left the queue" if node["state"] == GONE else node["state"]
        texts.append(f"{name}: {state}" + (f" ({reason})" if reason else ""))
    return "; ".join(texts) or "no job was submitted"


def _why_unfinished(node):
    """Return why a node has no report when the probe ends."""
    if node["state"] == GONE:
        return f"the job left the queue less than {VISIBLE_S} s ago and has written no report yet."
    reason = f" ({node['reason']})" if node["reason"] else ""
    return f"the job was still {node['state']} after {node['waited_s']} s{reason} and was cancelled."


def _checked_entries(params):
    """Return ({name: normalised entry}, {name: error}), so that an invalid entry does not prevent the others' jobs."""
    entries, errors = {}, {}
    for name, raw in params["entries"].items():
        try:
            site = normalise_site(params["deployment"], params["site"], {name: raw})
            make_scheduler(params["scheduler"], params["scheduler_options"], site["entries"])
        except InputError as error:
            errors[name] = str(error)
            continue
        entries.update(site["entries"])
    return entries, errors


def _smallest_shape(entry):
    return entry["shapes"][by_size(entry["shapes"])[0]]


def _address(problems, value):
    """Return HOST:PORT of a host, with or without a port, or of a URL. Without a port it is a collector's."""
    try:
        address = "{}:{}".format(*parse_address(value, _COLLECTOR_PORT))
    except ValueError:
        address = ""
    if not _ADDRESS.match(address):
        problems.append(invalid("addresses", value, "HOST, HOST:PORT, or a URL with http or https"))
    return address


def _remove(directory):
    """Remove a directory, if it exists. NFS keeps files that a job has open for a moment."""
    for attempt in range(5):
        shutil.rmtree(directory, ignore_errors=attempt < 4)
        if not os.path.isdir(directory):
            return
        time.sleep(1)
