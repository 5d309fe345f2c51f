# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LSF. Sources: documentation of IBM Spectrum LSF 10.1; recorded output and source of OpenLava 4.0, Volclava 2.2."""

import re
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    QUEUED,
    RUNNING,
    SICK,
    Job,
    RequestOption,
    Scheduler,
    by_word,
    unknown_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import Blahp, BlahpRequests
from ansible_collections.glidein.ops.plugins.module_utils.batch.output import epoch_of_words, find_json
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandTimeoutError,
    InputError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.names import BATCH_JOB
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import choice, invalid

# STAT of bjobs. None: the job has ended, but is still listed.
STATES = by_word(
    {
        # WAIT: a member of a chunk of jobs.
        QUEUED: "PEND FWD_PEND WAIT",
        # PROV: its host is powered on.
        RUNNING: "PROV RUN",
        # UNKWN: its host does not answer; ZOMBI: killed while its host did not answer.
        SICK: "PSUSP USUSP SSUSP UNKWN ZOMBI",
        None: "DONE EXIT PDONE PERR",
    }
)
_NOT_STARTED = ("PEND", "FWD_PEND", "WAIT", "PSUSP")

# Reasons (lsb.reason.c) for which a pending job does not start until the job or the configuration is changed. Reasons
# with a number of hosts ("...: 3 hosts") may end by themselves: memory that is in use and memory that no host has are
# reported in the same way. So may "There are no suitable hosts for the job": hosts that are down are not suitable.
_NEVER_STARTS = re.compile(
    r"""(?:^|;\s*)(?:
        Dependency\ condition\ invalid\ or\ never\ satisfied
      | Unable\ to\ determine\ user\ account\ for\ execution
      | The\ user\ has\ no\ permission\ to\ run\ the\ job
      | There\ is\ no\ such\ user\ account
      | Job\ no\ longer\ satisfies\ queue\ PROCLIMIT\ configuration
      | Checkpoint\ directory\ is\ invalid
    )[^;:]*(?:;|\Z)""",
    re.VERBOSE,
)

# Options of bsub (10.1) with several letters. Other words are read as one letter and its value: -n4 is -n 4.
# fmt: off
_LONG_OPTIONS = (
    "-alloc_flags", "-app", "-ar", "-clusters", "-cn_cu", "-cn_mem", "-core_isolation", "-csm", "-cwd", "-data",
    "-datachk", "-datagrp", "-env", "-eo", "-Ep", "-eptl", "-ext", "-extsched", "-freq", "-gpu", "-hl", "-hostfile",
    "-ISp", "-ISs", "-Ip", "-IS", "-Is", "-IX", "-is", "-Jd", "-jobaff", "-json", "-jsonl", "-jsdl", "-jsdl_strict",
    "-jsm", "-Lp", "-ln_mem", "-ln_slots", "-mig", "-Ne", "-network", "-nnodes", "-notify", "-oo", "-outdir", "-pack",
    "-ptl", "-rcacct", "-rn", "-rnc", "-sla", "-smt", "-sp", "-ss", "-stage", "-step_cgroup", "-tty", "-ul", "-We",
    "-wa", "-wt", "-XF", "-yaml", "-Zs",
)
# fmt: on
# What the collection sets in -R.
_OWN_REQUIREMENTS = re.compile(r"\b(?:span|mem|tmp|ngpus\w*)\b")

_GPU_TYPE = re.compile(r"^[A-Za-z0-9_.-]+\Z")
_LOG_DIR = re.compile(r"^/[A-Za-z0-9_./+@,=~-]*\Z")

# The first line of lsid. bsub of IBM and Platform supports -rn; the others refuse it.
_IBM = re.compile(r"^(?:IBM|Platform)\b.*\bLSF\b", re.MULTILINE)
_WITHOUT_GPU = (
    (re.compile(r"^OpenLava\b", re.MULTILINE), "OpenLava's mbatchd crashes on -gpu"),
    (re.compile(r"^volclava\b", re.MULTILINE | re.IGNORECASE), "Volclava's bsub does not support -gpu"),
)
# A line of bparams -l of all these systems.
_LARGEST_ARRAY = re.compile(r"^\s*MAX_JOB_ARRAY_SIZE\s*=\s*([0-9]+)\s*$", re.MULTILINE)
_GPU_DIRECTIVE = re.compile(rb"^#BSUB\s.*-gpu\b", re.MULTILINE)

