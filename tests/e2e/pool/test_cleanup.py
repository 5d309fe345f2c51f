# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook cleanup: it lists unused files, removes them, and keeps all others."""

from conftest import playbook

SITE = "/home/glidein/.glidein/slurm"
VERSION = f"{SITE}/000000000000"
SCRATCH = "/home/glidein/scratch"
LEFT = f"{SCRATCH}/glidein.0123abcd"
RUNS = f"{SCRATCH}/glidein.4567abcd"
STATE = "OWNER_HOST=n1\\nGLIDEIN_DEPLOYMENT=lab\\nGLIDEIN_SITE=slurm\\nGLIDEIN_BATCH_ID=1_1\\n"


def test_cleanup_lists_and_removes_unused_files(slurm):
    slurm.check_output(
        f"mkdir -p {VERSION} {LEFT}/execute {RUNS} {SCRATCH}/other && ln -s {SITE} {LEFT}/execute/link && "
        f"printf '{STATE}' | tee {RUNS}/state > {LEFT}/state && touch -d '3 days ago' {LEFT}/state"
    )
    look = f"find {SITE} {SCRATCH} ! -name .lock ! -path '{SITE}/log*' | sort"
    before = slurm.check_output(look).splitlines()
    gone = [line for line in before if line.startswith((VERSION, LEFT))]
    try:
        cleanup = playbook("cleanup", "-l", "slurm", "-e", f"glidein_scratch={SCRATCH}", "--diff")
        assert f"-version {VERSION}: a version of the payload that no glidein uses" in cleanup.output
        assert f"-scratch {LEFT}: the glidein of batch job 1_1 was alive until" in cleanup.output
        assert (cleanup.rc, cleanup.recap["slurm"]["changed"]) == (0, 1), cleanup
        assert "1 version of the payload" in cleanup.summary and "1 scratch directory" in cleanup.summary
        assert slurm.check_output(look).splitlines() == [line for line in before if line not in gone]
    finally:
        slurm.check_output(f"rm -rf {SCRATCH} {VERSION}")
