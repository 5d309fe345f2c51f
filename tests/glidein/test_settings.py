# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that an invalid setting ends a glidein at once, with one line that names it, before it writes anything."""

import os
import re
import subprocess

import pytest
from conftest import ROOT, SHELLS

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
    + [("GLIDEIN_GRACE_S", "30s"), ("GLIDEIN_MEMORY_OVERHEAD_MB", "5%")]
    + [("GLIDEIN_SITE", value) for value in ('a"b', "a b", ".a", "a\nb", "$(id)", "\u00e4")]
    + [("GLIDEIN_SCRATCH", value) for value in ("here", "/x/$(LOG)", "/x:/y", "/x\ny", '/x"y')]
    + [("GLIDEIN_LOG_DIR", "--"), ("GLIDEIN_LOG_S3", "form"), ("GLIDEIN_JOB_SETUP", "/x'y")]
)


@pytest.mark.parametrize(("name", "value"), BAD)
def test_an_invalid_setting_is_named(untouched_site, shell, name, value):
    status, output = untouched_site.run(shell, **{name: value})
    assert status == 10, output
    assert output.count("glidein: ") == 1
    assert name in output
    assert list(untouched_site.scratch.iterdir()) == []


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


HERE_DOCUMENT = re.compile(r"<<'?([A-Z]+)'?$.*?^\1$", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"(?:^|[\s;{(&|])([A-Z][A-Z0-9_]+)=|\bread -r (?:\w+ )*([A-Z][A-Z0-9_]+)")


def test_each_global_name_has_one_owner_and_the_readme_has_those_that_other_files_read():
    texts, owners = {}, {}
    for path in (ROOT / "files" / "glidein").rglob("*.sh"):
        text = re.sub(r"^ *#.*|^SETTINGS='[^']*'", "", path.read_text(), flags=re.MULTILINE)
        texts[path.name] = text
        for names in ASSIGNMENT.findall(HERE_DOCUMENT.sub("", text)):
            owners.setdefault("".join(names), set()).add(path.name)
    # The guard has the directory as an argument.
    own = {name: files - ({"guard.sh"} if name == "SCRATCH" else set()) for name, files in owners.items()}
    own = {name: files for name, files in own.items() if not re.match("GLIDEIN_|IFS|LC_ALL|PATH$", name)}
    assert [(name, files) for name, files in own.items() if len(files) > 1] == []
    read = {
        (owner, name)
        for name, (owner,) in own.items()
        if any(re.search(rf"\$(\{{|\(\([^)]*\b)?{name}\b", text) for file, text in texts.items() if file != owner)
    }
    rows = re.findall(r"^\| `(\w+\.sh)` \| (.*) \|$", (ROOT / "files/glidein/README.md").read_text(), re.MULTILINE)
    assert {(owner, name) for owner, text in rows for name in re.findall(r"`([A-Z_]+)`", text)} == read


def test_unknown_option_is_refused(shell):
    command = [*SHELLS[shell], str(ROOT / "files" / "glidein" / "glidein.sh"), "--verbose"]
    done = subprocess.run(command, stdout=-1, timeout=120, check=False)
    assert (done.returncode, done.stdout.decode().count("\n")) == (10, 1)
