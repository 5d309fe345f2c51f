# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that an invalid setting ends a glidein at once, with one line that names it, before it writes anything."""

import os
import re
import subprocess

import pytest
from conftest import ROOT, SHELLS
from test_endings import assert_ended

NAMES = ["GLIDEIN_DEPLOYMENT", "GLIDEIN_SITE", "GLIDEIN_ENTRY", "GLIDEIN_SHAPE"]
NUMBERS = [
    "GLIDEIN_CPUS",
    "GLIDEIN_MEMORY_MB",
    "GLIDEIN_DISK_MB",
    "GLIDEIN_GPUS",
    "GLIDEIN_WALLTIME_S",
    "GLIDEIN_RETIREMENT_S",
    "GLIDEIN_IDLE_TIMEOUT_S",
]
PATHS = ["GLIDEIN_HOME", "GLIDEIN_SCRATCH", "GLIDEIN_LOG_DIR"]
MAY_BE_EMPTY = ["GLIDEIN_CREDENTIAL", "GLIDEIN_ATTRIBUTES"]
OTHERS = ["GLIDEIN_COLLECTOR", "GLIDEIN_BATCH_ID"]
BAD = (
    [(name, None) for name in NAMES + NUMBERS + PATHS + MAY_BE_EMPTY + OTHERS]
    + [(name, "") for name in NAMES + NUMBERS + PATHS + OTHERS]
    + [(name, value) for name in NUMBERS[:5:4] for value in ("4x", "-1", "1.5", "08", "1" * 16, "1e3", "1\n2")]
    + [("GLIDEIN_CPUS", "0"), ("GLIDEIN_GPUS", "-1"), ("GLIDEIN_REGISTER_S", "0"), ("GLIDEIN_RETIREMENT_S", "3600")]
    + [
        ("GLIDEIN_IDLE_AFTER_JOB_S", "5m"),
        ("GLIDEIN_GRACE_S", "0"),
        ("GLIDEIN_GRACE_S", "30s"),
        ("GLIDEIN_GRANTED", "all"),
        ("GLIDEIN_LOG_DIR", "--"),
        ("GLIDEIN_LOST_S", "-1"),
        ("GLIDEIN_LOST_S", "20m"),
        ("GLIDEIN_LOG_MB", "0"),
        ("GLIDEIN_LOG_INTERVAL_S", "5m"),
        ("GLIDEIN_LOG_S3", "form"),
        ("GLIDEIN_MEMORY_OVERHEAD_MB", "5%"),
        ("GLIDEIN_MIN_DISK_MB", "-1"),
    ]
    + [("GLIDEIN_SITE", value) for value in ('a"b', "a b", ".a", "a\nb", "$(id)", "\u00e4")]
    + [("GLIDEIN_SCRATCH", value) for value in ("here", "/x/$(LOG)", "/x:/y", "/x\ny", '/x"y')]
    + [("GLIDEIN_CREDENTIAL", value) for value in ("relative", "/x/`id`")]
    + [(name, value) for name in ("GLIDEIN_START", "GLIDEIN_RANK") for value in ("$(LOG)", "True\nALLOW_WRITE = *")]
    + [("GLIDEIN_NOTICE_TO_ALL", value) for value in ("USR1;id", "usr1", "USR1\nid")]
    + [("GLIDEIN_SITE_RESOURCE", "a b"), ("GLIDEIN_JOB_SETUP", "setup.sh"), ("GLIDEIN_JOB_SETUP", "/x'y")]
    + [("GLIDEIN_GPU_DISCOVERY", value) for value in ("-extra; id", "-x\n-y", "'")]
    + [("GLIDEIN_CVMFS", value) for value in ("../etc", "a.org\nb.org", "a.org,b.org")]
    + [("GLIDEIN_IMAGE", value) for value in ("-B/", "a b", "$(id)", "x'y")]
    + [("GLIDEIN_JOB_ENVIRONMENT", value) for value in ("X", "1X=2", "X Y=1", "=1", "A=1\nB")]
    + [("GLIDEIN_CONDOR_CONFIG", value) for value in ("X", "1X = 2", "= 3", "A B = 1", "A = 1\\", "A = 1\nB: 2")]
    + [("GLIDEIN_COLLECTOR", value) for value in ("a b", "host:port", ":9618", "host:", "a:1:2", "a,b", "a\nb")]
    + [
        ("GLIDEIN_ATTRIBUTES", value)
        for value in ("X", "1X = 2", "X = ", "X = $(LOG)", "X = 1\\", "X-Y = 1", "= 3", 'A = 1\nB == "x"')
    ]
)


@pytest.mark.parametrize(("name", "value"), BAD)
def test_an_invalid_setting_is_named(untouched_site, shell, name, value):
    status, output = untouched_site.run(shell, **{name: value})
    assert status == 10, output
    assert output.count("glidein: ") == 1
    assert name in output
    assert list(untouched_site.scratch.iterdir()) == []


def test_a_missing_job_setup_ends_the_glidein(site, shell):
    missing = "/nowhere/setup.sh"
    assert_ended(
        site, *site.run(shell, GLIDEIN_JOB_SETUP=missing), 11, "GLIDEIN_JOB_SETUP={} is missing".format(missing)
    )


@pytest.mark.parametrize("name", ["is_glidein", "START", "log", "GLIDEIN_SITE"])
def test_attribute_must_not_be_a_setting_of_the_glidein(site, shell, name):
    status, output = site.run(shell, GLIDEIN_ATTRIBUTES=name + " = 1")
    assert status == 10
    assert name.upper() in output.splitlines()[-1]


def test_root_is_refused(site, shell):
    if os.getuid() != 0:
        pytest.skip("only root can start a glidein as root")
    site_env = site.settings()
    done = subprocess.run(
        [*SHELLS[shell], str(site.home / "glidein.sh")], env=site_env, stdout=-1, timeout=120, check=False
    )
    assert done.returncode == 10
    assert b"user is root" in done.stdout


def test_every_setting_of_a_glidein_is_in_the_table():
    """Compare the table of settings.sh with the variables that the scripts use."""
    settings, *others = [
        path.read_text()
        for path in sorted((ROOT / "files" / "glidein").rglob("*.sh"), key=lambda path: path.name != "settings.sh")
    ]
    others = "\n".join(others)
    listed = set(re.findall(r"^(GLIDEIN_[A-Z0-9_]+)  ", settings, re.MULTILINE))
    used = set(re.findall(r"\$\{?(GLIDEIN_[A-Z0-9_]+)\b", others))
    assert used - listed == {"GLIDEIN_STARTED_AT", "GLIDEIN_SCRATCH_MADE", "GLIDEIN_IMAGE_CACHE"}
    assert [name for name in listed if name not in others and settings.count(name) == 1] == []


def test_unknown_option_is_refused(shell):
    command = [*SHELLS[shell], str(ROOT / "files" / "glidein" / "glidein.sh"), "--verbose"]
    done = subprocess.run(command, stdout=-1, timeout=120, check=False)
    assert (done.returncode, done.stdout.decode().count("\n")) == (10, 1)
