# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTCondor-CE: a site's own gateway, to which the access point sends glideins as grid jobs (Condor-C).

The routes of the CE make batch jobs of them. Sources: configuration and documentation of HTCondor-CE 25; the manual's
page of the grid universe; HTCondor's gridmanager and authentication by SciTokens; tests with HTCondor 23.9.6.
"""

import contextlib
import os
import re
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, SICK
from ansible_collections.glidein.ops.plugins.module_utils.batch.capabilities import NO_CREDENTIALS, Credentials
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.commands import SANDBOX_MB
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.grid_universe import GridUniverse
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandStoppedError,
    GlideinError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import expires, utc
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ARGUMENT_LIST,
    Type,
    duration,
    invalid,
    missing,
    text,
)

_CE_RULE = "HOST or HOST:PORT of the CE's collector, such as ce.example.org:9619"
_PORT = 9619
_ADDRESS = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(:[0-9]{1,5})?\Z")
_SCHEDD = text(
    re.compile(r"^[A-Za-z0-9][A-Za-z0-9@._-]*\Z"), "the name of the CE's schedd, as condor_status -schedd lists it"
)
_FILE = text(re.compile(r"^~?(/[A-Za-z0-9._+@%=-]+)+\Z"), "a path that begins with / or ~/")
_ATTRIBUTE = re.compile(r"^(?P<mark>\+|MY\.)(?P<remote>remote_)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=", re.IGNORECASE)
# Attributes that other keys of an entry set. Compared in lower case without underscores.
_KEYS = {
    "maxmemory": "memory_mb of a shape",
    "xcount": "cpus of a shape",
    "maxwalltime": "walltime",
    "batchruntime": "walltime",
    "queue": "queue",
    "batchqueue": "queue",
    "batchproject": "account",
    "wantwholenode": "whole_node of a shape",
}
# The job's id at the CE.
_REMOTE_ID = "GridJobId"
# The access point reports nothing if the CE refuses the token. Hundreds of glideins take some minutes.
_MAX_ACCEPTANCE_S = 1800
_OWN = ("glideinjobname", "gridresource", "scitokensfile", "requirements", "owner")

# HTCondor finds the IDTOKENs of a user in a directory of this name by itself.
_IDTOKEN_DIRECTORY = "tokens.d"
# A token of a command is renewed when less than this is left, or less than half of its life.
_MIN_LEFT_S = 900
# A token that is used now must be valid at least for this time: clocks differ, and a submission takes a while.
_MARGIN_S = 60
_TOKEN = re.compile(r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\Z")
_TOKEN_IN_TEXT = re.compile(r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(\.[A-Za-z0-9_-]*)?")


def _address(value):
    match = _ADDRESS.match(value) if isinstance(value, str) else None
    if not match:
        raise ValueError(value)
    return value if match.group(2) else f"{value}:{_PORT}"


class HTCondorCE(Credentials, GridUniverse):
    """An HTCondor-CE through the access point's condor_submit, condor_q and condor_rm."""

    name = "htcondor_ce"
    remote = "CE"
    job_attributes = (*GridUniverse.job_attributes, _REMOTE_ID)
    more_options = {
        "ce": {"type": Type(_CE_RULE, _address), "variable": "glidein_ce"},
        "schedd": {"type": _SCHEDD},
        "token_file": {"type": _FILE, "variable": "glidein_ce_token_file"},
        "token_command": {"type": ARGUMENT_LIST, "variable": "glidein_ce_token_command"},
        "queue_wait": {"type": duration(0), "default": 3 * 86400, "variable": "glidein_queue_wait"},
    }
    held_because = "Its files could not be transferred, or the CE refused the token, which does not end the glidein."
    releasable = f'(({GridUniverse.releasable}) || regexp("^Error connecting to schedd", HoldReason ?: ""))'
    grace_s = 30  # that of Slurm: the batch system of the CE is unknown

    def __init__(self, runner, options):
        super().__init__(runner, options)
        path = options["token_file"]
        self.token = path and CEToken(os.path.expanduser(path), options["token_command"], runner)
        # The outcome of the renewal, which is attempted once.
        self._renewal = None

    # -- checks of an entry --------------------------------------------------------------------------------------

    @classmethod
    def check_entries(cls, entries, options):
        problems = []
        if not options["ce"]:
            problems.append(missing("glidein_ce", _CE_RULE))
        if options["token_command"] and not options["token_file"]:
            expected = "the path on the submitting host for the token that glidein_ce_token_command prints"
            problems.append(missing("glidein_ce_token_file", expected))
        return problems + super().check_entries(entries, options)

    @classmethod
    def directive_problem(cls, where, directive):
        match = _ATTRIBUTE.match(directive)
        if not match:
            return invalid(where, directive, "+Attribute = value: a CE reads attributes of the job")
        key = match.group("name").lower().replace("_", "")
        if key in _KEYS:
            return invalid(where, directive, f"another attribute: use {_KEYS[key]}")
        if key in _OWN:
            return invalid(where, directive, "an attribute that neither the collection nor the CE sets")
        # The prefix remote_ is removed on the way to the CE.
        return super().directive_problem(where, directive.replace(match.group("remote") or "", "", 1))

    @classmethod
    def check_more(cls, entry):
        where = f"glidein_entries.{entry['name']}"
        parts = [("constraint", entry["constraint"])]
        parts += [(f"shapes.{name}.gpu_type", shape["gpu_type"]) for name, shape in sorted(entry["shapes"].items())]
        expected = "no value: a CE cannot be asked for it. Use a queue or directives that the CE's site has documented"
        return [invalid(f"{where}.{key}", value, expected) for key, value in parts if value]

    # -- scripts -----------------------------------------------------------------------------------------------

    def target(self, payload):
        collector = self.options["ce"]
        schedd = self.options["schedd"] or collector.partition(":")[0]
        lines = [f"grid_resource = condor {schedd} {collector}", "+remote_JobUniverse = 5"]
        if self.token and not self.token.is_idtoken:
            lines += ["use_scitokens = true", f"scitokens_file = {self.token.path}"]
        return lines

    def requests(self, entry, shape, job_name):
        # For a CE whose batch system is HTCondor.
        lines = [f"request_disk = {(shape['disk_mb'] + SANDBOX_MB) * 1024}", *self.routed_requests(entry, shape)]
        if entry["account"]:
            lines.append(f"+BatchProject = {classad_literal(entry['account'])}")
        if shape["whole_node"]:
            lines.append("+WantWholeNode = true")
        return lines

    def encrypted(self, secrets):
        # A CE whose batch system is HTCondor transfers them again, by the names that they have there.
        return [*secrets, *map(os.path.basename, secrets)]

    # -- counting ------------------------------------------------------------------------------------------------

    def _parse_ad(self, ad):
        job = super()._parse_ad(ad)
        if not job or job.state != QUEUED or _REMOTE_ID in ad or time.time() - job.submitted <= _MAX_ACCEPTANCE_S:
            return job
        reason = f"the CE has not accepted it since {utc(job.submitted)}: it may refuse the token"
        return job._replace(state=SICK, reason=reason)

    # -- the token -----------------------------------------------------------------------------------------------

    def access(self, walltime_s):
        if not self.token:
            return NO_CREDENTIALS
        now_s = time.time()
        if self.token.is_due(now_s):
            return {"due": True, "valid": True, "problems": []}
        problem = self.token.problem(now_s, self.options["queue_wait"] + walltime_s)
        return {"due": False, "valid": not self.token.problem(now_s), "problems": [problem] if problem else []}

    def renew(self):
        if self._renewal is None:
            self._renewal = self._renewed()
        error, warning = self._renewal
        if error:
            raise GlideinError(error)
        return warning

    def _renewed(self):
        """Renew the token if it is due; return (error, warning), each a text or None."""
        if not self.token:
            return None, None
        failure = None
        if self.token.is_due(time.time()):
            try:
                self.token.renew()
            except GlideinError as error:
                failure = str(error)
        problem = self.token.problem(time.time())
        if problem:
            return f"{failure} {problem}" if failure else problem, None
        return None, failure

    def remote_argv(self, command):
        if not self.token or self.token.is_idtoken:
            return self.argv[command]
        # Only needed if the CE or the pool's configuration forbids anonymous reading.
        return ["env", f"_CONDOR_SCITOKENS_FILE={self.token.path}", *self.argv[command]]

    # -- submitting and cancelling -------------------------------------------------------------------------------

    def check_schedd(self, schedd, collector):
        self.renew()
        argv = [*self.remote_argv("condor_status"), "-pool", collector, "-schedd", "-af", "Name"]
        try:
            printed = self.runner.run(argv)
        except CommandError as error:
            raise GlideinError(
                f"The CE {collector} (glidein_ce) does not answer, and nothing is submitted: {error}"
            ) from error
        names = sorted(set(printed.split()))
        if schedd not in names:
            found = f"lists no schedd but {', '.join(names)}" if names else "lists no schedd"
            raise GlideinError(
                f"The CE {collector} (glidein_ce) {found}; expected {schedd}. Nothing is submitted. If the CE's schedd "
                "has another name, set glidein_scheduler_options.schedd; otherwise the CE is stopped."
            )

    def cancel(self, user, ids, running=False):
        # Without a valid token, the access point removes the jobs at the CE later.
        with contextlib.suppress(GlideinError):
            self.renew()
        return super().cancel(user, ids, running)


