# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the operator's files and job wrapper, which the glidein copies from the payload to its scratch directory."""

import signal

from test_endings import assert_ended


def test_files_and_job_wrapper_are_in_the_scratch_directory(site, shell):
    files = site.home / "files"
    (files / "tools").mkdir(parents=True)
    (files / "tools" / "hello").write_text("#!/bin/sh\necho hello\n")
    (files / "tools" / "hello").chmod(0o755)
    (files / "data.txt").write_text("data\n")
    (files / "data.txt").chmod(0o640)
    (site.home / "job_wrapper").write_text('#!/bin/sh\nexec "$@"\n')
    glidein = site.start(shell).wait_for("registered")
    scratch = glidein.directory()
    # The payload may be removed while the glidein runs.
    assert (scratch / "files" / "data.txt").read_text() == "data\n"
    assert (scratch / "files" / "data.txt").stat().st_mode & 0o777 == 0o640
    assert (scratch / "files" / "tools" / "hello").stat().st_mode & 0o777 == 0o755
    config = (scratch / "condor_config").read_text()
    assert f"'GLIDEIN_FILES={scratch}/files'" in config
    assert f"USER_JOB_WRAPPER = {scratch}/job_wrapper\n" in config
    assert f"exec '{scratch}/job_wrapper_of_site' \"$@\"\n" in (scratch / "job_wrapper").read_text()
    assert (scratch / "job_wrapper_of_site").stat().st_mode & 0o777 == 0o700
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_room_for_the_files_is_needed_too(site, any_shell):
    (site.home / "files").mkdir()
    (site.home / "files" / "large").write_bytes(b"x" * (3 << 20))
    status, output = site.run(any_shell, GLIDEIN_DISK_MB=10**9)
    assert_ended(site, status, output, 13, "HTCondor itself need 1000000064")
