# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the action plugin file_tree in a real ansible run, with a target that needs no SSH."""

import json
import os
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_ansible


@pytest.fixture
def run(tmp_path):
    """Run the task with these options; return its output."""
    folder = tmp_path / "work"
    folder.mkdir()

    def runner(options, *more):
        arguments = ["localhost", "-i", "localhost,", "-c", "local", "-m", "glidein.ops.file_tree"]
        arguments += ["-e", f"ansible_python_interpreter={sys.executable}", "-a", json.dumps(options), *more]
        status, output = run_ansible("adhoc", *arguments, folder=folder, ANSIBLE_PIPELINING="1")
        assert status == 0, output
        return output

    return runner


def test_files_arrive_damaged_ones_are_repaired_and_a_second_run_changes_nothing(run, tmp_path):
    top, site = tmp_path / "controller", tmp_path / "site"
    (top / "lib").mkdir(parents=True)
    (top / "small").write_text("small\n")
    # Larger than what travels with the arguments of the module.
    (top / "lib" / "large").write_bytes(os.urandom(1 << 19))
    sources = [{"src": str(top)}, {"content": "secret\n", "dest": "content", "mode": "0640"}]
    options = {"path": str(site), "versioned": True, "link": "current", "sources": sources}
    assert "CHANGED" in run(options, "--check")
    assert not site.exists()
    assert "CHANGED" in run(options)
    for name in ("small", "lib/large"):
        assert (site / "current" / name).read_bytes() == (top / name).read_bytes()
    assert (site / "current" / "content").read_text() == "secret\n"
    damaged = site / "current" / "small"
    damaged.write_text("damaged")
    output = run(options, "--diff")
    listed = [line for line in output.splitlines() if line.startswith(("-", "+")) and line[1] not in "-+"]
    assert [line.split()[-1] for line in listed] == ["small", "small"], output
    assert damaged.read_text() == "small\n"
    assert "CHANGED" not in run(options)


def test_diff_shows_the_lines_of_a_content_that_asks_for_it(run, tmp_path):
    path = tmp_path / "site"
    shown = {"content": "a\nb\n", "dest": "shown", "diff": True}
    options = {"path": str(path), "sources": [shown]}
    assert "+a\n+b\n" in run(options, "--diff")
    options["sources"] = [dict(shown, content="a\nc\n"), {"content": "secret", "dest": "x"}]
    output = run(options, "--diff")
    assert f"+++ after: {path}/shown\n" in output
    assert " a\n-b\n+c\n" in output
    assert "secret" not in output
    assert (path / "shown").read_text() == "a\nc\n"
