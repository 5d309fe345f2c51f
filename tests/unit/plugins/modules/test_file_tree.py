# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module as its action plugin runs it: first without an archive, then with the missing files."""

import base64
import io
import os

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.file_tree import (
    collect,
    manifest_of,
    version_of,
    write_archive,
)
from ansible_collections.glidein.ops.plugins.modules import file_tree
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module

FILES = collect([{"content": "A\n", "dest": "a"}, {"content": "B\n", "dest": "lib/b"}], "0600")
VERSION = version_of(manifest_of(FILES), "")


@pytest.fixture
def run(tmp_path):
    def runner(archive=None, check=False, **changes):
        options = {
            "path": str(tmp_path / "site"),
            "sources": [],
            "versioned": True,
            "link": "current",
            "sent": {"version": VERSION, "manifest": manifest_of(FILES)},
        }
        if archive is not None:
            handle = io.BytesIO()
            write_archive({name: FILES[name] for name in archive}, handle)
            options["sent"]["data"] = base64.b64encode(handle.getvalue()).decode("ascii")
        return run_module(file_tree.main, dict(options, **changes), check, diff=True)

    return runner


def test_missing_files_are_requested_or_listed_by_a_check_and_nothing_is_written(run, tmp_path):
    result = run()
    assert result["changed"] and result["missing"] == ["a", "lib/b"]
    result = run(check=True)
    assert result["changed"] and result["files"] == ["a", "lib/b"]
    assert [line.split()[-1] for line in result["diff"]["after"].splitlines()] == ["a", "lib/b", VERSION]
    assert not (tmp_path / "site").exists()


def test_the_version_is_installed_and_linked_and_a_second_run_changes_only_another_link(run, tmp_path):
    result = run(archive=FILES)
    assert result["changed"] and result["files"] == ["a", "lib/b"]
    assert result["path"] == str(tmp_path / "site" / VERSION)
    link = tmp_path / "site" / "current"
    assert os.readlink(str(link)) == VERSION
    again = run()
    assert not again["changed"] and "missing" not in again
    link.unlink()
    link.symlink_to("000000000000")
    result = run()
    assert result["changed"] and result["files"] == []
    assert os.readlink(str(link)) == VERSION
    assert f"current -> {VERSION}" in result["diff"]["after"]
