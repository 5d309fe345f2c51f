# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch script of a glidein: directives, the settings of glidein.sh, and the call of it."""

from ansible_collections.glidein.ops.plugins.module_utils.entries import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.quoting import scratch_word, sh_quote


def batch_script(scheduler, site, entry_name, shape_name, payload):
    """Return the text of the script that is handed to the batch system.

    scheduler: a Scheduler; site: result of normalise_site; payload: {"home": absolute version directory,
    "log_dir": absolute, "credential": absolute path or "", "collector": host[:port], "scratch": see scratch_word}.
    """
    entry = site["entries"][entry_name]
    shape = entry["shapes"][shape_name]
    name = job_name(site["deployment"], site["site"], entry_name, shape_name)
    directives = scheduler.directives(entry, shape, name, payload["log_dir"]) + entry["directives"]
    settings = _settings(site, entry, shape_name, shape, payload)
    lines = ["#!/bin/sh"]
    lines += [f"{scheduler.directive_prefix} {directive}" for directive in directives]
    lines += [
        "",
        f"# One glidein of {site['site']}/{entry_name}/{shape_name}, written by glidein.ops. glidein.sh reads these:",
    ]
    lines += [f"{key}={sh_quote(str(value))}" for key, value in settings]
    lines += [
        f"GLIDEIN_SCRATCH={scratch_word(payload['scratch'])}",
        f'GLIDEIN_BATCH_ID="{scheduler.batch_id}"',
    ]
    exported = [key for key, unused in settings] + ["GLIDEIN_SCRATCH", "GLIDEIN_BATCH_ID"]
    lines += [f"export {' '.join(exported[i : i + 4])}" for i in range(0, len(exported), 4)]
    lines += ["", 'exec /bin/sh "$GLIDEIN_HOME/glidein.sh"', ""]
    return "\n".join(lines)


def _settings(site, entry, shape_name, shape, payload):
    attributes = [f"{name} = {classad_literal(entry['attributes'][name])}" for name in sorted(entry["attributes"])]
    return [
        ("GLIDEIN_DEPLOYMENT", site["deployment"]),
        ("GLIDEIN_SITE", site["site"]),
        ("GLIDEIN_ENTRY", entry["name"]),
        ("GLIDEIN_SHAPE", shape_name),
        ("GLIDEIN_HOME", payload["home"]),
        ("GLIDEIN_CREDENTIAL", payload["credential"]),
        ("GLIDEIN_COLLECTOR", payload["collector"]),
        ("GLIDEIN_CPUS", shape["cpus"]),
        ("GLIDEIN_MEMORY_MB", shape["memory_mb"]),
        ("GLIDEIN_DISK_MB", shape["disk_mb"]),
        ("GLIDEIN_GPUS", shape["gpus"]),
        ("GLIDEIN_WALLTIME_S", entry["walltime_s"]),
        ("GLIDEIN_RETIREMENT_S", entry["retirement_s"]),
        ("GLIDEIN_IDLE_TIMEOUT_S", entry["idle_timeout_s"]),
        ("GLIDEIN_LOG_DIR", payload["log_dir"]),
        ("GLIDEIN_ATTRIBUTES", "\n".join(attributes)),
    ]
