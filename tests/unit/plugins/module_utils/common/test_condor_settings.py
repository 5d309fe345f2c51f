# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the operator's own HTCondor settings and ClassAd expressions: accepted ones, and refused ones."""

import re
import sys
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.condor_settings import (
    check_condor_config,
    config_lines,
    expression,
    is_expression,
    refusal,
)

try:
    import classad2
except ImportError:
    classad2 = None

PAYLOAD = Path(__file__).parents[5] / "files" / "glidein" / "lib"


def checked(raw):
    """Return (settings, errors)."""
    problems = []
    return check_condor_config(problems, "condor_config", raw), problems


def test_settings_are_text_with_names_in_capitals():
    raw = {"startd_debug": " D_FULLDEBUG ", "LOWPORT": 41000, "Startd.Update_Interval": 120.5, "A": True, "B": ""}
    assert checked(raw) == (
        {"STARTD_DEBUG": "D_FULLDEBUG", "LOWPORT": "41000", "STARTD.UPDATE_INTERVAL": "120.5", "A": "True", "B": ""},
        [],
    )


def test_lines_are_sorted():
    assert config_lines({"B": "", "A": "$(LOG)/x"}) == ["A = $(LOG)/x", "B ="]


def test_every_setting_of_the_glidein_is_refused():
    written = set()
    for path in PAYLOAD.glob("*.sh"):
        written.update(
            re.findall(r"^([A-Za-z_][A-Za-z0-9_.]*) =(?: |$)", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
    assert {"START", "SEC_PASSWORD_FILE", "STARTD_ATTRS", "is_glidein"} <= written
    assert [name for name in sorted(written) if refusal(name) is None] == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("allow_write", "control the glidein"),
        ("STARTD.SEC_DEFAULT_ENCRYPTION", "control the glidein"),
        ("Start", "use accept or accept_requirements"),
        ("MASTER.DAEMON_SHUTDOWN", "use idle_timeout and retirement"),
        ("NUM_CPUS", "use shapes"),
        ("GLIDEIN_Site", "counts and places glideins by it"),
        ("LOCAL_CONFIG_FILE", "the glidein sets it"),
        ("SLOT1_STARTD_ATTRS", "use attributes"),
        ("USER_JOB_WRAPPER", "use glidein_job_wrapper or job_setup"),
    ],
)
def test_a_refused_setting_has_a_reason(name, reason):
    (error,) = checked({name: "1"})[1]
    assert error.startswith(f"condor_config.{name}: this setting cannot be changed: ")
    assert reason in error


@pytest.mark.parametrize(
    "name",
    [
        "STARTD_DEBUG",
        "ALL_DEBUG",
        "LOWPORT",
        "HIGHPORT",
        "UPDATE_INTERVAL",
        "STARTER.STARTER_DEBUG",
        "NETWORK_INTERFACE",
        "FILETRANSFER_PLUGINS",
    ],
)
def test_other_settings_are_accepted(name):
    assert refusal(name) is None


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (["A"], "expected a mapping"),
        ({"A B": 1}, "name of condor_config.A B: 'A B' is invalid"),
        ({"use": "x"}, "name of condor_config.use: 'use' is invalid"),
        ({1: "x"}, "name of condor_config.1: 1 is invalid"),
        ({"A": "1\n2"}, "condor_config.A: '1\\n2' is invalid; expected text without line breaks"),
        ({"A": "1\\"}, "without a backslash at its end"),
        ({"A": None}, "condor_config.A: None is invalid"),
        ({"A": ["1"]}, "condor_config.A: ['1'] is invalid"),
        ({"A": float("nan")}, "condor_config.A: nan is invalid"),
        ({"A": 1, "a": 2}, "condor_config.a: the setting is there twice"),
    ],
)
def test_an_invalid_setting_is_named(raw, error):
    (found,) = checked(raw)[1]
    assert error in found


# -- ClassAd expressions -----------------------------------------------------------------------------------------------

# HTCondor's library, which is not on login nodes, parses them.
VALID = [
    "MY.VO",
    'VO isnt undefined && TARGET.Owner =?= "alice" || !(x =!= 5)',
    "a ? b : c",
    "max({RequestCpus, 4})",
    ".x",
]
INVALID = ["", " ", "a b", "a ==", "(a", "a)", "f(a,)", '"a', '"a"b"', "a = b", "a; b", "a, b", "a # b", "10K"]


@pytest.mark.skipif(classad2 is None, reason="needs the Python library htcondor")
@pytest.mark.parametrize("text, valid", [*((text, True) for text in VALID), *((text, False) for text in INVALID)])
def test_the_syntax_of_an_expression_is_checked(text, valid):
    assert is_expression(text) is valid


def test_without_the_library_the_syntax_is_not_checked(monkeypatch):
    monkeypatch.setitem(sys.modules, "classad2", None)
    assert is_expression("a ==")


@pytest.mark.parametrize("value", ["$(LOG)", "$ENV(HOME)", "a\tb", 5, True, ["a"], "x" * 10001])
def test_an_expression_has_no_macros_or_control_characters_and_is_text(value):
    with pytest.raises(ValueError, match=r"expected a ClassAd expression without \$\(\.\.\.\), such as TARGET.x"):
        expression("TARGET.x")(value)


def test_an_expression_becomes_one_line():
    assert expression("TARGET.x")(" a\n  && b\n") == "a   && b"
    assert expression("TARGET.x")("") is None
