# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The syntax check of ClassAd expressions, by HTCondor's library where it is installed."""

import sys

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.condor_settings import expression, is_expression

try:
    import classad2
except ImportError:
    classad2 = None

VALID = [
    "true",
    "MY.VO",
    'VO is "icecube"',
    'VO isnt undefined && TARGET.Owner =?= "alice" || !(x =!= 5)',
    "(MY.RequestGPUs ?: 0) >= 1",
    "-5 * (2 + ~3)",
    "1.5e3 + .5 - 10",
    "a ? b : c ? d : e",
    "a ? (b ? c : d) : e",
    "max({RequestCpus, 4})",
    "time()",
    "{}",
    "{1, 2}[0]",
    "[a = 1; b = 2].a",
    "[a = 1; b = {1};]",
    "[]",
    'strcat("a\\"b", \'odd name\')',
    'userMap("m", MY.VO, MY.x) ?: "y"',
    "size(split(x))[1]",
    "a.b.c",
    ".x",
    "x >> 1 >>> 2 << 3 ^ 4 | 5 & 6 % 7 / 8",
    "NotIs == IsIt",
]
INVALID = [
    "",
    " ",
    "a b",
    "a ==",
    "== a",
    "(a",
    "a)",
    "f(a,)",
    "f(,a)",
    "(a]",
    "()",
    "a ? b",
    "a : b",
    "(a ? b) : c",
    '"a',
    '"a"b"',
    "a = b",
    "a; b",
    "a, b",
    "a @ b",
    "a $ b",
    "a # b",
    "a ! b",
    "5(1)",
    "a {1}",
    "x is",
    "10K",
]


needs_library = pytest.mark.skipif(classad2 is None, reason="needs the Python library htcondor")


@needs_library
@pytest.mark.parametrize("text", VALID)
def test_an_expression_is_accepted(text):
    assert is_expression(text)


@needs_library
@pytest.mark.parametrize("text", INVALID)
def test_text_that_is_not_an_expression_is_refused(text):
    assert not is_expression(text)


def test_without_the_library_the_syntax_is_not_checked(monkeypatch):
    monkeypatch.setitem(sys.modules, "classad2", None)
    assert is_expression("a ==")


@pytest.mark.parametrize("value", ["$(LOG)", "$ENV(HOME)", "a\tb", 5, True, ["a"], "x" * 10001])
def test_the_type_refuses_macros_control_characters_and_other_types(value):
    with pytest.raises(ValueError, match=r"expected a ClassAd expression without \$\(\.\.\.\), such as TARGET.x"):
        expression("TARGET.x")(value)


def test_the_type_returns_one_line():
    assert expression("TARGET.x")(" a\n  && b\n") == "a   && b"
    assert expression("TARGET.x")("") is None
