# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported batch systems. To add one, add a folder here, and a function and a line in SCHEDULERS.

Only the site's own batch system is imported: a login node compiles a module anew in each run. Ansible also finds
import statements within functions, so that it copies all files that a module needs.
"""

import os

from ansible_collections.glidein.ops.plugins.module_utils.batch.options import check_options
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid


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


def make_scheduler(name, options=None, entries=None, environ=None):
    """Return a Scheduler, after a check of its options and the site's normalised entries. Raises InputError.

    options: glidein_scheduler_options; entries: {name: entry} of normalise_site; environ: default os.environ.
    """
    if name not in SCHEDULERS:
        raise InputError(invalid("glidein_scheduler", name, f"one of {', '.join(sorted(SCHEDULERS))}"))
    kind = SCHEDULERS[name]()
    options = check_options(kind, options)
    problems = kind.check_entries(entries or {}, options)
    if problems:
        raise InputError(problems)
    environment = clean_environment(
        os.environ if environ is None else environ, kind.scrub_prefixes, kind.keep, kind.only_prefixes
    )
    return kind(Runner(environment, options["timeout"]), options)
