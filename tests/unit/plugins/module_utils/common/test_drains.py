# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.drains import (
    check_drains,
    drain_of,
    drain_text,
    renewed,
    with_drain,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError

SITE = {"entry": None, "since": 1795211200, "by": "ada", "reason": "disks"}
ENTRY = {"entry": "RM", "since": 1795211260, "by": "", "reason": ""}


def test_the_text_has_the_known_fields():
    assert drain_text(SITE) == "drained by ada since 2026-11-20 21:46:40 UTC: disks"
    assert drain_text(ENTRY) == "drained since 2026-11-20 21:47:40 UTC"


def test_the_drain_of_the_site_applies_to_all_entries():
    assert drain_of([ENTRY, SITE], "RM") == drain_of([SITE], "GPU") == SITE
    assert drain_of([ENTRY], "RM") == ENTRY
    assert drain_of([ENTRY], "GPU") is drain_of([], "RM") is None


def test_there_is_one_drain_of_an_entry():
    assert with_drain([ENTRY], SITE) == with_drain([SITE], ENTRY) == [SITE, ENTRY]
    assert with_drain([SITE, ENTRY], dict(ENTRY, by="bob")) == [SITE, dict(ENTRY, by="bob")]


def test_only_another_reason_changes_a_drain():
    assert renewed(SITE, "bob", None) == renewed(SITE, "bob", "disks") == SITE
    assert renewed(SITE, "bob", "") == dict(SITE, by="bob", reason="")


@pytest.mark.parametrize(
    ("drains", "error"),
    [
        ({}, "x: {} is invalid; expected a list"),
        ([7], r"x\[0\]: 7 is invalid"),
        ([SITE, dict(ENTRY, entry="../x")], r"x\[1\].entry: '../x' is invalid; expected the name of an entry"),
        ([dict(SITE, since=True)], r"x\[0\].since: True is invalid; expected epoch seconds"),
        ([dict(SITE, since=10**15)], "expected epoch seconds"),
        ([dict(SITE, by=None)], r"x\[0\].by: None is invalid; expected one printable line"),
        ([dict(SITE, reason="a\x1b[31m")], r"x\[0\].reason: .* is invalid"),
    ],
)
def test_an_invalid_drain_is_quoted(drains, error):
    with pytest.raises(InputError, match=error):
        check_drains("x", drains)


def test_valid_drains_are_returned():
    assert check_drains("x", [SITE, ENTRY]) == [SITE, ENTRY]
