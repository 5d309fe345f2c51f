# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the action plugin file_tree in a real ansible run, with a target that needs no SSH."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

COLLECTIONS = pathlib.Path(__file__).parents[7]


@pytest.fixture
def run(tmp_path):
    """Run the task; return its result."""
    top = tmp_path / "controller"
    (top / "lib").mkdir(parents=True)
    (top / "small").write_text("small\n")
    (top / "lib" / "large").write_bytes(os.urandom(1 << 19))
    arguments = {
        "path": str(tmp_path / "site"),
        "versioned": True,
        "link": "current",
        "sources": [{"src": str(top)}, {"content": "secret\n", "dest": "content", "mode": "0640"}],
    }
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\n")
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS),
        ANSIBLE_HOME=str(tmp_path / "ansible"),
        ANSIBLE_CONFIG=str(config),
        ANSIBLE_PIPELINING="1",
        ANSIBLE_NOCOLOR="1",
        LC_ALL="C.UTF-8",
    )

    def runner(*more):
        argv = [sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-i", "localhost,", "-c", "local"]
        argv += ["-e", f"ansible_python_interpreter={sys.executable}", "-m", "glidein.ops.file_tree"]
        done = subprocess.run(
            [*argv, "-a", json.dumps(arguments), *more],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        output = done.stdout.decode()
        assert done.returncode == 0, output
        return output

    return runner


def test_large_and_small_files_arrive_and_a_second_run_changes_nothing(run, tmp_path):
    site = tmp_path / "site"
    assert "CHANGED" in run("--check")
    assert not site.exists()
    assert "CHANGED" in run()
    for name in ("small", "lib/large"):
        assert (site / "current" / name).read_bytes() == (tmp_path / "controller" / name).read_bytes()
    assert (site / "current" / "content").read_text() == "secret\n"
    assert "CHANGED" not in run()


def test_diff_shows_the_lines_of_a_content_that_asks_for_it(run, tmp_path):
    arguments = {"path": str(tmp_path / "site"), "sources": [{"content": "a\nb\n", "dest": "shown", "diff": True}]}
    assert "+a\n+b\n" in run("--diff", "--check", "-a", json.dumps(arguments))
    run("-a", json.dumps(arguments))
    arguments["sources"] = [{"content": "a\nc\n", "dest": "shown", "diff": True}, {"content": "secret", "dest": "x"}]
    output = run("--diff", "-a", json.dumps(arguments))
    assert f"+++ after: {tmp_path}/site/shown\n" in output
    assert " a\n-b\n+c\n" in output
    assert "secret" not in output
    assert (tmp_path / "site" / "shown").read_text() == "a\nc\n"
    assert "CHANGED" not in run("-a", json.dumps(arguments))


def test_diff_lists_only_a_damaged_file_and_it_is_repaired(run, tmp_path):
    run()
    damaged = tmp_path / "site" / "current" / "small"
    damaged.write_text("damaged")
    listed = [line for line in run("--diff").splitlines() if line.startswith(("-", "+")) and line[1] not in "-+"]
    assert [line.split()[-1] for line in listed] == ["small", "small"]
    assert damaged.read_text() == "small\n"
