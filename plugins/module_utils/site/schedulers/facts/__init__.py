# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that each batch system reports about itself: queues, node sizes, limits, accounts.

Only the module of the site's own batch system is imported, for the reason that schedulers/__init__.py gives.
"""

from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts.records import limits_record


def _slurm():
    from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts import slurm

    return slurm


def _pbspro():
    from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts import pbspro

    return pbspro


def _torque():
    from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts import torque

    return torque


def _sge():
    from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts import sge

    return sge


def _lsf():
    from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts import lsf

    return lsf


def _htcondor():
    from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.facts import htcondor

    return htcondor


# Name of glidein_scheduler -> function that imports the module, which has read(reader, user), and returns it.
MODULES = {
    "slurm": _slurm,
    "pbspro": _pbspro,
    "torque": _torque,
    "sge": _sge,
    "uge": _sge,
    "lsf": _lsf,
    "htcondor": _htcondor,
}


def no_facts():
    """Return the facts of an unknown batch system, in the form that each read() returns."""
    return {
        "version": None,
        "cluster": None,
        "queues": [],
        "accounts": [],
        "limits": limits_record(),
        "gpu_request": None,
    }


def read_facts(scheduler, reader, user):
    """Return the facts of a batch system, with the keys of no_facts.

    scheduler: a key of MODULES; reader: Reader, whose gaps name what could not be read; user: whose accounts count.
    """
    return MODULES[scheduler]().read(reader, user)
