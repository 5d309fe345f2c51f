# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of reading HTCondor's settings from the files and from a running daemon."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor, words
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, OutputError
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

# As condor_config_val of 23.9.6 prints it.
COMMAND = r"""#!/bin/sh
case "$*" in
UID_DOMAIN) echo pool ;;
"-collector UID_DOMAIN") echo running ;;
"-collector NOPE") echo 'Not defined' ;;
BROKEN) echo 'Configuration Error Line 3' >&2; exit 1 ;;
*) echo "Not defined: $1" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def condor(tmp_path, monkeypatch):
    write_program(tmp_path / "condor_config_val", COMMAND)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return Condor()


def test_settings_of_files_and_of_a_running_daemon(condor):
    assert condor.setting("UID_DOMAIN") == "pool"
    assert condor.setting("UID_DOMAIN", "collector") == "running"


@pytest.mark.parametrize("daemon", [None, "collector"])
def test_an_undefined_setting_returns_none(condor, daemon):
    assert condor.setting("NOPE", daemon) is None


def test_a_required_setting_that_is_undefined_is_named(condor):
    assert condor.required_setting("UID_DOMAIN") == "pool"
    with pytest.raises(OutputError, match="no NOPE"):
        condor.required_setting("NOPE")


def test_another_failure_is_an_error(condor):
    with pytest.raises(CommandError, match="Configuration Error Line 3"):
        condor.setting("BROKEN")


def test_a_command_reads_its_standard_input(condor):
    assert condor.run(["cat"], "an ad\n") == "an ad\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, []), ("", []), ("a", ["a"]), ("a, b  c,d", ["a", "b", "c", "d"])],
)
def test_items_of_a_list(value, expected):
    assert words(value) == expected
