# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the state of revoked sites and of the settings derived from it."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager import revocations
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError

NOW = 1_800_000_000
MACHINE = "glidein_7@node"


def site(before, denied, machines=()):
    return {"before": before, "denied": denied, "machines": list(machines)}


@pytest.mark.parametrize(
    ("sites", "revoked", "following"),
    [
        ({}, [], {}),
        ({}, ["a"], {"a": site(NOW, True)}),
        # The time of the first run is kept; later runs do not change it.
        ({"a": site(5, True, [MACHINE])}, ["a"], {"a": site(5, True, [MACHINE])}),
        # A site that is trusted again needs a newer token, because a stolen one may have been used to request another.
        ({"a": site(5, True, [MACHINE])}, [], {"a": site(NOW, False)}),
        ({"a": site(5, False)}, [], {"a": site(5, False)}),
        # A site that is removed from the inventory stays revoked.
        ({"left": site(5, True, [MACHINE])}, [], {"left": site(5, True, [MACHINE])}),
        ({"a": site(5, False), "b": site(6, True)}, ["a", "b"], {"a": site(NOW, True), "b": site(6, True)}),
    ],
)
def test_state_follows_the_inventory(sites, revoked, following):
    assert revocations.revised(sites, set(revoked), {"a", "b"}, NOW) == following


def test_tokens_older_than_the_current_one_are_withdrawn_and_the_site_stays_trusted():
    state = {"a": site(5, False), "b": site(6, True), "c": site(NOW, False)}
    issued = {"a": 100, "b": 100, "c": 100, "d": 100}
    # The older token of a gateway stays valid. A gateway of a site without tokens for glideins changes nothing.
    gateways_issued = {"a": 150, "d": 50, "password": 50}
    following = revocations.revised(state, {"b"}, {"a", "b", "c", "d"}, NOW, issued, gateways_issued)
    assert following == {"a": site(99, False), "b": site(6, True), "c": site(NOW, False), "d": site(49, False)}


def test_state_is_kept_privately_and_read_back(tmp_path):
    assert revocations.read_state(str(tmp_path)) == {}
    revocations.write_state(str(tmp_path), {"a": site(5, True, [MACHINE])})
    assert (tmp_path / "revoked.json").stat().st_mode & 0o777 == 0o600
    assert revocations.read_state(str(tmp_path)) == {"a": site(5, True, [MACHINE])}
    assert [each.name for each in tmp_path.iterdir()] == ["revoked.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"sites": {"a": {}}}', '{"sites": {"a": {"before": "x"}}}'])
def test_a_damaged_state_is_an_error_and_not_forgotten(tmp_path, text):
    (tmp_path / "revoked.json").write_text(text)
    with pytest.raises(GlideinError, match="cannot be read"):
        revocations.read_state(str(tmp_path))


def test_the_digest_depends_on_what_the_configuration_has_of_the_state_only():
    digest = revocations.configuration_digest({"b": site(5, True, [MACHINE]), "a": site(7, False)})
    assert digest == revocations.configuration_digest({"a": site(7, False), "b": site(5, True)})
    assert digest != revocations.configuration_digest({"a": site(8, False), "b": site(5, True)})
    assert digest != revocations.configuration_digest({"a": site(7, False), "b": site(5, False)})


def test_the_diff_has_the_sites_that_differ():
    before = {"a": site(5, True), "b": site(6, True)}
    after = {"a": site(5, True), "b": site(9, False), "c": site(9, True)}
    assert revocations.diff(before, after) == {
        "before": "b: revoked, tokens issued until 1970-01-01 00:00:06 UTC are refused\n",
        "after": "b: trusted, tokens issued until 1970-01-01 00:00:09 UTC are refused\n"
        "c: revoked, tokens issued until 1970-01-01 00:00:09 UTC are refused\n",
    }


def test_sites_that_are_refused_altogether_are_listed():
    assert revocations.denied_sites({"a": site(5, False), "b": site(6, True)}) == ["b"]
