# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that files are replaced atomically and directories are private."""

import os
import stat

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import (
    make_private_directory,
    read_or_none,
    write_atomically,
)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_private_and_replaced_as_a_whole(tmp_path):
    path = tmp_path / "scripts" / "a.sh"
    assert read_or_none(str(path)) is None
    write_atomically(str(path), "one")
    write_atomically(str(path), b"two")
    assert read_or_none(str(path)) == b"two"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_another_mode_is_set_explicitly(tmp_path):
    path = tmp_path / "public"
    write_atomically(str(path), "text", 0o644)
    assert mode(path) == 0o644


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(str(path), "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_is_made_private_once(tmp_path):
    path = tmp_path / "above" / "tokens"
    assert make_private_directory(str(path), check_mode=True)
    assert not path.parent.exists()
    assert make_private_directory(str(path))
    assert (mode(path), mode(path.parent)) == (0o700, 0o700)
    assert not make_private_directory(str(path))


def test_an_open_directory_is_closed(tmp_path):
    tmp_path.chmod(0o755)
    assert make_private_directory(str(tmp_path), check_mode=True)
    assert mode(tmp_path) == 0o755
    assert make_private_directory(str(tmp_path))
    assert mode(tmp_path) == 0o700
