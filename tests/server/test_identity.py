# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that a glidein belongs to the site whose identity authenticated."""

import pytest
from glidein_demand.pool.identity import slot_owner, token_site

from conftest import slot
from supply_ads import pool_of, summary


def of(identity, **changes):
    return slot(AuthenticatedIdentity=identity, **changes)


@pytest.mark.parametrize(
    "identity, site",
    [
        ("glidein-A@pool.example.org", "A"), ("glidein-PSC-Bridges_2.x@cm", "PSC-Bridges_2.x"),
        ("condor@password", None), ("condor_pool@cm", None), ("glidein-@cm", None), ("xglidein-A@cm", None),
        ("glidein-A", None), ("glidein-A@cm@evil", None), ("glidein-A@cm\n", None), ("glidein-a b@cm", None),
        (5, None), (None, None),
    ],
)  # fmt: skip
def test_only_a_tokens_identity_names_a_site(identity, site):
    assert token_site(of(identity)) == site


def test_the_token_decides_the_site_and_not_the_ad():
    mine = slot_owner(of("glidein-B@pool", GLIDEIN_Site="A"), {"A", "B"})
    assert mine.key == ("B", "q", "s")
    assert mine.problem == "a glidein with the token of site B claims the site 'A': 'glidein_1@node1'"
    assert slot_owner(of("glidein-B@pool", GLIDEIN_Site="B"), {"B"}) == (("B", "q", "s"), None)


@pytest.mark.parametrize("identity", ["condor@password", "condor_pool@cm", "submit@cm", None])
def test_other_identities_of_the_pool_are_believed(identity):
    assert slot_owner(of(identity), set()) == (("A", "q", "s"), None)


def test_only_the_token_proves_the_site_if_it_has_one():
    liar = slot_owner(of("condor@password"), {"A"})
    assert liar.key is None
    assert liar.problem == (
        "a machine claims the site A, which has used its own token, but authenticated as 'condor@password': "
        "'glidein_1@node1'"
    )


def test_a_token_seen_in_the_same_reading_is_enough():
    found = summary([of("glidein-A@pool"), of("condor@password", Name="slot1@other@n", Machine="n")])
    assert [(entry["site"], entry["registered"]) for entry in found["entries"]] == [("A", 1)]
    assert (found["others"], len(found["problems"])) == (1, 1)


def test_a_token_seen_earlier_is_enough():
    assert pool_of([of("condor@password")], ["A"]).glideins == {}


def test_a_machine_with_a_token_that_names_no_entry_is_shown():
    found = slot_owner(of("glidein-A@pool", GLIDEIN_Entry=None), set())
    assert found == (None, "a machine with the token of site A has no entry and shape: 'glidein_1@node1'")


@pytest.mark.parametrize("name", ["<b>", "a b", "", "é", "x" * 65, "q\n"])
def test_an_invalid_name_is_not_a_glidein(name):
    assert slot_owner(of("condor@password", GLIDEIN_Entry=name), set()).key is None
    assert slot_owner(of("condor@password", GLIDEIN_Site=name), set()).key is None


def test_problems_hold_nothing_but_visible_ascii():
    problem = slot_owner(
        of("glidein-A@pool", GLIDEIN_Site="<b>\u202e\n" + "x" * 500, Name="slot1@\x00\n@n"), set()
    ).problem
    assert problem.isascii()
    assert problem.isprintable()
    assert len(problem) < 400