class CEToken:
    """The file of a CE's token (a SciToken or an IDTOKEN) on the submitting host, and the command that renews it.

    No method returns the token or a part of it in a message: it is a secret.

    path: absolute; command: an argument list that prints a token, or None; runner: command.Runner.
    """

    def __init__(self, path, command, runner):
        self.path = path
        self.command = command
        self.runner = runner

    @property
    def is_idtoken(self):
        """Return whether HTCondor finds the token by itself."""
        return os.path.basename(os.path.dirname(self.path)) == _IDTOKEN_DIRECTORY

    def is_due(self, now_s):
        """Return whether the command must renew the token now."""
        if not self.command:
            return False
        end = self._read()[0]
        try:
            life_s = 0 if end is None else end - os.stat(self.path).st_mtime
        except OSError:
            life_s = 0
        return end is None or end - now_s < max(_MIN_LEFT_S, life_s / 2)

    def renew(self):
        """Run the command and replace the token in the file. Raises GlideinError."""
        where = f"glidein_ce_token_command: {quote_argv(self.command)}"
        # Not the error of the runner: it contains the output, which may contain a token.
        try:
            text = self.runner.run(self.command).strip()
        except CommandStoppedError as error:
            raise GlideinError(f"{where} did not end within {self.runner.timeout_s} s and was stopped.") from error
        except CommandError as error:
            reason = excerpt(_TOKEN_IN_TEXT.sub("(token)", error.stderr)) or "no error message"
            status = "could not be started" if error.rc is None else f"failed with exit status {error.rc}: {reason}"
            raise GlideinError(f"{where} {status}. Run it on this host to find the cause.") from None
        if not _TOKEN.match(text):
            raise GlideinError(
                f"{where} printed {len(text)} characters that are not a token; expected only a JSON Web Token: three "
                "parts with dots between them."
            )
        end = expires(text)
        if end is None or end < time.time() + _MARGIN_S:
            until = "without an expiry time" if end is None else f"that expires at {utc(end)}"
            raise GlideinError(f"{where} printed a token {until}; expected one that is valid for some time.")
        try:
            write_atomically(self.path, text + "\n")
        except OSError as error:
            raise GlideinError(
                f"glidein_ce_token_file: {self.path} cannot be written on this host: {error.strerror}."
            ) from error

    def problem(self, now_s, needed_s=0):
        """Return why the token cannot be used, or not for needed_s more seconds; None if it can."""
        end, error = self._read()
        where = f"glidein_ce_token_file: {self.path}"
        if error:
            return f"{where} {error}. {self._remedy()}"
        if end <= now_s + _MARGIN_S:
            return f"{where}: the token of the CE expired at {utc(end)}. {self._remedy()}"
        # The command renews it while it is needed.
        if not self.command and end < now_s + needed_s:
            return (
                f"{where}: the token of the CE expires at {utc(end)}, but a glidein may need it for {int(needed_s)} s: "
                f"glidein_queue_wait and the longest walltime of the entries. {self._remedy()}"
            )
        return None

    def _remedy(self):
        if self.command:
            return f"glidein.ops.cycle renews it with {quote_argv(self.command)}."
        return "Store a new token there, or set glidein_ce_token_command to a command that prints one."

    def _read(self):
        """Return (the expiry time of the token in epoch seconds, None), or (None, the reason why it cannot be read)."""
        try:
            with open(self.path, encoding="utf-8", errors="replace") as handle:
                end = expires(handle.read())
        except OSError as error:
            return None, f"cannot be read on this host: {error.strerror}"
        return end, None if end is not None else "is not a JSON Web Token with an expiry time"
