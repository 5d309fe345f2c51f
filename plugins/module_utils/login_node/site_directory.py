# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""~/.glidein/<site> on a login node: payload versions, the credential, scripts, logs and drains."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import time

from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.drains import check_drains
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import BusyError, InputError, NotDeployedError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.login_node import submissions

# Seconds that a run waits for another one at the site, where it is not a cycle's.
PATIENCE_S = 120
# The beginning of the names of directories with versions that are being removed.
_REMOVED = "removed-"
_VERSION = re.compile(r"^[0-9a-f]{12}\Z")
# The paths that glidein.sh accepts: it writes them to condor_config and to LD_LIBRARY_PATH.
_PATH = re.compile(r"^/[A-Za-z0-9 /._,+@%=~-]*\Z")


class SiteDirectory:
    """The directory of one site below `home` (default ~/.glidein)."""

    def __init__(self, home, site, log_dir=None):
        """log_dir: directory for the logs of batch jobs and glideins; default `log` in the site's directory."""
        self.site = site
        self.path = os.path.join(_checked_path("home", home), site)
        self.log_dir = _checked_path("log_dir", log_dir) if log_dir else os.path.join(self.path, "log")
        self.credential = os.path.join(self.path, "credential")
        # The signed form by which glideins upload their daemons' logs.
        self.log_form = os.path.join(self.path, "log_s3")
        self.drain_file = os.path.join(self.path, "drain.json")

    def check_owner(self, deployment):
        """Raise InputError if the directory belongs to another deployment, with its credential and versions."""
        owner = read_text(os.path.join(self.path, "deployment")).strip()
        if owner and owner != deployment:
            raise InputError(
                f"{self.path} belongs to the deployment {owner!r}, this is {deployment!r}. "
                "Give each deployment its own glidein_site (and glidein_demand_token). Another glidein_home alone is "
                "not enough: under one site name, both would order glideins for the same jobs."
            )

    def versions(self):
        """Return the names of the installed payload versions."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _VERSION.match(name))

    def version_dir(self, version):
        """Return the absolute directory of a version."""
        return os.path.join(self.path, version)

    def current(self):
        """Return the name of the current version, or None."""
        try:
            version = os.path.basename(os.readlink(os.path.join(self.path, "current")).rstrip("/"))
        except OSError:
            return None
        return version if version in self.versions() else None

    def htcondor_builds(self):
        """Return HTCondor's (version, platform) in the tarballs of the current version, sorted, each once."""
        current = self.current()
        text = read_text(os.path.join(self.version_dir(current), "tarballs.list")) if current else ""
        lines = [line.split() for line in text.splitlines()]
        return sorted({(fields[3], fields[4]) for fields in lines if len(fields) == 7})

    def records(self):
        """Return {version: lines of its submissions.jsonl}."""
        return {version: submissions.read(self.version_dir(version)) for version in self.versions()}

    def deployed(self, token):
        """Return the current version's directory. token: whether a credential file is required.

        Raises NotDeployedError.
        """
        remedy = "Run the playbook glidein.ops.deploy for this host first."
        current = self.current()
        if current is None:
            raise NotDeployedError(
                f"{self.path}/current on this login node is not a link to a payload version. {remedy}"
            )
        needed = [os.path.join(self.version_dir(current), "glidein.sh")] + ([self.credential] if token else [])
        for path in needed:
            if not os.path.isfile(path):
                raise NotDeployedError(f"{path} is missing on this login node. {remedy}")
        return self.version_dir(current)

    def files(self):
        """Return {"deployed": whether a current version exists, "credential": whether the credential file exists}."""
        try:
            self.deployed(False)
        except NotDeployedError:
            return {"deployed": False, "credential": os.path.isfile(self.credential)}
        return {"deployed": True, "credential": os.path.isfile(self.credential)}

    def replace_log_form(self, text):
        """Write the signed form for uploads; without a text, remove it. Raises InputError."""
        try:
            if text:
                write_atomically(self.log_form, text)
            elif os.path.exists(self.log_form):
                os.unlink(self.log_form)
        except OSError as error:
            raise InputError(f"{self.log_form} cannot be written on the login node: {error.strerror}") from error

    def read_drains(self):
        """Return the drains of the site; [] without the file.

        Raises InputError for a file that cannot be read: the site may be drained, so nothing must be submitted.
        """
        path = self.drain_file
        try:
            with open(path, encoding="utf-8") as handle:
                content = json.load(handle)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}. {_remedy(path)}") from error
        try:
            return check_drains("drains", content.get("drains") if isinstance(content, dict) else None)
        except InputError as error:
            raise InputError(f"{path}: {error}. {_remedy(path)}") from error

    def write_drains(self, drains):
        """Write the drains of the site; without any, remove the file."""
        if drains:
            write_atomically(self.drain_file, json.dumps({"drains": drains}, indent=2, sort_keys=True) + "\n")
        elif os.path.exists(self.drain_file):
            os.unlink(self.drain_file)

    @contextlib.contextmanager
    def lock(self, patience_s=0, check_mode=False):
        """Lock the site against other runs until the context ends. In check mode, nothing is created and locked.

        Raises BusyError if another run still holds the lock after patience_s seconds, NotDeployedError without a site
        directory. On a file system that does not support locks, nothing is locked.
        """
        if check_mode:
            yield
            return
        path = os.path.join(self.path, ".lock")
        deadline = time.time() + patience_s
        try:
            handle = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w")
        except OSError as error:
            raise NotDeployedError(
                f"{path} cannot be written on this login node: {error.strerror}. "
                "Run the playbook glidein.ops.deploy for this host first."
            ) from error
        with handle:
            while not _try_lock(handle):
                if time.time() >= deadline:
                    raise BusyError(
                        f"Another run is changing the glideins of {self.site} now ({path} is locked). "
                        "Nothing was changed."
                    )
                time.sleep(1)
            yield

    def remove_version(self, version):
        """Remove a payload version. It is renamed first, so that no glidein finds an incomplete version."""
        doomed = tempfile.mkdtemp(prefix=_REMOVED, dir=self.path)
        os.rename(self.version_dir(version), os.path.join(doomed, version))
        shutil.rmtree(doomed)


def _checked_path(option, value):
    """Return an absolute path, ~ replaced. Raises InputError."""
    path = os.path.abspath(os.path.expanduser(value))
    if not _PATH.match(path):
        raise InputError(invalid(option, value, "a path of letters, digits, blanks, /._,+@%=~-"))
    return path


def _try_lock(handle):
    """Return whether this process holds the lock now, or the file system does not support locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def version_usage(records, current, jobs_of_deployment):
    """Return {version: {"in_use": bool, "current": bool}}.

    records: SiteDirectory.records(); current: name or None; jobs_of_deployment: all Jobs of the deployment in the
    queue.
    """
    ids = {job.submission for job in jobs_of_deployment}
    return {
        version: {
            "in_use": version == current or submissions.in_use(lines, ids, bool(jobs_of_deployment)),
            "current": version == current,
        }
        for version, lines in records.items()
    }


def recorded_names(records):
    """Return the set of all job names in SiteDirectory.records()."""
    return {line["job_name"] for lines in records.values() for line in lines if line.get("job_name")}


def read_text(path):
    """Return a file's text, or "" if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except FileNotFoundError:
        return ""


def _remedy(path):
    return f"Nothing is submitted at this site. To end its drains, remove {path} on the login node"
