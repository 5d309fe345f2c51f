# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway: a schedd on a cluster's login node, to which the access point sends glideins as grid jobs (Condor-C).

The gateway's schedd submits them to the cluster's batch system with HTCondor's blahp. With the option `ssh`, there is
no schedd on the login node: the access point starts blahp there by SSH. Sources: the manual's page of the grid
universe; blahp's *_submit.sh; HTCondor's remote_gahp; tests with 23.9.6 and Slurm 24.11.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch import CLUSTERS, scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.grid_universe import GridUniverse
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal, sh_quote
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    BOOLEAN,
    alternatives,
    choice,
    invalid,
    missing,
    text,
)

_OPTIONS = "glidein_scheduler_options"
_GATEWAY = text(
    re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9._-]*\Z"), "the name of a schedd, such as gateway-SITE@"
)
_COLLECTOR = text(re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?\Z"), "HOST or HOST:PORT")
# As HTCondor's remote_gahp reads it.
_SSH = text(
    re.compile(r"^([A-Za-z_][A-Za-z0-9_-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?\Z"),
    "HOST, USER@HOST or USER@HOST:PORT as the access point's ssh knows it, such as gateway-SITE",
)
_DIRECTORY = text(re.compile(r"^(~|(~?/[A-Za-z0-9._-]+)+)\Z"), "a path that begins with / or ~/")
_ABSOLUTE = text(re.compile(r"^(/[A-Za-z0-9._+-]+)+\Z"), "an absolute path")
# blahp passes these texts to a shell without quotes.
_PLAIN = re.compile(r"^[A-Za-z0-9 _.,:=/+@%-]*\Z")
_PLAIN_RULE = "letters, digits, blanks and _ . , : = / + @ % - with glidein_scheduler gateway"

# Seconds between notice and kill where the batch system is unknown: those of Slurm.
_ROUTES_GRACE_S = 30
# A gateway sends its ad each minute (SCHEDD_INTERVAL). The ad of a lost one stays in the collector for 15 minutes.
_MAX_AD_AGE_S = 300


class Gateway(GridUniverse):
    """A gateway through the access point's condor_submit, condor_q and condor_rm."""

    name = remote = "gateway"
    more_options = {
        "batch_system": {"type": choice(*CLUSTERS)},
        "routes": {"type": BOOLEAN, "default": False},
        "gateway": {"type": _GATEWAY},
        "collector": {"type": _COLLECTOR},
        "ssh": {"type": _SSH},
        "ssh_directory": {"type": _DIRECTORY},
        "shared_payload": {"type": _ABSOLUTE},
    }
    grace_s = None  # that of the batch system, or _ROUTES_GRACE_S

    def __init__(self, runner, options):
        kind = None if options["routes"] else scheduler_class(options["batch_system"])
        grace_s = kind.grace_s if kind else _ROUTES_GRACE_S
        super().__init__(runner, dict(options, grace=options["grace"] or grace_s))
        # The file transfer by SSH sends a copy with the name of the script. blahp runs it by the name of the copy.
        self.has_schedd = not options["ssh"]
        if options["shared_payload"]:
            home = f"{options['shared_payload']}/current"
            self.shell_settings = dict(self.shell_settings, GLIDEIN_HOME=sh_quote(home))
            self.call = (
                '[ -r "$GLIDEIN_HOME/glidein.sh" ] || {',
                '  echo "glidein: $GLIDEIN_HOME/glidein.sh is missing or cannot be read (exit status 11)"',
                "  exit 11",
                "}",
                'exec /bin/sh "$GLIDEIN_HOME/glidein.sh"',
            )
        # Only asked for its options: its commands are not run. None: the gateway's routes know the batch system.
        self.batch_system = kind and kind(None, dict(options, commands=kind.commands))

    # -- checks of an entry --------------------------------------------------------------------------------------

    @classmethod
    def check_entries(cls, entries, options):
        problems = _unused(options)
        if options["routes"]:
            return problems + [problem for entry in entries.values() for problem in _routed_problems(entry)]
        if not options["batch_system"]:
            return [*problems, missing(f"{_OPTIONS}.batch_system", f"{alternatives(CLUSTERS)}, or routes: true")]
        kind = scheduler_class(options["batch_system"])
        return problems + [
            problem for entry in entries.values() for problem in kind.check_entry(entry) + _problems(kind, entry)
        ]

    # -- scripts -----------------------------------------------------------------------------------------------

    def first_lines(self, entry):
        return []  # the directives are those of the cluster's batch system

    def carried(self, payload):
        if not self.options["shared_payload"]:
            return payload
        return payload._replace(inputs=(), files=False, job_wrapper=False)

    def target(self, payload):
        batch = None if self.options["routes"] else f"batch {self.batch_system.blahp.name}"
        if self.options["ssh"]:
            directory = self.options["ssh_directory"] or f"~/.glidein-gateway/{payload.site}"
            return [f"grid_resource = {batch} {self.options['ssh']} --rgahp-glite {directory}"]
        gateway = self.options["gateway"] or f"gateway-{payload.site}@"
        collector = self.options["collector"] or payload.collector
        if not collector:
            raise InputError(missing(f"{_OPTIONS}.collector", "HOST or HOST:PORT of the gateway's pool"))
        lines = [f"grid_resource = condor {gateway} {collector}"]
        if self.options["routes"]:
            return [*lines, "+remote_JobUniverse = 5"]
        return [*lines, "+remote_JobUniverse = 9", f'+remote_GridResource = "{batch}"']

    def requests(self, entry, shape, job_name):
        if self.options["routes"]:
            return self.routed_requests(entry, shape)
        # The gateway's schedd gets the attributes with this prefix, and removes it.
        prefix = "+" if self.options["ssh"] else "+remote_"
        lines = []
        if "gpus" in self.batch_system.blahp.requests and shape["gpus"]:
            lines.append(f"request_gpus = {shape['gpus']}")
        lines += [f"{prefix}{name} = {classad_literal(value)}" for name, value in self._attributes(entry, shape)]
        options = self.batch_system.blahp_options(entry, shape, job_name)
        if options:
            # With the prefix, because blahp's script for Grid Engine adds none.
            line = " ".join([self.batch_system.directive_prefix, *options])
            lines.append(f"{prefix}BatchExtraSubmitArgs = {classad_literal(line)}")
        return lines

    def _attributes(self, entry, shape):
        """Return [(job attribute, value)] of the requests that blahp makes itself."""
        # blahp rounds down to minutes for Slurm.
        found = [("BatchRuntime", -(-entry["walltime_s"] // 60) * 60)]
        requests = self.batch_system.blahp.requests
        if "queue" in requests and entry["queue"]:
            found.append(("BatchQueue", entry["queue"]))
        if "account" in requests and entry["account"]:
            found.append(("BatchProject", entry["account"]))
        if "cores" in requests:
            found += [("NodeNumber", shape["cpus"]), ("SMPGranularity", shape["cpus"])]
        return found

    # -- counting ----------------------------------------------------------------------------------------------

    def silence(self):
        if self.options["ssh"]:
            return f"the access point has not reached {self.options['ssh']} by SSH"
        return super().silence()

    # -- submitting --------------------------------------------------------------------------------------------

    def check_schedd(self, schedd, collector):
        constraint = f"Name == {classad_literal(schedd)} && time() - LastHeardFrom < {_MAX_AD_AGE_S}"
        argv = self.argv["condor_status"] + ["-pool", collector, "-schedd", "-constraint", constraint, "-af", "Name"]
        if schedd not in self.runner.run(argv).split():
            raise GlideinError(
                f"The gateway {schedd} has sent no ad to the collector {collector} for 5 minutes: it is stopped, or "
                "has lost the pool. Nothing is submitted. glidein.ops.status shows its state, and glidein.ops.gateway "
                "starts it."
            )


def _unused(options):
    """Return one error for each option that is not used, because of another one."""
    if options["ssh"]:
        unused = dict.fromkeys(("collector", "gateway", "routes"), "no value with ssh")
    else:
        unused = {"ssh_directory": "no value without ssh"}
    if options["routes"]:
        unused["batch_system"] = "no value with routes, which have it"
    return [invalid(f"{_OPTIONS}.{key}", options[key], unused[key]) for key in sorted(unused) if options[key]]


def _problems(kind, entry):
    """Return one error for each part of an entry that cannot be requested of a batch system (class) through blahp."""
    where = f"glidein_entries.{entry['name']}"
    possible = kind.blahp.requests + kind.blahp.options
    problems = []
    texts = [(key, entry[key]) for key in ("queue", "account", "constraint") if entry[key]]
    texts += [(f"directives[{number}]", directive) for number, directive in enumerate(entry["directives"])]
    for key, value in texts:
        if key.partition("[")[0] not in possible:
            problems.append(invalid(f"{where}.{key}", value, _none(kind)))
        elif not _PLAIN.match(value):
            problems.append(invalid(f"{where}.{key}", value, _PLAIN_RULE))
    for key, value in sorted(entry["resources"].items()):
        if key not in kind.blahp.options:
            problems.append(invalid(f"{where}.resources.{key}", value, _none(kind)))
    for name, shape in sorted(entry["shapes"].items()):
        for key, part in (("gpus", "gpus"), ("gpu_type", "gpus"), ("whole_node", "whole_node")):
            if shape[key] and (part not in possible or (key == "gpu_type" and part not in kind.blahp.options)):
                problems.append(invalid(f"{where}.shapes.{name}.{key}", shape[key], _none(kind)))
    return problems


def _routed_problems(entry):
    """Return one error for each part of an entry that a glidein cannot state to the gateway's routes."""
    where = f"glidein_entries.{entry['name']}"
    expected = "no value with glidein_scheduler_options.routes: a route of the gateway sets it"
    parts = [(key, entry[key]) for key in ("account", "constraint", "directives", "resources")]
    for name, shape in sorted(entry["shapes"].items()):
        parts += [(f"shapes.{name}.{key}", shape[key]) for key in ("gpu_type", "whole_node")]
    problems = [invalid(f"{where}.{key}", value, expected) for key, value in parts if value]
    if entry["queue"] and not _PLAIN.match(entry["queue"]):
        problems.append(invalid(f"{where}.queue", entry["queue"], _PLAIN_RULE))
    return problems


def _none(kind):
    return f"no value: a gateway cannot request it of {kind.name}"