_FIELDS = ("jobid", "jobindex", "stat", "job_name", "submit_time", "start_time", "pend_reason")
_JOB_ID = re.compile(r"^([0-9]+)(?:\[([0-9]+)\])?\Z")
# The end of a glidein's job name, after an asterisk, in a column that is too narrow.
_CUT = re.compile(r"^\*[0-9a-f-]{1,14}(?:\[\d+\])?\Z")
_ELEMENT = re.compile(r"^(.*)\[([0-9]+)\]\Z", re.DOTALL)
_SEVERAL = re.compile(r"\[[0-9]+[-,:][0-9,:-]*\](?:%[0-9]+)?\Z")
_HEADER = re.compile(r"^JOBID .*$", re.MULTILINE)
_WIDE_TIME = r"[0-9]{2}/[0-9]{2}-[0-9]{2}:[0-9]{2}:[0-9]{2}"
# A line of bjobs -W. EXEC_HOST and JOB_NAME are separated later: a waiting job has no host.
_WIDE = re.compile(
    r"^(?P<id>[0-9]+)\s+\S+\s+(?P<stat>[A-Z_]+)\s+\S+\s+\S+\s+(?P<host_and_name>\S.*?)\s*"
    r"(?P<submitted>" + _WIDE_TIME + r")\s.*?[0-9]+:[0-9]{2}:[0-9]{2}\.[0-9]{2}\s+\S+\s+\S+\s+(?:-|[0-9,]+)\s+"
    r"(?P<started>-|" + _WIDE_TIME + r")\s+(?:-|" + _WIDE_TIME + r")(?:\s.*)?$"
)

_NO_JOB = re.compile(r"^No unfinished job found\s*$", re.MULTILINE)
_NONE_PENDING = re.compile(r"^No (?:unfinished|pending) job found\s*$", re.MULTILINE)


