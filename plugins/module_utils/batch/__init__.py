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
    Spec,
    invalid,
    whole_number,
)

_OPTIONS = "glidein_scheduler_options"

# The batch systems of clusters. They have facts, and a gateway can submit to them.
CLUSTERS = ("slurm", "pbspro", "torque", "htcondor", "sge", "uge", "lsf")
SCHEDULERS = (*CLUSTERS, "gateway", "htcondor_ce")


def scheduler_class(name):
    """Import and return the class of one of SCHEDULERS, a subclass of base.Scheduler."""
    if name == "slurm":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm.commands import Slurm as Kind
    elif name == "pbspro":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro.commands import PbsPro as Kind
    elif name == "torque":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.torque.commands import Torque as Kind
    elif name == "htcondor":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.commands import HTCondor as Kind
    elif name == "sge":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.commands import GridEngine as Kind
    elif name == "uge":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine.commands import (
            UnivaGridEngine as Kind,
        )
    elif name == "lsf":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf.commands import Lsf as Kind
    elif name == "gateway":
        from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.gateway import Gateway as Kind
    else:  # htcondor_ce
        from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.ce import HTCondorCE as Kind
    return Kind


def make_scheduler(name, options=None, entries=None, environ=None):
    """Return a Scheduler, after a check of its options and the site's normalised entries. Raises InputError.

    options: glidein_scheduler_options; entries: {name: entry} of normalise_site; environ: default os.environ.
    """
    if name not in SCHEDULERS:
        raise InputError(invalid("glidein_scheduler", name, f"one of {', '.join(sorted(SCHEDULERS))}"))
    kind = scheduler_class(name)
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

    Returns {"commands": {name: [str]}, "grace": seconds, "timeout": seconds}, and the keys of more_options of `kind`.
    """
    commands = {name: {"type": ARGUMENT_LIST, "default": argv} for name, argv in sorted(kind.commands.items())}
    spec = Spec(
        {
            "commands": {"type": ANYTHING, "default": {}, "options": Spec(commands)},
            "grace": {"type": whole_number(1), "default": kind.grace_s},
            "timeout": {"type": whole_number(1), "default": DEFAULT_TIMEOUT_S},
            **kind.more_options,
        }
    )
    problems = []
    result = spec.check(problems, _OPTIONS, options)
    if problems:
        raise InputError(problems)
    return result
