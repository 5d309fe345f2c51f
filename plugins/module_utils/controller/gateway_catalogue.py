# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of a gateway: OSG_ResourceCatalog of an HTCondor-CE's ad.

Sources: HTCondor-CE 25.0 (info_query.py), and the resource catalogue that osg-configure 4.2 writes.
"""

from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.quoting import classad_literal


def gateway_catalogue(entries: dict) -> str:
    """Return the catalogue of glidein_entries as a ClassAd expression on one line. Raises InputError."""
    items = [_item(entry) for entry in normalise_site("glidein", "site", entries)["entries"].values()]
    return f"{{ {', '.join(map(_ad, items))} }}"


def _item(entry: dict) -> dict:
    """Return the item of an entry: its largest glidein, and the queue that blahp is to request."""
    shape = max(entry["shapes"].values(), key=lambda each: (each["cpus"], each["asked_memory_mb"], each["gpus"]))
    item = {
        "Name": classad_literal(entry["name"]),
        "CPUs": shape["cpus"],
        "Memory": shape["asked_memory_mb"],
        "MaxWallTime": -(-entry["walltime_s"] // 60),
        "MaxPilots": entry["limits"]["total"],
    }
    if shape["gpus"]:
        item["GPUs"] = shape["gpus"]
    if shape["whole_node"]:
        item["WholeNode"] = "true"
    if entry["queue"]:
        item["Transform"] = _ad({"set_BatchQueue": classad_literal(entry["queue"])})
    return item


def _ad(attributes: dict) -> str:
    return f"[ {'; '.join(f'{name} = {value}' for name, value in attributes.items())} ]"
