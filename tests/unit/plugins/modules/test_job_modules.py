# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of job_analysis with stand-ins for HTCondor's commands."""

import pytest
from ansible_collections.glidein.ops.plugins.modules import job_analysis
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module
from ansible_collections.glidein.ops.tests.unit.support.hangs import hanging, shorten_limits
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

STATUS = """#!/bin/sh
case "$3 $4" in
'-constraint Name == "cm"') ;;
esac
[ "$3" = 'Name == "cm"' ] && echo '<10.0.0.1:9618?sock=schedd>'
exit 0
"""
ANALYSIS = """#!/bin/sh
[ "$*" = "-addr <10.0.0.1:9618?sock=schedd> -better-analyze 1.0" ] || {{ echo "arguments: $*" >&2; exit 1; }}
{0}
"""
TABLE = "echo '[0]           0  TARGET.X == 1'"


@pytest.fixture
def analyse(tmp_path, monkeypatch):
    """Return a function that runs job_analysis with these shell script lines as condor_q."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def run(script, **options):
        for name, text in (("condor_status", STATUS), ("condor_q", ANALYSIS.format(script))):
            write_program(tmp_path / name, text)
        return run_module(job_analysis.main, {"job": "1.0", "schedd": "cm", **options}, check=True)

    return run


def test_the_schedd_is_found_by_its_address(analyse):
    result = analyse(TABLE)
    assert (result["error"], result["changed"]) == ("", False)
    assert result["conditions"] == [{"slots": 0, "condition": "TARGET.X == 1"}]


def test_a_failure_is_a_result(analyse, tmp_path, monkeypatch):
    assert "failed with exit status 3: no permission" in analyse("echo no permission >&2; exit 3")["error"]
    assert "printed more than 1 MB" in analyse("yes")["error"]
    unknown = analyse(TABLE, schedd="gone")
    assert unknown["error"] == "The collector has no schedd gone: see `condor_status -schedd`."
    assert (unknown["conditions"], unknown["machines"]) == ([], None)
    shorten_limits(monkeypatch, tmp_path)
    assert "gave no answer within 30 s" in analyse(hanging(tmp_path))["error"]


def test_without_htcondor_the_error_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "condor_q -better-analyze 1.0 could not be started" in run_module(job_analysis.main, {"job": "1.0"})["error"]


def test_an_invalid_option_is_refused():
    assert "job: '1.0 -long' is invalid" in run_module(job_analysis.main, {"job": "1.0 -long"})["msg"]