class Lsf(Blahp, Scheduler):
    """LSF through bsub, bjobs, bkill, lsid and bparams; one array job for any number of glideins."""

    name = "lsf"
    own_record = re.compile(BATCH_JOB.pattern + r"|\*[0-9a-f-]{1,14}\b")  # or the end of a name, see _CUT
    commands = {"bsub": ["bsub"], "bjobs": ["bjobs"], "bkill": ["bkill"], "lsid": ["lsid"], "bparams": ["bparams"]}
    submit_command = "bsub"
    remove_command = "bkill"
    # In a script, OpenLava and Volclava take the first of several -n, -W and -M, the last of several -J, -q, -P and -o,
    # and refuse a second -R. IBM does not document the order for LSF. So what the collection sets is refused, too.
    refused_options = by_word(
        {
            "the collection sets it": "-J -o -oo -rn",
            "use shapes of the entry": "-n -gpu",
            "use queue of the entry": "-q",
            "use account of the entry": "-P",
            "use walltime of the entry": "-W",
            "use shapes and resources of the entry": "-M",
            "use shapes with whole_node of the entry": "-x",
            "use constraint, shapes and resources of the entry": "-R",
            "the glidein's log would lack its errors": "-e -eo",
            "the glideins could be started twice": "-r -k",
            "the glideins would wait for other jobs": "-w",
            "the glideins would never start": "-H",
            "OpenLava and Volclava read it as -c": "-cwd",
            "OpenLava and Volclava read it as -e; use environment of the entry": "-env",
            "a glidein runs on one node": "-nnodes",
            "bsub would not return before the glideins end": "-K -I -Ip -Is -IS -ISp -ISs -IX",
            "bsub would read the job or its input from another file": "-i -is -pack -Zs -json -yaml -jsdl",
            "no job would be submitted": "-h -V",
        }
    )
    # The environment of bsub becomes that of the job: only variables that locate LSF's configuration are kept. LSB_*
    # and BSUB_* could change the queue, the project, the output of bjobs, or silence bsub. TMPDIR is that of the login
    # node.
    only_prefixes = (
        "LSF_BINDIR",
        "LSF_CONFDIR",
        "LSF_LIBDIR",
        "LSF_TOP",
        "EGO_",
        "XLSF_",
    )
    # The commands find their server by these.
    keep = ("LSF_ENVDIR", "LSF_SERVERDIR")
    scrub_prefixes = ("TMPDIR",)
    directive_prefix = "#BSUB"
    script_on_stdin = True
    resources = {
        "memory": RequestOption("job", choice("job", "core", "none")),
        "memory_unit": RequestOption("none", choice("KB", "MB", "GB", "explicit", "none")),
        "disk": RequestOption("none", choice("tmp", "none")),
        "gpus": RequestOption("gpu", choice("gpu", "ngpus_physical", "none")),
        "whole_node": RequestOption("exclusive", choice("exclusive", "none")),
    }
    grace_s = 20  # INT, TERM, KILL, each JOB_TERMINATE_INTERVAL (10 s) after the one before
    # As installed, LSF keeps a job's output in a spool directory until its end. The log is needed earlier.
    script_output = "$LSB_JOBID.${LSB_JOBINDEX:-0}"
    submitted_pattern = re.compile(r"^Job <([0-9]+)> is submitted\b")
    answer_lost_pattern = re.compile(
        r"sending/receiving a message|timed? ?out|not responding|connection reset|broken pipe|protocol error",
        re.IGNORECASE,
    )
    cancel_pattern = re.compile(r"^Job <")
    ended_pattern = re.compile(
        r"^Job <[0-9]+(?:\[[0-9]+\])?>: (?:Job has already finished|No matching job found|Operation is in progress)\Z"
    )
    # MAX_JOB_ARRAY_SIZE; limits of jobs in queues and of users (lsb.err.c).
    too_many_pattern = re.compile(
        r"Job array index too large|has reached its job limit|not have enough (?:per-user )?job slots"
        r"|Pending job threshold reached",
        re.IGNORECASE,
    )
    # bkill and the run limit signal every process of the job. The last signal, TERM, makes HTCondor vacate the job.
    shell_settings = {"GLIDEIN_NOTICE_TO_ALL": "'INT USR2'"}
    # blahp requests neither memory nor one host.
    blahp = BlahpRequests(
        "lsf",
        ("queue", "account"),
        ("constraint", "cores", "memory", "memory_unit", "disk", "gpus", "gpu_type", "whole_node", "directives"),
    )
    batch_id = '${LSB_JOBID}$([ "${LSB_JOBINDEX:-0}" = 0 ] || echo "[$LSB_JOBINDEX]")'

    def __init__(self, runner, options):
        super().__init__(runner, options)
        self.now = time.time
        self._product = None  # output of lsid
        self._plain = False  # bjobs does not support -o ... -json
        self._parameters = None  # output of bparams -l

    # -- checks of an entry --------------------------------------------------------------------------------------

    @classmethod
    def refused_in(cls, words, entry):
        refused = super().refused_in(words, entry)
        if not any(shape["gpus"] for shape in entry["shapes"].values()):
            refused = [option for option in refused if option != "-gpu"]
        if not _OWN_REQUIREMENTS.search(" ".join(words)):
            refused = [option for option in refused if option != "-R"]
        return refused

    @classmethod
    def options_in(cls, word):
        # -n2 is -n 2, but -network is another option.
        if word in _LONG_OPTIONS:
            return [word]
        return [next((option for option in ("-gpu", "-cwd", "-env") if word.startswith(option)), word[:2])]

    def script_options(self, entry, shape, job_name, log_dir):
        return self.directives(entry, shape, job_name, log_dir) + entry["directives"]

    @classmethod
    def check_more(cls, entry):
        where = f"glidein_entries.{entry['name']}"
        problems = []
        if entry["constraint"] and re.search(r"[\[\]]", entry["constraint"]):
            expected = "the expression within select[...], without brackets"
            problems.append(invalid(f"{where}.constraint", entry["constraint"], expected))
        form = entry["resources"].get("gpus", cls.resources["gpus"].default)
        for name, shape in sorted(entry["shapes"].items()):
            kind = shape["gpu_type"]
            if kind and (form != "gpu" or not _GPU_TYPE.match(kind)):
                expected = (
                    "letters, digits and _ . - for gmodel= of -gpu; with another resources.gpus, state it as constraint"
                )
                problems.append(invalid(f"{where}.shapes.{name}.gpu_type", kind, expected))
        return problems

    # -- scripts -----------------------------------------------------------------------------------------------

    def directives(self, entry, shape, job_name, log_dir):
        if not _LOG_DIR.match(log_dir):
            raise InputError(
                f"glidein_log_dir: {log_dir!r} is invalid for a #BSUB line; expected an absolute path of letters, "
                "digits and _ . / + @ , = ~ -"
            )
        lines = [f"-J {job_name}"]
        if entry["queue"]:
            lines.append(f"-q {entry['queue']}")
        if entry["account"]:
            lines.append(f"-P {entry['account']}")
        minutes = -(-entry["walltime_s"] // 60)
        lines += [*self._requests(entry, shape), f"-W {minutes // 60}:{minutes % 60:02d}"]
        # LSF's own report, with the reason of the end (such as TERM_MEMLIMIT). Without -o, LSF would send it by mail.
        # %I is 0 without an array. Not .out: that is the glidein's log.
        lines.append(f'-o "{log_dir}/{job_name}.%J.%I.err"')
        return lines

    def blahp_options(self, entry, shape, job_name):
        return [*entry["directives"], f"-J {job_name}", *self._requests(entry, shape)]

    def _requests(self, entry, shape):
        """Return the options for cores, memory, disk, GPUs and whole nodes."""
        # Only one -R: Volclava refuses a second one.
        lines = [f"-n {shape['cpus']}", f'-R "{self._requirement(entry, shape)}"']
        limit = self._memory_limit(entry, shape)
        if limit:
            lines.append(f"-M {limit}")
        if shape["gpus"] and self.requested_as(entry, "gpus") == "gpu":
            kind = f":gmodel={shape['gpu_type']}" if shape["gpu_type"] else ""
            lines.append(f'-gpu "num={shape["gpus"]}{kind}:mode=shared:j_exclusive=yes"')
        if shape["whole_node"] and self.requested_as(entry, "whole_node") == "exclusive":
            lines.append("-x")
        return lines

    def _requirement(self, entry, shape):
        """Return the resource requirement string."""
        usage = []
        memory = self.requested_as(entry, "memory")
        unit = self.requested_as(entry, "memory_unit")
        # If LSF_UNIT_FOR_LIMITS is not set, limits are in KB, but rusage is in MB.
        unit = "MB" if unit in ("KB", "none") else unit
        if memory != "none":
            # Rounded up, so that the job never gets less than the glidein offers.
            mb = shape["memory_mb"] if memory == "job" else -(-shape["memory_mb"] // shape["cpus"])
            usage.append(f"mem={_amount(mb, unit)}")
        if self.requested_as(entry, "disk") == "tmp":
            usage.append(f"tmp={_amount(shape['disk_mb'], unit)}")
        if shape["gpus"] and self.requested_as(entry, "gpus") == "ngpus_physical":
            usage.append(f"ngpus_physical={shape['gpus']}")
        parts = []
        if entry["constraint"]:
            parts.append(f"select[{entry['constraint']}]")
        if usage:
            parts.append(f"rusage[{':'.join(usage)}]")
        return " ".join(parts + ["span[hosts=1]"])

    def _memory_limit(self, entry, shape):
        """Return the value of -M, or None without memory_unit: then the unit of the cluster is unknown."""
        unit = self.requested_as(entry, "memory_unit")
        if unit == "none" or self.requested_as(entry, "memory") == "none":
            return None
        return _amount(shape["memory_mb"], unit)

    # -- submitting --------------------------------------------------------------------------------------------

    def submit(self, path, job_name, tasks):
        # Before the submission, so that a failure here has no effect.
        argv = self.argv["lsid"]
        if self._product is None:
            self._product = self.runner.run(argv)
        why_not = next((text for product, text in _WITHOUT_GPU if product.search(self._product)), None)
        if why_not:
            with open(path, "rb") as script:
                if _GPU_DIRECTIVE.search(script.read()):
                    raise CommandError(
                        f"nothing was submitted: {why_not}; set resources.gpus of the entry to ngpus_physical or none.",
                        argv,
                    )
        return super().submit(path, job_name, tasks)

    def largest_array(self):
        # Volclava makes one plain job of a larger array.
        if self._parameters is None:
            try:
                self._parameters = self.runner.run(self.argv["bparams"] + ["-l"])
            except CommandTimeoutError:
                raise
            except CommandError:
                self._parameters = ""  # bsub then refuses an array that is too large
        match = _LARGEST_ARRAY.search(self._parameters)
        return max(1, int(match.group(1))) if match else None

    def submit_argv(self, path, job_name, tasks):
        # -rn: never rerun, in spite of the queue's configuration. Only if bsub supports this option.
        never_again = ["-rn"] if self._product is not None and _IBM.search(self._product) else []
        array = [] if tasks is None else ["-J", f"{job_name}[1-{tasks}]" if tasks > 1 else f"{job_name}[1]"]
        return self.argv["bsub"] + never_again + array

    # -- counting ----------------------------------------------------------------------------------------------

    def list_argv(self, user):
        if self._plain:
            # Wide, with seconds and start times. Every other form truncates job names or lacks the year or the seconds.
            return self.argv["bjobs"] + ["-u", user, "-W"]
        return self.argv["bjobs"] + ["-u", user, "-o", " ".join(_FIELDS), "-json"]

    def jobs(self, user):
        if not self._plain:
            try:
                return super().jobs(user)
            except CommandTimeoutError:
                raise
            except CommandError as error:
                if error.rc is None:
                    raise
                # Older versions do not support the options or the fields. With -json, Volclava fails in the same way
                # without jobs and without an answer. The plain form distinguishes them.
                self._plain = True
        jobs = super().jobs(user)
        if not any(job.state == QUEUED for job in jobs):
            return jobs
        reasons = self._pending_reasons(user)
        return [_with_reason(job, reasons.get(job.submission, "")) for job in jobs]

    def means_no_jobs(self, rc, stdout, stderr):
        return bool(_NO_JOB.search(stderr)) and not _HEADER.search(stdout) and '"RECORDS"' not in stdout

    def parse_list(self, stdout, user):
        header = _HEADER.search(stdout)
        if header:
            return self.readable(stdout[header.end() :].splitlines(), self._parse_wide)
        try:
            document = find_json(stdout, lambda value: isinstance(value, dict) and {"RECORDS", "JOBS"} <= set(value))
            records, count = document["RECORDS"], int(document["JOBS"])
        except (ValueError, TypeError):
            raise self.output_error("bjobs's output", stdout) from None
        if not isinstance(records, list) or count != len(records):
            raise self.output_error("bjobs's JSON: the number of RECORDS is not that of JOBS", stdout)
        if not all(isinstance(record, dict) and "JOB_NAME" in record for record in records):
            raise self.output_error("bjobs's JSON: a record without JOB_NAME", stdout)
        return self.readable(records, self._parse_record)

    def _parse_record(self, record):
        if not all(isinstance(value, str) for value in record.values()):
            raise self.output_error("a record of bjobs's JSON", repr(record))
        try:
            values = [record[field.upper()].strip() for field in _FIELDS]
        except KeyError:
            raise self.output_error("a record of bjobs's JSON", repr(record)) from None
        match = _JOB_ID.match(values[0])
        if not match or (values[1] and not values[1].isdigit()):
            raise self.output_error("a job id in bjobs's JSON", repr(record))
        return self._job(match.group(1), match.group(2) or values[1], *values[2:], text=repr(record))

    def _parse_wide(self, line):
        match = _WIDE.match(line)
        if not match:
            raise self.output_error("a line of bjobs's output", line)
        host, unused, name = match.group("host_and_name").partition(" ")
        if not name.strip() or (match.group("stat") in _NOT_STARTED and host != "-"):
            name = match.group("host_and_name")
        number, stat, submitted, started = match.group("id", "stat", "submitted", "started")
        return self._job(number, "", stat, name.strip(), submitted, started, "", text=line, one_by_one=True)

    def _job(self, number, index, stat, name, submitted, started, reason, text, one_by_one=False):
        """Return a Job, or None for one that has ended.

        number, index: of the array; text: for messages; one_by_one: whether the list has a line for each element of an
        array. Then a name with several indexes is one plain job: Volclava makes one of an array that is larger than
        MAX_JOB_ARRAY_SIZE.
        """
        is_known = stat in STATES
        state = STATES.get(stat, QUEUED)
        if state is None:
            return None
        if _CUT.match(name):
            raise self.output_error("a job's name in bjobs's output, which is truncated", text, number)
        element = _ELEMENT.match(name)
        if element:
            name, in_name = element.groups()
            if index not in ("", "0", in_name):
                raise self.output_error("an array index in bjobs's output", text, number)
            index = in_name
        elif _SEVERAL.search(name):
            if index in ("", "0") and not one_by_one:
                raise self.output_error(
                    "an array in bjobs's output, of which the elements are not listed", text, number
                )
            name = _SEVERAL.sub("", name)
        has_started = is_known and stat not in _NOT_STARTED
        now_s = self.now()
        try:
            submitted_s = epoch_of_words(submitted, now_s)
            started_s = epoch_of_words(started, now_s) if has_started and started not in ("", "-") else None
        except ValueError:
            raise self.output_error("a time in bjobs's output", text, number) from None
        why = _sentence(reason) if is_known else unknown_state(stat)
        never_starts = state == QUEUED and bool(_NEVER_STARTS.search(why))
        if never_starts:
            state = SICK
        elif state == SICK:
            why = f"{stat}: {why}" if why else stat
        job_id = number if index in ("", "0") else f"{number}[{index}]"
        cancellable = is_known and not has_started
        return Job(job_id, number, name, state, cancellable, why, submitted_s, started_s, never_starts)

    def _pending_reasons(self, user):
        """Return {submission: reason why its first pending job does not start}. This list truncates job names."""
        argv = self.argv["bjobs"] + ["-u", user, "-p"]
        try:
            stdout, stderr = self.runner.outputs(argv)
        except CommandError as error:
            stdout, stderr = error.stdout, error.stderr
            if error.rc is None or not _NONE_PENDING.search(stderr):
                raise
        header = _HEADER.search(self.complete_output(stdout, argv))
        if not header and _NONE_PENDING.search(stderr):
            return {}
        if not header:
            raise self.output_error("the output of bjobs -p", stdout)
        reasons = {}
        number = ""
        for line in stdout[header.end() :].splitlines():
            if line[:1].isdigit():
                number = line.split(None, 1)[0]
                if number in reasons:
                    number = ""  # a later element of the same array
                else:
                    reasons[number] = []
            elif line[:1] in (" ", "\t") and number:
                reasons[number].append(line.strip())
        return {number: " ".join(lines) for number, lines in reasons.items()}


def _amount(mb, unit):
    """Return MiB in a unit of LSF, rounded up. explicit: with the unit after the number, which LSF 10.1 supports."""
    if unit == "explicit":
        return f"{mb}MB"
    if unit == "KB":
        return str(mb * 1024)
    return str(mb if unit == "MB" else -(-mb // 1024))


def _with_reason(job, text):
    """Return a Job with the reason why it waits. With some reasons, its state is sick."""
    why = _sentence(text)
    if job.state != QUEUED or not job.cancellable or not why:
        return job
    never_starts = bool(_NEVER_STARTS.search(why))
    return job._replace(reason=why, state=SICK if never_starts else QUEUED, never_starts=never_starts)


def _sentence(reason):
    return " ".join(reason.split()).rstrip(";").rstrip()
