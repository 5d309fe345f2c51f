# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that jobs that exhaust the glidein's disk are held."""

from conftest import limit, program


def disk(site):
    """Make a df that shows the free room, in KiB, of a file; return the file and the PATH."""
    free = site.root / "free"
    free.write_text("200000")
    return free, program(site, "df", f"echo; echo \"/dev/x 300000 1 $(cat '{free}') 50% /x\"")


def test_a_job_that_fills_the_disk_is_held(site, shell):
    free, path = disk(site)
    site.bring("failing")
    glidein = site.start(shell, PATH=path).wait_for("registered with")
    directory = glidein.directory()
    for number, size, starts in ((1, 2 << 20, 1), (2, 0, 2)):
        job = directory / "execute" / f"dir_{number}"
        job.mkdir()
        (job / ".machine.ad").write_text("Cpus = 1\nDisk = 1024\nTotalDisk = 9999999\n")
        (job / ".job.ad").write_text(f'GlobalJobId = "cm#{number}.0#1795344333"\nNumShadowStarts = {starts}\n')
        (job / "output").write_bytes(b"x" * size)
    site.give_to_user()
    free.write_text("0")
    glidein.wait_for("job cm#1.0#1795344333/1 uses more disk than its slot has, 1 MB: the job is held")
    config = (directory / "condor_config").read_text()
    assert config.endswith("\nGLIDEIN_DISK_JOBS = $(GLIDEIN_DISK_JOBS),cm#1.0#1795344333/1\n")
    assert not (directory / "reserve").exists()
    free.write_text("200000")
    glidein.wait_for("has room again")
    assert glidein.signal(15).end()[0] == 143
    assert glidein.output.count("the job is held") == 1


def test_a_disk_that_stays_full_ends_a_glidein(site, shell):
    free, path = disk(site)
    limit(site, "DISK_FULL_S", 1)
    glidein = site.start(shell, PATH=path).wait_for("registered with")
    free.write_text("0")
    status, output = glidein.end()
    assert (status, "is full: 0 MB free after" in output.splitlines()[-1]) == (13, True), output
    assert list(site.scratch.iterdir()) == []
