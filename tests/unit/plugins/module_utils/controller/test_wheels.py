# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.controller import wheels

pytest.importorskip("packaging", reason="the controller's Python has packaging, which ansible-core needs")
REQUIREMENTS = Path(__file__).parents[5] / "files" / "demand_server" / "requirements.txt"


def fake_pip(script):
    """Return the arguments of a Python script that stands for pip; its sys.argv[1] is the output directory."""
    return lambda target: [sys.executable, "-c", script, target]


DOWNLOAD = fake_pip(
    "import sys; [open(sys.argv[1] + '/' + name, 'w').close() "
    "for name in ('pip-25.0-py3-none-any.whl', 'a-1-py3-none-any.whl')]"
)


def test_newer_tags_come_first_and_no_tag_is_newer_than_the_host():
    tags = wheels.platforms("x86_64", "2.28")
    assert tags[0] == "manylinux_2_28_x86_64"
    assert tags[-2:] == ["manylinux2014_x86_64", "linux_x86_64"]


@pytest.mark.parametrize("libc", ["", "2.12", "1.2.4"])
def test_a_host_without_a_recent_glibc_is_refused(libc):
    with pytest.raises(GlideinError, match="expected glibc 2.17"):
        wheels.platforms("x86_64", libc)


def test_markers_are_those_of_the_host_and_not_of_the_controller():
    lines = ['old==1; python_version < "3.10"', 'new==2; python_version >= "3.10"', "both==3"]
    assert wheels.applicable(lines, "3.9") == ["old==1", "both==3"]
    assert wheels.applicable(lines, "3.13") == ["new==2", "both==3"]


def test_the_servers_requirements_can_be_read():
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    found = wheels.applicable([line for line in lines if not line.startswith("#")], "3.13")
    assert all("==" in requirement for requirement in found)
    assert "tomli" not in "".join(found)


def test_wheels_are_private_and_downloaded_once_and_pip_is_among_them(tmp_path):
    directory = wheels.directory_of(str(tmp_path / "cache"), ["a==1"])
    assert wheels.fetch(directory, DOWNLOAD, 60)
    assert sorted(each.name for each in Path(directory).iterdir()) == ["a-1-py3-none-any.whl", "pip.zip"]
    # Regardless of their mode in the index.
    assert {each.stat().st_mode & 0o777 for each in Path(directory).iterdir()} == {0o600}
    assert not wheels.fetch(directory, fake_pip("raise SystemExit(1)"), 60)


def test_a_failed_download_leaves_nothing_and_gives_the_reason(tmp_path):
    directory = wheels.directory_of(str(tmp_path), ["a==1"])
    failing = fake_pip("print('ERROR: No matching distribution found for a==1'); raise SystemExit(1)")
    with pytest.raises(GlideinError, match="ended with 1: ERROR: No matching distribution"):
        wheels.fetch(directory, failing, 60)
    assert [each.name for each in tmp_path.iterdir() if each.suffix != ".lock"] == []


def test_other_requirements_pythons_and_platforms_have_other_directories():
    inputs = [(["a==1"], "3.13", ["t"]), (["a==2"], "3.13", ["t"]), (["a==1"], "3.12", ["t"]), (["a==1"], "3.13", [])]
    assert len({wheels.directory_of("/cache", *each) for each in inputs}) == 4


def test_wheels_that_no_run_has_used_for_a_long_time_are_removed(tmp_path):
    found = [tmp_path / "wheels-000000000000", tmp_path / ".wheels-of_a_killed_download"]
    for old in found:
        old.mkdir()
        os.utime(str(old), (time.time() - 100 * 86400, time.time() - 100 * 86400))
    wheels.fetch(wheels.directory_of(str(tmp_path), ["a==1"]), DOWNLOAD, 60)
    assert not any(old.exists() for old in found)
