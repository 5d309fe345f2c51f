# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import contextlib
import fcntl
import os
import subprocess
import sys

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import BusyError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller import cycle_lock

HOLD = "import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\nprint('held', flush=True)"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Give each test the state of a process that has just started, and release what the test has locked."""
    monkeypatch.setattr(cycle_lock, "_HELD", {})
    monkeypatch.setattr(cycle_lock, "_REFUSED", {})
    yield
    for descriptor in cycle_lock._HELD.values():
        os.close(descriptor)


@contextlib.contextmanager
def another_process_with_the_lock(path):
    argv = [sys.executable, "-c", HOLD + "\nsys.stdin.read()", str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def is_locked(path):
    descriptor = os.open(str(path), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_a_directory_stays_locked_and_gets_no_file(tmp_path):
    cycle_lock.take([str(tmp_path)])
    cycle_lock.take([str(tmp_path)])
    assert is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_open_for_writing_because_nfs_locks_no_other(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    cycle_lock.take([str(path)])
    assert fcntl.fcntl(cycle_lock._HELD[str(path)], fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def test_a_directory_that_another_process_has_locked_is_refused(tmp_path):
    words = "Another cycle holds the lock {}: this cycle ends".format(tmp_path)
    with another_process_with_the_lock(tmp_path), pytest.raises(BusyError, match=words):
        cycle_lock.take([str(tmp_path)])


def test_a_killed_process_leaves_no_lock(tmp_path):
    with another_process_with_the_lock(tmp_path) as other:
        other.kill()
        other.wait()
        cycle_lock.take([str(tmp_path)])
    assert is_locked(tmp_path)


def test_a_run_that_was_refused_stays_refused(tmp_path):
    with another_process_with_the_lock(tmp_path), pytest.raises(BusyError):
        cycle_lock.take([str(tmp_path)])
    with pytest.raises(BusyError):
        cycle_lock.take([str(tmp_path)])


def test_either_all_paths_are_locked_or_no_path(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    with another_process_with_the_lock(second), pytest.raises(BusyError):
        cycle_lock.take([str(first), str(second)])
    assert not is_locked(first)


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="glidein_cycle_lock: '{}/none' cannot be locked".format(tmp_path)):
        cycle_lock.take([str(tmp_path / "none")])


def test_an_inventory_is_one_however_it_is_named(tmp_path):
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "hosts.yml").write_text("")
    (tmp_path / "link").symlink_to(folder)
    names = [str(folder), str(folder / "hosts.yml"), str(tmp_path / "link"), str(tmp_path / "link" / "hosts.yml")]
    assert [cycle_lock.lock_paths([name], "/") for name in names] == [[str(folder)]] * 4
    assert cycle_lock.lock_paths(names + ["one,two"], str(tmp_path)) == [str(tmp_path), str(folder)]
