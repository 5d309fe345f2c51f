# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of PyGlidein's client configuration to the inventory's variables. Controller only.

docs/migration-from-pyglidein.md has the table of all options. Source: pyglidein/client.py, submit.py, config.py,
glidein_start.sh and etc/client_defaults.cfg of PyGlidein 1.1.23.
"""

import os
import re
from collections import namedtuple
from urllib.parse import urlparse

from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.config_file import Option
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.entries import Entries
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.options import (
    GLIDEIN_VARIABLES,
    REPLACED,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.settings import literal
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.submit import COMMANDS
from ansible_collections.glidein.ops.plugins.module_utils.names import NAME_RULE, is_name

# The result of `convert`. site, collector, demand_url: text; scheduler: glidein_scheduler; user: text or None; options:
# glidein_scheduler_options; order: glidein_order or None; entries: {name: entry}; warnings: [text].
Client = namedtuple(
    "Client", ["site", "scheduler", "user", "options", "entries", "collector", "demand_url", "order", "warnings"]
)

_ADDRESS = "http://glidein-simprod.icecube.wisc.edu:11001/jsonrpc"
_SCHEDULERS = {"htcondor": "htcondor", "slurm": "slurm", "uge": "uge", "sge": "sge", "lsf": "lsf"}
_SCHEDULER_RULE = "HTCondor, PBS, SLURM, UGE, SGE or LSF"
_USER = re.compile(r"^[a-z_][a-z0-9_-]*\Z")
_PRIORITIES = {"cpus", "memory", "disk", "gpus", "count"}


def convert(config, pbs="torque", site=None, check_entry=None):
    """Return the Client of a ConfigFile. Raises InputError, with file, line and option.

    pbs: glidein_scheduler for PyGlidein's PBS; site: replaces the site's name; check_entry: a function of
    glidein_scheduler, an entry's name and the entry that returns the batch system's errors for it.
    """
    return _Site(config, pbs, site, check_entry or (lambda *unused: [])).client()


def secret_warnings(secrets):
    """Return a warning for each option of a parsed secrets file. They never contain a value."""
    names = [option for options in secrets.sections.values() for option in options.values() if option.value]
    return [f"{secrets.where(option)}: not used, and not shown; no logs are sent to S3" for option in names]


class _Site(Entries):
    """The options of one file, and the site that they make."""

    def __init__(self, config, pbs, site, check_entry):
        super().__init__(config, check_entry)
        self.pbs = pbs
        self.given_site = site

    def client(self):
        """Return the Client. Raises InputError."""
        partitions = self.partitions()
        self.note_repeated(partitions)
        self.note_unconverted(partitions)
        scheduler = self.scheduler()
        self.stop()
        environment = self.custom_environment()
        entries, orders, commands = {}, [], []
        for name in partitions:
            settings = dict(self.sections["Cluster"], **self.sections.get(name, {}) if name != "Cluster" else {})
            submit, sources = self.submit_options(scheduler, settings)
            entries[name] = self.entry(scheduler, name, settings, submit, sources, environment)
            orders.append(self.order(settings.get("prioritize_jobs")))
            commands.append(submit.command)
        self.stop()
        for name, entry in entries.items():
            where = f"{self.config.name}, partition {name}"
            self.problems += [f"{where}: {problem}" for problem in self.check_entry(scheduler, name, entry)]
        client = Client(
            site=self.site(),
            scheduler=scheduler,
            user=self.user(),
            options=self.scheduler_options(scheduler, commands),
            entries=entries,
            collector=self.collector(),
            demand_url=self.demand_url(),
            order=self.common_order(orders),
            warnings=[],
        )
        self.problems += _templates(client)
        self.stop()
        return client._replace(warnings=self.warnings())

    def partitions(self):
        """Return the names of the partitions."""
        option = self.sections["Cluster"].get("partitions")
        if option is None:
            return ["Cluster"]
        names = [name.strip() for name in option.value.split(",") if name.strip()]
        flat = not self.config.headers
        for name in names:
            if not is_name(name):
                self.problem(option, f"names separated by commas, each of {NAME_RULE}")
            elif name not in self.config.headers and not flat:
                self.problem(option, f"a section [{name}] in the file, or another name")
        if not names:
            self.problem(option, "names of sections, separated by commas")
        self.stop()
        return list(dict.fromkeys(names))

    def scheduler(self):
        """Return glidein_scheduler."""
        option = self.sections["Cluster"].get("scheduler")
        if option is None:
            self.problems.append(f"{self.config.name}: [Cluster] scheduler: missing; expected {_SCHEDULER_RULE}")
            return ""
        name = dict(_SCHEDULERS, pbs=self.pbs).get(option.value.strip().lower())
        if name is None:
            self.problem(option, _SCHEDULER_RULE)
        return name or ""

    def site(self):
        """Return glidein_site."""
        option = self.sections.get("Glidein", {}).get("site")
        name = self.given_site or self.text("CustomEnv", "SITE") or (option.value.strip() if option else "")
        if not name:
            # PyGlidein's default is WIPAC, which two sites would share.
            stem = os.path.basename(self.config.name).split(".")[0]
            name = re.sub(r"[^A-Za-z0-9_-]|^[^A-Za-z0-9]+", "", stem) or "site"
            self.note(Option("Glidein", "site", "", 1), f"missing; the site's name is that of the file: {name}")
        if not is_name(name):
            expected = f"{NAME_RULE}; `site` of the inventory file replaces it"
            self.problems.append(f"{self.config.name}: [Glidein] site: {name!r} is invalid; expected {expected}")
        return name

    def user(self):
        """Return the account on the login node, or None."""
        option = self.sections["Cluster"].get("user")
        if option is None or option.value.strip() in ("", "$USER", "${USER}"):
            return None
        if not _USER.match(option.value.strip()):
            self.note(option, "not converted: it is not the name of an account; set ansible_user")
            return None
        return option.value.strip()

    def demand_url(self):
        """Return glidein_demand_url."""
        option = self.sections.get("Glidein", {}).get("address") or Option("Glidein", "address", _ADDRESS, 0)
        url = re.sub(r"/+(jsonrpc/*)?\Z", "", option.value.strip())
        parts = urlparse(url)
        if "@" in url:
            option = option._replace(value="(not shown: it contains an @)")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in url:
            self.problem(option, "http://HOST:PORT/jsonrpc, without user and password")
        return url

    def scheduler_options(self, scheduler, commands):
        """Return glidein_scheduler_options. commands: the words of each partition's submit command, or None."""
        different = {tuple(command) for command in commands if command}
        if len(different) > 1:
            option = self.sections["Cluster"].get("scheduler")
            self.note(option, "the partitions have different submit commands; the first is used for all")
        command = next((command for command in commands if command), None)
        return {"commands": {COMMANDS[scheduler][0]: command}} if command else {}

    def order(self, option):
        """Return prioritize_jobs as glidein_order, or None."""
        if option is None:
            return None
        names = literal(option.value)
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            self.problem(option, 'a list such as ["gpus", "memory"]')
            return None
        # PyGlidein's default names "gpu", which no job group has, so that it has no effect there.
        names = ["gpus" if name == "gpu" else name for name in names]
        if {name.lstrip("-") for name in names} - _PRIORITIES:
            self.problem(option, f"names of {', '.join(sorted(_PRIORITIES))}, or -NAME")
            return None
        return names

    def common_order(self, orders):
        """Return glidein_order: the first value of all partitions."""
        given = [order for order in orders if order]
        if any(order != given[0] for order in given):
            options = [options["prioritize_jobs"] for options in self.sections.values() if "prioritize_jobs" in options]
            self.note(options[0], "the partitions have different values; glidein_order is that of the first")
        return given[0] if given else None

    def custom_environment(self):
        """Return the variables of [CustomEnv] for glidein_environment."""
        options = self.sections.get("CustomEnv", {})
        own = (*GLIDEIN_VARIABLES, *REPLACED["CustomEnv"])
        found = {name: option.value for name, option in options.items() if name not in own}
        return self.checked_environment(found, options)


def _templates(value, where=""):
    """Return an error for each text that Ansible would evaluate as a template."""
    if isinstance(value, str):
        found = any(mark in value for mark in ("{{", "{%", "{#"))
        text = f"{where}: {value[:80]!r} contains {{{{, {{% or {{#, which Ansible would read as a template"
        return [text] if found else []
    if isinstance(value, Client):
        value = value._asdict()
    if isinstance(value, dict):
        return [problem for key in value for problem in _templates(value[key], f"{where}.{key}".strip("."))]
    if isinstance(value, list):
        return [problem for item in value for problem in _templates(item, where)]
    return []
