# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import re
import subprocess

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import environment_word, scratch_word, sh_quote
from hypothesis import given, settings
from hypothesis import strategies as st

NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from("'\"\\$`;&|<>(){}[]*?!#~ \t\n\r=%"),
        st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"),
    ),
    max_size=40,
)


def printed_by_sh(script, environment=None):
    return subprocess.check_output(["/bin/sh", "-c", script], env=environment or {}).decode("utf-8")


@given(NASTY)
@settings(deadline=None)
def test_a_quoted_text_passes_a_shell_unchanged(text):
    assert printed_by_sh('value={0}; printf %s "$value"'.format(sh_quote(text))) == text


def test_nul_cannot_be_quoted():
    with pytest.raises(ValueError, match="NUL"):
        sh_quote("a\0b")


@pytest.mark.parametrize(
    "text, result",
    [
        ("/scratch/local", "/scratch/local"),
        ("${TMPDIR:-/var}", "/fast"),
        ("${LOCAL:-/var}", "/var"),
        ("${LOCAL:-$TMPDIR}/x", "/fast/x"),
        ("$TMPDIR/a b", "/fast/a b"),
        ("/scratch/${USER}", "/scratch/me"),
    ],
)
def test_scratch_is_expanded_on_the_compute_node(text, result):
    assert printed_by_sh("printf %s " + scratch_word(text), {"TMPDIR": "/fast", "USER": "me"}) == result


@pytest.mark.parametrize(
    "text, result",
    [
        ("", ""),
        ("/scratch/$USER/${JOB}.d", "/scratch/me/7[1].d"),
        ("$NOT_SET|", "|"),
        ("$USERS ${USER}S", " meS"),
        ("${USER:-x} $1 $$ $( $", "${USER:-x} $1 $$ $( $"),
        ("$(id)`id`'$USER'\\$USER", "$(id)`id`'me'\\me"),
        ("$STAR", "* `id` $(id)"),
    ],
)
def test_only_plain_variables_are_expanded_in_the_environment(text, result):
    environment = {"USER": "me", "JOB": "7[1]", "STAR": "* `id` $(id)"}
    assert printed_by_sh(f'value={environment_word(text)}; printf %s "$value"', environment) == result


@given(NASTY.filter(lambda text: not re.search(r"\$\{?[A-Za-z_]", text)))
@settings(deadline=None)
def test_an_environment_value_without_a_variable_is_unchanged(text):
    assert printed_by_sh(f'value={environment_word(text)}; printf %s "$value"') == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$(id)",
        "`id`",
        "/var;id",
        "/var\nid",
        '/a"b',
        "${X:=1}",
        "${X:-$(id)}",
        "/a'b",
        "/a\\b",
        "$",
        "${",
        "${X",
        "$1",
        "${X:-${Y:-/z}}",
        "/var&",
        "/var\n",
    ],
)
def test_scratch_that_could_run_something_is_refused(text):
    with pytest.raises(ValueError, match="variables"):
        scratch_word(text)


@given(NASTY)
@settings(deadline=None)
def test_scratch_never_runs_a_command(text):
    try:
        word = scratch_word(text)
    except ValueError:
        return
    # The value stays one word, and the shell writes no file.
    assert printed_by_sh("set -- {0}; printf %s $#".format(word)) == "1"
