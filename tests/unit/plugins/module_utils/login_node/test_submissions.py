# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import stat
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.login_node.submissions import (
    Submissions,
    in_use,
    read,
)


@pytest.fixture
def record(tmp_path):
    return Submissions(str(tmp_path))


def lines(record):
    return read(str(Path(record.path).parent))


def begin(record):
    return record.begin("main", "core", "gaaaaa-bbbbbbbb", 3)


def test_a_version_with_a_submission_in_the_queue_is_in_use(record):
    record.settle(begin(record), "submitted", job_id="12")
    assert in_use(lines(record), {"12"}, True)
    assert not in_use(lines(record), {"13"}, True)


def test_a_refused_submission_keeps_nothing(record):
    record.settle(begin(record), "refused", error="bad account")
    assert not in_use(lines(record), {"13"}, True)


@pytest.mark.parametrize("known", [True, False])
def test_an_unknown_outcome_keeps_the_version_while_any_glidein_is_in_the_queue(record, known):
    submission = begin(record)
    if known:
        record.settle(submission, "unknown", error="timed out")
    assert in_use(lines(record), {"13"}, True)
    assert not in_use(lines(record), set(), False)


def test_no_record_means_not_in_use(tmp_path):
    assert read(str(tmp_path)) == []
    assert not in_use([], {"1"}, True)


@pytest.mark.parametrize("broken", ['{"event": "submit', "[]", "3", '{"x": 1}', "\x00"])
def test_a_broken_line_counts_as_an_unknown_outcome(record, broken):
    Path(record.path).write_text(broken + "\n")
    assert in_use(lines(record), {"13"}, True)
    assert not in_use(lines(record), set(), False)


def test_the_record_is_private_and_only_grows(record):
    path = Path(record.path)
    begin(record)
    first = path.read_text()
    begin(record)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith(first)
    assert [line["job_name"] for line in lines(record)] == ["gaaaaa-bbbbbbbb"] * 2
