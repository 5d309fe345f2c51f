# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import importlib
import json
import os
import pathlib
import sys

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.login_node import glidein_summaries
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_summaries import (
    new_summaries,
    read_summaries,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW

JOB_NAME = job_name("glidein", "lab", "main", "core")


def summary(number=1, **changes):
    return dict(
        {
            "name": f"glidein_{number}_abcdefgh",
            "site": "lab",
            "entry": "main",
            "shape": "core",
            "batch_id": str(number),
            "started": NOW - 700,
            "registered": NOW - 697,
            "ended": NOW - 100,
            "jobs": 3,
            "jobs_failed": 1,
            "exit_status": 0,
            "reason": "no job ran for 60 s",
        },
        **changes,
    )


def line(given):
    return f"2026-11-21T00:33:20Z glidein: summary {json.dumps(given)}\n"


def log(tmp_path, number, age_s, text=None, name=JOB_NAME):
    path = tmp_path / f"{name}.{number}.out"
    path.write_text(line(summary(number)) if text is None else text)
    os.utime(path, (NOW - age_s, NOW - age_s))


def found(tmp_path, since=0):
    result = new_summaries(str(tmp_path), "glidein", "lab", since, NOW)
    return [int(one["batch_id"]) for one in result["glideins"]], result["until"]


def test_a_summary_is_found_and_nothing_else_of_it():
    assert read_summaries("text\n" + line(summary(granted_core_s=600)) + "text\n", "lab") == [summary()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"site": "other"},
        {"entry": "a b"},
        {"name": ""},
        {"name": "x" * 201},
        {"reason": "a\tb"},
        {"jobs": -1},
        {"jobs": True},
        {"jobs": 1.5},
        {"jobs": 10**13},
        {"exit_status": 256},
        {"started": NOW, "ended": NOW - 1},
        {"ended": None},
    ],
)
def test_an_invalid_summary_is_ignored(wrong):
    assert read_summaries(line(summary(**wrong)), "lab") == []


@pytest.mark.parametrize("text", ["{", "[" * 100000, '{"site": "lab"}', "[]", "{}"])
def test_invalid_json_is_not_a_summary(text):
    assert read_summaries(f"2026-11-21T00:33:20Z glidein: summary {text}\n    quoted: " + line(summary()), "lab") == []


def test_only_new_summaries_are_returned_with_the_time_of_the_last_one(tmp_path):
    log(tmp_path, 1, 9000)
    log(tmp_path, 2, 5000)
    log(tmp_path, 3, 4000)
    log(tmp_path, 4, 3000, "2026-11-21T00:33:20Z glidein: start of lab/main/core\n")
    assert found(tmp_path) == ([1, 2, 3], NOW - 3000)
    assert found(tmp_path, NOW - 4500) == ([3], NOW - 3000)
    # Some files become visible late, so summaries are reported again for a while. The server ignores repeated ones.
    assert found(tmp_path, NOW - 3900) == ([3], NOW - 3000)
    assert found(tmp_path, NOW - 3000) == ([], NOW - 3000)


def test_of_many_the_oldest_come_first_and_the_others_in_the_next_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(glidein_summaries, "MAX_SUMMARIES", 2)
    monkeypatch.setattr(glidein_summaries, "MAX_RESENT", 0)
    for number in range(1, 6):
        log(tmp_path, number, 100 - number)
    told, since = [], 0
    for _run in range(4):
        numbers, since = found(tmp_path, since)
        told += numbers
    assert told == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("most", ["MAX_SUMMARIES", "MAX_LOGS_READ"])
def test_logs_of_the_same_time_are_returned_in_one_run(tmp_path, monkeypatch, most):
    monkeypatch.setattr(glidein_summaries, most, 2)
    monkeypatch.setattr(glidein_summaries, "MAX_RESENT", 0)
    for number, age_s in ((1, 9), (2, 8), (3, 8), (4, 7), (5, 7), (6, 7), (7, 6)):
        log(tmp_path, number, age_s)
    runs, since = [], 0
    for _run in range(4):
        numbers, since = found(tmp_path, since)
        runs.append(numbers)
    assert runs == [[1], [2, 3], [4, 5, 6], [7]]


def server_parameters():
    if sys.version_info < (3, 9):
        pytest.skip("the demand server needs Python 3.9")
    sys.path.insert(0, str(pathlib.Path(__file__).parents[5] / "files/demand_server/src"))
    try:
        return importlib.import_module("glidein_demand.web.parameters")
    finally:
        sys.path.pop(0)


NUMBERS = ("started", "registered", "ended", "jobs", "jobs_failed")


@pytest.mark.parametrize(
    "extreme",
    [{key: value} for key in NUMBERS + ("exit_status",) for value in (0, 255, 256, 10**12, 10**13, None, True)]
    + [{key: "x" * length} for key, length in (("name", 200), ("batch_id", 128), ("entry", 64), ("shape", 64))]
    + [{key: "\u00e9\u4e2d"} for key in ("name", "batch_id", "reason")],
)
def test_the_demand_server_accepts_each_valid_summary(extreme):
    given = summary(**dict({"started": 0, "ended": 10**12}, **extreme))
    for one in read_summaries(line(given), "lab"):
        given = {"since": 0, "until": 1, "glideins": [one]}
        server = server_parameters()
        server.checked({"site": "lab", "as_of": 1, "summaries": given}, server.Report)


def test_the_demand_server_accepts_the_maximum_number_of_summaries():
    most = max(glidein_summaries.MAX_ACCEPTED, glidein_summaries.MAX_SUMMARIES + glidein_summaries.MAX_RESENT)
    assert most <= server_parameters().MAX_SUMMARIES


def test_many_repeated_summaries_do_not_delay_new_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(glidein_summaries, "MAX_RESENT", 2)
    for number in range(1, 8):
        log(tmp_path, number, 50 - number)
    log(tmp_path, 9, 1)
    numbers, until = found(tmp_path, NOW - 40)
    assert (numbers, until) == ([9, 7, 6], NOW - 1)


def test_logs_of_other_deployments_are_ignored(tmp_path):
    log(tmp_path, 1, 10, name=job_name("another", "lab", "main", "core"))
    (tmp_path / "other.1.out").write_text(line(summary()))
    (tmp_path / f"{JOB_NAME}.2.out").symlink_to("other.1.out")
    assert found(tmp_path) == ([], 0)


def test_a_clock_that_is_ahead_hides_nothing(tmp_path):
    log(tmp_path, 1, -9000)
    assert found(tmp_path) == ([1], NOW)
    log(tmp_path, 2, -5)
    assert found(tmp_path, NOW) == ([2, 1], NOW)


def test_without_logs_there_are_no_summaries(tmp_path):
    assert found(tmp_path / "none", 5) == ([], 5)
