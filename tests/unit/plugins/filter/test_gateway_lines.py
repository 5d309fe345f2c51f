# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of status about gateways."""

from ansible_collections.glidein.ops.plugins.filter.gateway_lines import FilterModule

RUNNING = (
    '{"state": "running", "version": "23.9.6", "supervisor": "cron", "jobs": {"idle": 1, "running": 2, "held": 0}}'
)
UNROUTED = RUNNING.replace("}}", ', "unrouted": 1}}')
SILENT = '{"state": "unresponsive", "version": "23.9.6", "supervisor": "systemd", "jobs": null}'


def test_each_gateway_has_a_line():
    results = {
        "a": {"stdout": RUNNING},
        "b": {"stdout": SILENT},
        "c": {"skipped": True},
        "d": {"unreachable": True, "msg": "no route"},
        "e": {"failed": True, "msg": "No such file:\n x", "stdout": ""},
        "f": {"stdout": "[]"},
        "u": {"stdout": UNROUTED},
    }
    hostvars = {host: {"status_gateway": result} for host, result in results.items()}
    hostvars["a"]["glidein_site"] = "bridges"
    hostvars["g"] = {}
    found = FilterModule().filters()["gateway_lines"](hostvars, sorted(hostvars))
    assert found == [
        "GATEWAYS",
        "  bridges: running, HTCondor 23.9.6, kept alive by cron; jobs: 1 idle, 2 running, 0 held",
        "  b: unresponsive, HTCondor 23.9.6, kept alive by systemd; jobs: unknown",
        "  c: unknown: the login node was not asked",
        "  d: unknown: the login node cannot be reached",
        "  e: no answer of its program: No such file: x. Run glidein.ops.gateway",
        "  f: no answer of its program: no output. Run glidein.ops.gateway",
        "  g: unknown: the login node was not asked",
        "  u: running, HTCondor 23.9.6, kept alive by cron; jobs: 1 idle, 2 running, 0 held; "
        "1 of the idle ones without a route",
    ]
