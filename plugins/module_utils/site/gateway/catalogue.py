# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of a gateway: attributes of its schedd's ad, those of an HTCondor-CE's ad.

Sources: HTCondor-CE 25.0 (info_query.py), and the resource catalogue that osg-configure 4.2 writes.
"""

from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.gateway import BATCH_SYSTEMS
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.routes import with_defaults
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

_ATTRIBUTES = (
    "OSG_Resource",
    "OSG_ResourceGroup",
    "OSG_BatchSystems",
    "OSG_ResourceCatalog",
    "grid_resource",
    "GatewayRouted",
)


def catalogue_config(site, routes, entries, scheduler="", resource_group="", vos=()):
    """Return lines of HTCondor's configuration with the catalogue; [] without routes and entries. Raises InputError.

    site: its name; routes: glidein_gateway_routes, which are valid; entries: glidein_entries, which are used without
    routes; scheduler: glidein_scheduler, the batch system of the entries; resource_group, vos:
    glidein_gateway_resource_group, glidein_gateway_vos.
    """
    problems = []
    if resource_group and not is_name(resource_group):
        problems.append(invalid("glidein_gateway_resource_group", resource_group, NAME_RULE))
    if not isinstance(vos, (list, tuple)) or not all(map(is_name, vos)):
        problems.append(invalid("glidein_gateway_vos", vos, f"a list of names of VOs, each of {NAME_RULE}"))
    if problems:
        raise InputError(problems)
    if routes:
        checked = with_defaults(routes)
        batch_systems = sorted({route["batch_system"] for route in checked.values()})
        items = [_route_item(name, route) for name, route in checked.items()]
    elif entries and scheduler in BATCH_SYSTEMS:
        batch_systems = [scheduler]
        items = [_entry_item(entry) for entry in normalise_site("glidein", site, entries)["entries"].values()]
    else:
        return []
    if vos:
        for item in items:
            item["AllowedVOs"] = f"{{ {', '.join(map(classad_literal, vos))} }}"
    return [
        f"OSG_Resource = {classad_literal(site)}",
        f"OSG_ResourceGroup = {classad_literal(resource_group or site)}",
        f"OSG_BatchSystems = {classad_literal(','.join(batch_systems))}",
        # On one line: a line break would end the value.
        f"OSG_ResourceCatalog = {{ {', '.join(map(_ad, items))} }}",
        # condor_ce_info_status fails with a text: it needs an expression, as that of an HTCondor-CE.
        'grid_resource = strcat("condor ", "$(SCHEDD_NAME)", " ", "$(COLLECTOR_HOST)")',
        f"GatewayRouted = {classad_literal(bool(routes))}",
        f"SCHEDD_ATTRS = $(SCHEDD_ATTRS) {' '.join(_ATTRIBUTES)}",
    ]


def _route_item(name, route):
    """Return the item of a route: the largest pilots that it accepts. Without a limit, it is the default size."""
    seconds = route["max_walltime"] or route["walltime"]
    item = {
        "Name": classad_literal(name),
        "CPUs": route["max_cpus"] or route["cpus"],
        "Memory": route["max_memory_mb"] or route["memory_mb"],
        "MaxWallTime": -(-seconds // 60),
    }
    if route["max_gpus"]:
        item["GPUs"] = route["max_gpus"]
    if route["max_jobs"]:
        item["MaxPilots"] = route["max_jobs"]
    transform = {"set_xcount": "RequestCPUs", "set_maxMemory": "RequestMemory"}
    if route["queues"]:
        transform["set_queue"] = classad_literal(route["queues"][0])
    return dict(item, Transform=_ad(transform))


def _entry_item(entry):
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


def _ad(attributes):
    return f"[ {'; '.join(f'{name} = {value}' for name, value in attributes.items())} ]"
