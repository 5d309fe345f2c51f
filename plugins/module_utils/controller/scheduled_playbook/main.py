# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one scheduled playbook of a controller: what the systemd units and cron of the role controller start."""

import argparse
import configparser
import contextlib
import fcntl
import json
import os
import sys
import time

from ansible_collections.glidein.ops.plugins.module_utils.atomic_files import (
    make_private_directory,
    read_or_none,
    write_atomically,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.scheduled_playbook import (
    checkout,
    outcome,
    processes,
    settings,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import BusyError, InputError

_CALLBACK = "glidein.ops.play_outcome"


class ScheduledPlaybook:
    """A run of one playbook."""

    def __init__(self, configuration, name, version, arguments):
        """Raise InputError if the name is unknown.

        configuration: of settings.load; version: directory of the installed version; arguments: further ones.
        """
        if name not in configuration["playbooks"]:
            raise InputError(f"{name!r} is unknown; expected one of {', '.join(sorted(configuration['playbooks']))}")
        self._configuration = configuration
        self._name = name
        self._playbook = configuration["playbooks"][name]
        self._version = version
        self._arguments = arguments
        self._directory = os.path.join(configuration["state_dir"], name)
        self._report = os.path.join(self._directory, "report.json")
        self._outcome = os.path.join(self._directory, "outcome.json")
        self._locks = []
        make_private_directory(self._directory)

    def lock(self):
        """Lock this playbook, and the installed version against its removal. Raises BusyError or InputError."""
        flags = os.O_RDWR | os.O_CREAT
        self._locks = [self._locked(os.path.join(self._directory, "lock"), flags, fcntl.LOCK_EX | fcntl.LOCK_NB)]
        self._locks += [self._locked(self._configuration["lock"], os.O_RDONLY, fcntl.LOCK_SH)]

    def _locked(self, path, flags, operation):
        try:
            descriptor = os.open(path, flags, 0o600)
            fcntl.flock(descriptor, operation)
        except BlockingIOError as error:
            raise BusyError(
                f"The previous {self._playbook['playbook']} is still running: this one ends and changes nothing."
            ) from error
        except OSError as error:
            raise InputError(f"{path} cannot be locked: {error.strerror}. Run glidein.ops.controller again.") from error
        return descriptor

    def log_to_file(self):
        """Append this process's output to the playbook's log. Only with the lock may it be rotated."""
        path = os.path.join(self._directory, "log")
        if self._locks and os.path.getsize(path) > self._configuration["log_bytes"]:
            os.replace(path, path + ".1")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)

    def run(self):
        """Run the playbook, write its outcome, and return the exit status."""
        start_s = time.time()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._report)
        inventory = {"directory": self._configuration["inventory_dir"], "commit": None, "error": None}
        status, message = self._run(start_s, inventory)
        report = _json_or_empty(self._report)
        if report.get("busy"):
            # The cycle has reported it. Its outcome says nothing about the cycles of this schedule.
            return outcome.BUSY
        if status == 0 and inventory["error"]:
            status, message = outcome.INVENTORY, inventory["error"]
        record = outcome.record(
            self._name,
            start_s,
            time.time(),
            status,
            message,
            report,
            inventory,
            os.path.basename(self._version),
            _json_or_empty(self._outcome),
        )
        # With arguments, such as --check or a limit, a run is a person's and says nothing about the schedule.
        if not self._arguments:
            self._write(record)
        _print_now(
            f"{self._playbook['playbook']} ended with status {status} after {record['seconds']} s. {message}".rstrip()
        )
        return status

    def _run(self, start_s, inventory):
        """Return (exit status, why it did not end by itself or ""). Completes `inventory`."""
        limit_s = self._playbook["time_limit_s"]
        try:
            if self._configuration["repository"]:
                self._update(inventory)
            if inventory["directory"] is None:
                return outcome.INVENTORY, inventory["error"]
            # A link's target: an inventory that is replaced during the run does not change it.
            directory = inventory["directory"] = os.path.realpath(inventory["directory"])
            status = processes.run(
                self._argv(directory),
                self._environment(directory),
                directory,
                limit_s - (time.time() - start_s),
                tuple(self._locks),
            )
        except processes.TimeLimitError:
            return outcome.TIME_LIMIT, f"It ran longer than its time limit of {limit_s} s, and was ended."
        except processes.StoppedError as error:
            processes.end_descendants()  # also git
            return 128 + error.signum, f"It was {error}."
        except OSError as error:
            return outcome.CONFIGURATION, f"It could not be started: {error}. Run glidein.ops.controller again."
        return status, "" if status == 0 else f"ansible-playbook ended with status {status}."

    def _update(self, inventory):
        repository = self._configuration["repository"]
        git_environment = self._base_environment()
        found = checkout.updated(
            checkout.Checkout(self._directory, repository, git_environment), repository["max_age_s"]
        )
        inventory["directory"], inventory["commit"], inventory["error"] = found
        if inventory["error"]:
            _print_now(inventory["error"])

    def _argv(self, directory):
        sources = self._configuration["inventory_sources"]
        if not sources and not _ansible_cfg(directory, "inventory"):
            sources = ["."]
        command = [os.path.join(self._version, "venv", "bin", "ansible-playbook"), self._playbook["playbook"]]
        for source in sources:
            command += ["--inventory", source]
        return command + self._playbook["arguments"] + self._arguments

    def _base_environment(self):
        """Return the environment without what a person's shell may have set for Ansible, git or Python."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GIT_", "PYTHON"))
        }
        binaries = os.path.join(self._version, "venv", "bin")
        # Ansible refuses to start in cron's locale.
        kept.update(LC_ALL="C.UTF-8", PATH=f"{binaries}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
        return dict(kept, **self._configuration["environment"])

    def _environment(self, directory):
        callbacks = [_ansible_cfg(directory, "callbacks_enabled"), _CALLBACK]
        configured = {
            "ANSIBLE_CALLBACKS_ENABLED": ",".join(filter(None, callbacks)),
            "ANSIBLE_COLLECTIONS_PATH": os.path.join(self._version, "collections"),
            "ANSIBLE_HOME": os.path.join(self._configuration["state_dir"], "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            # Modules would write their arguments, such as the whole plan, to the journal of controller and login nodes.
            "ANSIBLE_NO_TARGET_SYSLOG": "1",
            "GLIDEIN_PLAY_OUTCOME": self._report,
            "PYTHONUNBUFFERED": "1",
        }
        if os.path.exists(os.path.join(directory, "ansible.cfg")):
            configured["ANSIBLE_CONFIG"] = os.path.join(directory, "ansible.cfg")
        if self._configuration["vault_password_file"]:
            configured["ANSIBLE_VAULT_PASSWORD_FILE"] = self._configuration["vault_password_file"]
        return dict(self._base_environment(), **configured)

    def _write(self, record):
        write_atomically(self._outcome, json.dumps(record, indent=2, sort_keys=True) + "\n")
        directory = self._configuration["metrics_dir"]
        if directory:
            name = f"{self._configuration['name']}-{self._name}.prom"
            write_atomically(os.path.join(directory, name), outcome.metrics(self._configuration["name"], record), 0o644)


def _ansible_cfg(directory, option):
    """Return an option of the section [defaults] of an inventory's ansible.cfg; "" without one."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(os.path.join(directory, "ansible.cfg"), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return ""  # ansible-playbook reports it
    return parser.get("defaults", option, fallback="").strip()


def _json_or_empty(path):
    """Return the object that a JSON file contains; {} for a missing or invalid file."""
    try:
        found = json.loads(read_or_none(path) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _print_now(text):
    sys.stdout.write(f"{outcome.utc(time.time())} {text}\n")
    sys.stdout.flush()


def main(argv=None):
    """Run a scheduled playbook; return the exit status."""
    os.umask(0o077)
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--config", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--version-dir", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--log", action="store_true", help="append the output to the playbook's log, as cron does")
    parser.add_argument("playbook", help="name of the scheduled playbook: cycle or deploy")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of ansible-playbook, such as --check")
    options = parser.parse_args(argv)
    try:
        scheduled = ScheduledPlaybook(
            settings.load(options.config), options.playbook, options.version_dir, options.arguments
        )
        if options.log:
            scheduled.log_to_file()
        processes.adopt_orphans()
        processes.stop_on_signals()
        scheduled.lock()
        if options.log:
            scheduled.log_to_file()
        return scheduled.run()
    except BusyError as error:
        _print_now(str(error))
        return outcome.BUSY
    except processes.StoppedError as error:
        return 128 + error.signum
    except (InputError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return outcome.CONFIGURATION


if __name__ == "__main__":
    raise SystemExit(main())
