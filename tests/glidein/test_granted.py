# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is offered to jobs: what was asked for, or what an outer HTCondor says that it gave."""

import subprocess

import pytest
from conftest import ROOT, SHELLS

ASKED = {"CPUS": 2, "MEMORY_MB": 1000, "DISK_MB": 5000, "GPUS": 1}
# Lines of the machine ad of a dynamic slot of HTCondor 23.9.6, for a job that asked for 1000 MB.
AD = """\
AcceptedWhileDraining = false
Cpus = 2
DetectedCpus = 2
Disk = 5223424
DiskUsage = 3
GPUs = 1
Machine = "htc"
Memory = 1024
TotalCpus = 32.0
TotalMemory = 64000
TotalSlotCpus = 2
"""


def granted(shell, path, ad=AD, how="machine_ad"):
    """What the settings are after take_granted, and what it said."""
    if ad is not None:
        path.write_text(ad)
    script = '. "$0/report.sh"; . "$0/granted.sh"; take_granted; echo "= $GLIDEIN_CPUS $GLIDEIN_MEMORY_MB '
    script += '$GLIDEIN_DISK_MB $GLIDEIN_GPUS"'
    environment = {"GLIDEIN_" + key: str(value) for key, value in ASKED.items()}
    environment.update(PATH="/usr/bin:/bin", GLIDEIN_GRANTED=how, _CONDOR_MACHINE_AD=str(path))
    command = [*SHELLS[shell], "-u", "-c", script, str(ROOT / "files" / "glidein" / "lib")]
    done = subprocess.run(command, env=environment, stdout=-1, stderr=-1, timeout=10, check=True)
    assert done.stderr == b""
    said, values = done.stdout.decode().rsplit("= ", 1)
    return [int(value) for value in values.split()], said


def test_what_was_given_is_offered(shell, tmp_path):
    # Disk: in KiB, less what the glidein itself takes.
    assert granted(shell, tmp_path / "ad") == ([2, 1024, 5001, 1], "")


def test_without_being_told_to_nothing_is_read(shell, tmp_path):
    assert granted(shell, tmp_path / "ad", how="asked") == (list(ASKED.values()), "")


def test_more_or_less_than_was_asked_for(shell, tmp_path):
    assert granted(shell, tmp_path / "ad", "Cpus = 8.0\nMemory = 512\nGPUs = 0\n") == ([8, 512, 5000, 0], "")


def test_without_an_ad_it_goes_by_what_was_asked_for(shell, tmp_path):
    values, said = granted(shell, tmp_path / "nowhere", None)
    assert values == list(ASKED.values())
    assert "there is no machine ad to read" in said


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        "1e9",
        "undefined",
        "RequestCpus",
        '"8"',
        "08",
        "8 8",
        "1" * 16,
        "99999",
        "$(id)",
        "1.x",
        ".5",
        "8\nCpus = 9",
    ],
)
def test_nonsense_is_not_believed(shell, tmp_path, value):
    values, said = granted(shell, tmp_path / "ad", AD.replace("\nCpus = 2\n", "\nCpus = " + value + "\n"))
    assert values == [2, 1024, 5001, 1]
    assert "the machine ad's Cpus makes no sense" in said


def test_too_little_disk_to_be_true(shell, tmp_path):
    values, said = granted(shell, tmp_path / "ad", AD.replace("5223424", "1024"))
    assert values == [2, 1024, 5000, 1]
    assert "Disk makes no sense" in said


def test_an_empty_ad_says_nothing(shell, tmp_path):
    assert granted(shell, tmp_path / "ad", "") == (list(ASKED.values()), "")
