# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported batch systems. To add one, add a folder here, a line in CLASSES, and its modules in both `packed`.

Only the site's own batch system is imported: a login node compiles a module anew in each run.
"""

import functools
import importlib
import os

from ansible_collections.glidein.ops.plugins.module_utils.command import DEFAULT_TIMEOUT_S, Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.scheduler_variables import named_by_variable
from ansible_collections.glidein.ops.plugins.module_utils.validation import (
    ANYTHING,
    ARGUMENT_LIST,
    BOOLEAN,
    Spec,
    invalid,
    whole_number,
)

_OPTIONS = "glidein_scheduler_options"

# glidein_scheduler -> a module of this package, and in it the class, a subclass of base.Scheduler.
CLASSES = {
    "slurm": ("slurm.commands", "Slurm"),
    "pbspro": ("pbspro.commands", "PbsPro"),
    "torque": ("torque.commands", "Torque"),
    "sge": ("gridengine.commands", "GridEngine"),
    "uge": ("gridengine.commands", "UnivaGridEngine"),
    "lsf": ("lsf.commands", "Lsf"),
    "htcondor": ("htcondor.commands", "HTCondor"),
    "gateway": ("htcondor.gateway", "Gateway"),
    "htcondor_ce": ("htcondor.ce", "HTCondorCE"),
}


def packed():
    """Return the modules of CLASSES. No code calls this: Ansible copies only modules that import statements name."""
    from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine import commands as gridengine
    from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor import ce, commands, gateway
    from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import commands as lsf
    from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro import commands as pbspro
    from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import commands as slurm
    from ansible_collections.glidein.ops.plugins.module_utils.batch.torque import commands as torque

    return gridengine, ce, commands, gateway, lsf, pbspro, slurm, torque


def load(module, name):
    """Import a module of this package; return the class or function of this name."""
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


# The batch systems of clusters. They have facts, and a gateway can submit to them.
CLUSTERS = tuple(name for name, (module, unused) in CLASSES.items() if module.endswith(".commands"))

# glidein_scheduler -> function that imports and returns the class.
SCHEDULERS = {name: functools.partial(load, *where) for name, where in CLASSES.items()}


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
        raise InputError(named_by_variable(kind.name, problems, _OPTIONS))
    return result
