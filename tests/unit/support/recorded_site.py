# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers of the facts tests: recorded facts, changed output, refused commands."""

import json
import re

from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine import facts as sge
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor import facts as htcondor
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import facts as lsf
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro import facts as pbspro
from ansible_collections.glidein.ops.plugins.module_utils.batch.slurm import facts as slurm
from ansible_collections.glidein.ops.plugins.module_utils.batch.torque import facts as torque
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import (
    RECORDED,
    RecordedReader,
    parse_transcript,
)

NODES = ("nodes", "usable_nodes", "cpus", "memory_mb", "disk_mb", "gpus", "gpu_type", "features")


def unchanged(argv, output):
    """Return the recorded output."""
    return output


def replaced(pattern, replacement, *words):
    """Return a `change` that replaces a pattern in the output of the commands with all of these words."""

    def change(argv, output):
        return re.sub(pattern, replacement, output) if set(words) <= set(argv) else output

    return change


def refused(*words):
    """Return a `change` that refuses the commands with all of these words."""
    return lambda argv, output: None if set(words) <= set(argv) else output


def both(*changes):
    """Return a `change` that makes several."""

    def change(argv, output):
        for one in changes:
            output = one(argv, output)
        return output

    return change


class RecordedSite:
    """A batch system that prints recorded output."""

    def __init__(self, module, transcript, user="glidein"):
        self.module = module
        self.path = RECORDED / transcript
        self.user = user

    def read(self, change=unchanged, user=None):
        """Return (facts, gaps). change: see RecordedReader."""
        reader = RecordedReader(self.path, change)
        found = self.module.read(reader, user or self.user)
        json.dumps(found)
        assert [queue["name"] for queue in found["queues"]] == sorted(queue["name"] for queue in found["queues"])
        return found, reader.gaps

    def facts(self, change=unchanged, user=None):
        return self.read(change, user)[0]

    def gaps(self, change=unchanged):
        """Return the names of the gaps."""
        return sorted({gap["what"] for gap in self.read(change)[1]})

    def queue(self, name, change=unchanged, user=None):
        return next(queue for queue in self.facts(change, user)["queues"] if queue["name"] == name)

    def known(self, name, keys, change=unchanged, user=None):
        """Return the values of a queue as {key: value}.

        A key "source X" is the source of X; "nodes" are the node groups as tuples of the values of NODES.
        """
        queue = self.queue(name, change, user)
        sources = {f"source {key}": text for key, text in queue["sources"].items()}
        nodes = [tuple(group[key] for key in NODES) for group in queue["node_groups"]]
        return {key: dict(queue, nodes=nodes, **sources)[key] for key in keys}

    def output(self, *argv):
        """Return the recorded output of a command."""
        return parse_transcript(self.path.read_text())[argv][0]

    def commands(self):
        """Return the argument lists that read() requests."""
        reader = RecordedReader(self.path)
        self.module.read(reader, self.user)
        return [tuple(argv) for argv in reader.asked]


SITES = {
    "slurm": RecordedSite(slurm, "slurm_24.11.5_accounting.txt", "pilot"),
    "pbspro": RecordedSite(pbspro, "openpbs_23.06.06_discovery.txt"),
    "torque": RecordedSite(torque, "torque_6.1.3_discovery.txt"),
    "sge": RecordedSite(sge, "gridengine_8.1.9_discovery.txt"),
    "lsf": RecordedSite(lsf, "volclava_2.2_discovery.txt"),
    "htcondor": RecordedSite(htcondor, "htcondor_23.9.6_discovery.txt"),
}
