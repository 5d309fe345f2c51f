# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the version query for another Python of a login node."""

import sys

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, OutputError
from ansible_collections.glidein.ops.plugins.modules.login_node_info import describe_python

RUNNER = Runner({"PATH": "/usr/bin:/bin"})


def test_version_machine_and_libc():
    found = describe_python(sys.executable, RUNNER)
    assert found["python"] == "{}.{}".format(*sys.version_info[:2])
    assert found["machine"]
    assert set(found["libc"]) <= set("0123456789.")


def test_a_python_that_is_missing():
    with pytest.raises(CommandError, match="/opt/none/python3 - could not be started: No such file"):
        describe_python("/opt/none/python3", RUNNER)


def test_a_command_other_than_python():
    with pytest.raises(OutputError, match="cat is not a Python: it printed"):
        describe_python("cat", RUNNER)
