# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a gateway's tarball and catalogue, and of the lines of status about gateways."""

import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc
from ansible_collections.glidein.ops.plugins.module_utils.controller.gateway import (
    gateway_catalogue,
    gateway_lines,
    gateway_tarball,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape
from ansible_collections.glidein.ops.tests.unit.support.unreadable import Unreadable

NOW = 1795408000
LATE, SOON, PAST = NOW + 20 * 86400, NOW + 86400, NOW - 60


def status(state="running", *more, pool=LATE, submitters=LATE):
    """Return what `gateway status` prints. more: further lines."""
    lines = [f"state {state}", "version 23.9.6", "supervisor cron", *more]
    return "\n".join([*lines, f"pool_token_ends {pool}", f"submit_token_ends {submitters}"] if pool else lines)


def lines(results):
    """Return the section for {host: registered result}."""
    hostvars = {host: {"status_gateway": result} for host, result in results.items()}
    return gateway_lines(hostvars, sorted(hostvars), NOW)[1:]


def test_each_gateway_has_a_line():
    jobs = ("idle 1", "running 2", "held 0")
    results = {
        "a": {"stdout": status("running", *jobs, "unrouted 0", pool=None)},
        "b": {"stdout": status("unresponsive", pool=None)},
        "c": {"skipped": True},
        "d": {"unreachable": True, "msg": "no route"},
        "e": {"failed": True, "msg": "No such file:\n x", "stdout": ""},
        "f": {"stdout": "[]"},
        "g": {},
        "u": {"stdout": status("running", *jobs, "unrouted 1", pool=None)},
    }
    assert lines(results) == [
        "GATEWAYS",
        "  a: running, HTCondor 23.9.6, kept alive by cron; jobs: 1 idle, 2 running, 0 held",
        "  b: unresponsive, HTCondor 23.9.6, kept alive by cron; jobs: unknown",
        "  c: unknown: the login node was not asked",
        "  d: unknown: the login node cannot be reached",
        "  e: no answer of its program: No such file: x. Run glidein.ops.gateway",
        "  f: no answer of its program: no output. Run glidein.ops.gateway",
        "  g: unknown: the login node was not asked",
        "  u: running, HTCondor 23.9.6, kept alive by cron; jobs: 1 idle, 2 running, 0 held; "
        "1 of the idle ones without a route",
    ]


def test_a_gateway_has_the_name_of_its_site():
    hostvars = {"a": {"status_gateway": {"skipped": True}, "glidein_site": "bridges"}}
    assert gateway_lines(hostvars, ["a"])[2].startswith("  bridges: ")


def test_a_stopped_gateway_has_the_reason_and_the_remedy():
    found = lines({"a": {"stdout": status("stopped", "reason idle since 2026-11-23 04:00:12 UTC", pool=None)}})
    assert found[1:] == [
        "  a: stopped: idle since 2026-11-23 04:00:12 UTC, HTCondor 23.9.6. To start it, run glidein.ops.gateway"
    ]


@pytest.mark.parametrize(
    ("pool", "submitters", "problems"),
    [
        (LATE, LATE, []),
        (SOON, LATE, ["problem: the token towards the pool expires soon: run glidein.ops.renew"]),
        (LATE, PAST, ["problem: the token of submitters has expired: run glidein.ops.renew"]),
    ],
)
def test_tokens_are_shown_and_a_token_that_expires_soon_is_a_problem(pool, submitters, problems):
    found = lines({"a": {"stdout": status(pool=pool, submitters=submitters)}})
    assert found[2:] == [
        f"    token towards the pool: until {utc(pool)}; token of submitters: until {utc(submitters)}",
        *(f"    {problem}" for problem in problems),
    ]


def test_a_full_file_system_is_a_problem():
    found = lines({"a": {"stdout": status("unresponsive", "problem /spool: No space left on device")}})
    assert found[-1] == "    problem: /spool: No space left on device"


def test_a_gateway_without_a_schedd_is_asked_from_the_access_point_too():
    installed = {"stdout": "version 23.9.6\nstate installed\njobs 2", "rc": 0}
    refused = "ssh: connect to host x port 22: Connection refused\n"
    asked = {
        "a": {"rc": 0, "stdout": ""},
        "b": {"rc": 255, "stderr": refused},
        "c": {"skipped": True},
        "d": {"unreachable": True, "msg": "no route"},
        "e": None,
    }
    hostvars = {host: {"status_gateway": installed, "gateway_connection": result} for host, result in asked.items()}
    found = gateway_lines(hostvars, sorted(hostvars))[1:]
    unasked = "the access point was not asked whether it can connect"
    states = ["the access point can connect", f"the access point cannot connect: {refused.strip()}", *[unasked] * 3]
    assert found[1:] == [
        f"  {host}: installed, HTCondor 23.9.6, no schedd; jobs: 2; {state}"
        for host, state in zip("abcde", states, strict=True)
    ]


def test_a_site_name_that_cannot_be_read_costs_no_line():
    hostvars = {"odd": Unreadable("glidein_site", {"status_gateway": {"skipped": True}}), "good": {}}
    assert [line.split(":")[0] for line in gateway_lines(hostvars, list(hostvars), NOW)[2:]] == ["  odd", "  good"]


def test_without_gateways_there_is_no_section():
    assert gateway_lines({"a": {}}, []) == []


NATIVE = "native x86_64 2.41 23.9.6 x86_64_Debian13 0123abcd native.tar.gz"
ARM = "arm aarch64 2.34 23.9.6 aarch64_AlmaLinux9 4567 arm.tar.gz"


@pytest.mark.parametrize(
    ("platforms", "machine", "name"),
    [
        ([], "x86_64", "native"),
        ([], "aarch64", "arm"),
        ([], None, "native"),
        (["arm"], "x86_64", "native"),
        (["newer", "native"], "x86_64", "newer"),
    ],
)
def test_a_gateway_has_the_first_tarball_for_the_login_node(platforms, machine, name):
    newer = NATIVE.replace("native", "newer")
    assert gateway_tarball("\n".join((NATIVE, ARM, newer)), platforms, machine)["name"] == name


@pytest.mark.parametrize(
    ("platforms", "error"),
    [
        (["power"], "glidein_platforms: ['power'] is invalid; expected names of glidein_tarballs: arm (aarch64)"),
        ([], "glidein_tarballs: arm (aarch64); add a platform for x86_64, the login node's architecture"),
    ],
)
def test_a_gateway_without_a_tarball_is_an_error(platforms, error):
    with pytest.raises(InputError, match=re.escape(error)):
        gateway_tarball(ARM, platforms, "x86_64")


CATALOGUE_ENTRIES = {
    "main": raw_entry(
        walltime="90s",
        limits={"total": 7},
        shapes={"small": shape(), "large": shape(4, 8000, gpus=1, whole_node=True)},
    ),
    "other": raw_entry(queue=None, shapes={"one": shape(memory_mb=1000)}),
}


def test_the_catalogue_of_a_gateway_has_the_largest_glidein_of_each_entry():
    assert gateway_catalogue(CATALOGUE_ENTRIES) == (
        '{ [ Name = "main"; CPUs = 4; Memory = 8000; MaxWallTime = 2; MaxPilots = 7; GPUs = 1; WholeNode = true; '
        'Transform = [ set_BatchQueue = "cpu" ] ], '
        '[ Name = "other"; CPUs = 1; Memory = 1068; MaxWallTime = 120; MaxPilots = 100 ] }'
    )
    with pytest.raises(InputError, match="glidein_entries.main.walltime: missing"):
        gateway_catalogue({"main": dict(CATALOGUE_ENTRIES["main"], walltime=None)})
