# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported batch systems. docs/developing.md has the steps to add one.

Only the site's own batch system is imported: a login node compiles a module anew in each run. Ansible also finds
import statements within functions, so that it copies all files that a module needs.
"""

import os

from ansible_collections.glidein.ops.plugins.module_utils.common.command import (
    DEFAULT_TIMEOUT_S,
    Runner,
    clean_environment,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ANYTHING,
    ARGUMENT_LIST,
    BOOLEAN,
    Spec,
    invalid,
    whole_number,
)

_OPTIONS = "glidein_scheduler_options"


def _slurm():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm.commands import Slurm

    return Slurm


def _pbspro():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro.commands import PbsPro

    return PbsPro


def _torque():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.torque.commands import Torque

    return Torque


def _htcondor():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.commands import HTCondor

    return HTCondor


def _gateway():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.gateway import Gateway

    return Gateway


def _htcondor_ce():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.ce import HTCondorCE

    return HTCondorCE


def _sge():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.commands import GridEngine

    return GridEngine


def _uge():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.commands import UnivaGridEngine

    return UnivaGridEngine


def _lsf():
    from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf.commands import Lsf

    return Lsf


# Name -> function that imports the class, a subclass of base.Scheduler, and returns it.
SCHEDULERS = {
    "slurm": _slurm,
    "pbspro": _pbspro,
    "torque": _torque,
    "htcondor": _htcondor,
    "sge": _sge,
    "uge": _uge,
    "lsf": _lsf,
    "gateway": _gateway,
    "htcondor_ce": _htcondor_ce,
}
# The batch systems of clusters. They have facts, and a gateway can submit to them.
CLUSTERS = tuple(name for name in SCHEDULERS if name not in ("gateway", "htcondor_ce"))


def make_scheduler(name, options=None, entries=None, environ=None):
    """Return a Scheduler, after a check of its options and the site's normalised entries. Raises InputError.

    options: glidein_scheduler_options; entries: {name: entry} of normalise_site; environ: default os.environ.
    """
    if name not in SCHEDULERS:
        raise InputError(invalid("glidein_scheduler", name, f"one of {', '.join(sorted(SCHEDULERS))}"))
    kind = SCHEDULERS[name]()
    options = _checked_options(kind, options)
    problems = kind.check_entries(entries or {}, options)
    if problems:
        raise InputError(problems)
    environment = clean_environment(
        os.environ if environ is None else environ, kind.scrub_prefixes, kind.keep, kind.only_prefixes
    )
    return kind(Runner(environment, options["timeout"]), options)


def _checked_options(kind, options):
    """Return glidein_scheduler_options with the defaults of `kind`, a subclass of Scheduler. Raises InputError.

    Returns {"commands": {name: [str]}, "grace": seconds, "rerunnable_arrays": bool, "timeout": seconds}, and the keys
    of more_options of `kind`.
    """
    commands = {name: {"type": ARGUMENT_LIST, "default": argv} for name, argv in sorted(kind.commands.items())}
    spec = Spec(
        {
            "commands": {"type": ANYTHING, "default": {}, "options": Spec(commands)},
            "grace": {"type": whole_number(1), "default": kind.grace_s},
            "rerunnable_arrays": {"type": BOOLEAN, "default": False},
            "timeout": {"type": whole_number(1), "default": DEFAULT_TIMEOUT_S},
            **kind.more_options,
        }
    )
    problems = []
    result = spec.check(problems, _OPTIONS, options)
    if result["rerunnable_arrays"] and not kind.arrays_are_rerunnable:
        expected = f"false with {kind.name}, whose arrays do not need it: remove it"
        problems.append(invalid(f"{_OPTIONS}.rerunnable_arrays", True, expected))
    if problems:
        raise InputError(problems)
    return result
