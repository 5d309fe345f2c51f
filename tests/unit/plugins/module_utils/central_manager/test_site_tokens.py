# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of when a site's token is minted again and how it is stored."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager import site_tokens as st
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError
from ansible_collections.glidein.ops.tests.unit.support import builders

NOW = 1_800_000_000
DAY = 86400
WANTED = st.Wanted("glidein-a@pool", "pool", 30 * DAY, 15 * DAY, "key", 0, "glidein")
OF_GATEWAY = WANTED._replace(identity="gateway-a@pool", kind="gateway")
SCOPE = "condor:/ADVERTISE_MASTER condor:/ADVERTISE_STARTD"


def token(**changes):
    """Return a token as HTCondor 23.9.6 makes it, minted a day ago for 30 days."""
    claims = {"exp": NOW + 29 * DAY, "iat": NOW - DAY, "scope": SCOPE, "sub": "glidein-a@pool"}
    return builders.token(**{**claims, **changes})


def with_left(seconds):
    """Return a token that expires after these seconds."""
    return token(iat=NOW + seconds - 30 * DAY, exp=NOW + seconds)


@pytest.mark.parametrize(
    ("stored", "wanted", "why"),
    [
        (token(), WANTED, None),
        (None, WANTED, "no token"),
        *((text, WANTED, "the file has no token that expires") for text in ("", "a.b.c", "a.W10.c", token(exp=None))),
        (token(sub="glidein-b@pool"), WANTED, "it is for glidein-b@pool of pool"),
        (token(iss="other"), WANTED, "it is for glidein-a@pool of other"),
        (token(scope="condor:/ADVERTISE_STARTD"), WANTED, "it has other scopes"),
        (token(scope=f"{SCOPE} condor:/ADMINISTRATOR"), WANTED, "it has other scopes"),
        # A gateway needs other scopes than a glidein.
        (token(sub="gateway-a@pool"), OF_GATEWAY, "it has other scopes"),
        (
            token(sub="gateway-a@pool", scope="condor:/ADVERTISE_MASTER condor:/ADVERTISE_SCHEDD condor:/READ"),
            OF_GATEWAY,
            None,
        ),
        (token(exp=NOW + 28 * DAY), WANTED, f"its lifetime is {29 * DAY} s, not {30 * DAY} s"),
        (with_left(15 * DAY), WANTED, None),
        (with_left(15 * DAY - 1), WANTED, f"it expires in {15 * DAY - 1} s"),
        (with_left(-5), WANTED, "it has expired"),
        # Issued before or after its site was revoked.
        (token(), WANTED._replace(revoked=NOW - DAY - 1), None),
        *((token(), WANTED._replace(revoked=until), "it was revoked") for until in (NOW - DAY, NOW)),
    ],
)
def test_a_token_is_replaced_for_a_reason(stored, wanted, why):
    assert st.renewal_reason(stored, "key", wanted, NOW) == why


@pytest.mark.parametrize("key", ["older key", None])
def test_token_of_another_signing_key_is_replaced(key):
    assert st.renewal_reason(token(), key, WANTED, NOW) == "the signing key has changed"


@pytest.mark.parametrize(
    ("changes", "scopes", "more"),
    [
        ({}, ["ADVERTISE_MASTER", "ADVERTISE_STARTD"], []),
        ({"kind": "gateway"}, ["ADVERTISE_MASTER", "ADVERTISE_SCHEDD", "READ"], []),
        ({"key_name": "glidein-ops-1"}, ["ADVERTISE_MASTER", "ADVERTISE_STARTD"], ["-key", "glidein-ops-1"]),
    ],
)
def test_minting_names_identity_life_scopes_and_another_key_only(changes, scopes, more):
    argv = ["condor_token_create", "-identity", "x@pool", "-lifetime", "60"]
    argv += [word for scope in scopes for word in ("-authz", scope)]
    assert st.mint_command("x@pool", 60, **changes) == argv + more


def update(directory, sites, check=False, purge=True, replace=False):
    wanted = {site: WANTED._replace(identity=f"glidein-{site}@pool") for site in sites}
    report = st.update_tokens(
        st.TokenStore(str(directory)), wanted, lambda wanted: token(sub=wanted.identity), NOW, purge, check, replace
    )
    assert set(report.pop("issued").values()) <= {NOW - DAY, None}
    return report


@pytest.fixture
def tokens(tmp_path):
    return tmp_path / "tokens"


def test_tokens_are_minted_once_and_removed_with_their_site(tokens):
    assert update(tokens, ["a", "b"])["minted"] == {"a": "no token", "b": "no token"}
    modes = {path.name: path.stat().st_mode & 0o777 for path in tokens.iterdir()}
    assert modes == {"a": 0o600, "b": 0o600, st.KEYS: 0o600}
    assert tokens.stat().st_mode & 0o777 == 0o700
    assert update(tokens, ["a", "b"]) == {"changed": False, "minted": {}, "removed": []}
    assert update(tokens, ["b"]) == {"changed": True, "minted": {}, "removed": ["a"]}
    assert sorted(path.name for path in tokens.iterdir()) == [st.KEYS, "b"]


def test_the_temporary_file_of_an_interrupted_run_is_no_site(tokens):
    update(tokens, ["a"])
    (tokens / ".a4k2j1x0").write_text("")
    assert update(tokens, ["a"]) == {"changed": False, "minted": {}, "removed": []}


def test_one_token_is_renewed_without_the_others(tokens):
    update(tokens, ["a", "b"])
    (tokens / "a").unlink()
    assert update(tokens, ["a"], purge=False) == {"changed": True, "minted": {"a": "no token"}, "removed": []}
    assert sorted(path.name for path in tokens.iterdir()) == [st.KEYS, "a", "b"]


def test_check_mode_only_reports_what_would_change(tokens):
    assert update(tokens, ["a"], check=True) == {"changed": True, "minted": {"a": "no token"}, "removed": []}
    assert not tokens.exists()
    update(tokens, ["old"])
    assert update(tokens, ["a"], check=True) == {"changed": True, "minted": {"a": "no token"}, "removed": ["old"]}
    assert sorted(path.name for path in tokens.iterdir()) == [st.KEYS, "old"]


def test_valid_tokens_are_replaced_if_this_is_requested(tokens):
    update(tokens, ["a", "b"])
    expected = {"changed": True, "minted": {"a": "all tokens are replaced"}, "removed": []}
    assert update(tokens, ["a"], purge=False, replace=True) == expected


def test_the_times_of_issue_are_reported(tokens):
    wanted = {site: WANTED._replace(identity=f"glidein-{site}@pool") for site in ("a", "b")}
    update(tokens, ["a"])
    (tokens / "c").write_text("no token")
    store = st.TokenStore(str(tokens))
    assert [store.issued(site) for site in ("a", "b", "c")] == [NOW - DAY, None, None]
    report = st.update_tokens(store, wanted, None, NOW, purge=False, check_mode=True)
    assert report["issued"] == {"a": NOW - DAY, "b": None}


def test_the_diff_names_sites_and_reasons_and_no_token():
    report = {"minted": {"a": "no token", "b": "it expires in 10 s"}, "removed": ["c"]}
    assert st.diff(report) == {
        "before": "b: it expires in 10 s\nc: token of a site that no longer needs one\n",
        "after": "a: new token\nb: new token\n",
    }


def test_a_token_that_other_users_could_read_is_replaced(tokens):
    update(tokens, ["a"])
    (tokens / "a").chmod(0o640)
    assert update(tokens, ["a"])["minted"] == {"a": "other users could read it"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "older"}'])
def test_tokens_are_minted_again_if_the_keys_file_is_damaged(tokens, text):
    update(tokens, ["a"])
    (tokens / st.KEYS).write_text(text)
    assert update(tokens, ["a"])["minted"] == {"a": "the signing key has changed"}


class Condor:
    """HTCondor's commands with answers that the test sets."""

    def __init__(self, key, answer):
        self.settings = {
            "UID_DOMAIN": "pool",
            "TRUST_DOMAIN": "pool, other",
            "SEC_TOKEN_POOL_SIGNING_KEY_FILE": str(key),
        }
        self.answer = answer

    def required_setting(self, name):
        return self.settings[name]

    def run(self, argv):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def mint(tmp_path):
    """Return a function that creates a Mint whose condor_token_create prints or raises the given value."""
    key = tmp_path / "POOL"
    key.write_bytes(b"the key")
    return lambda answer: st.Mint(Condor(key, answer), lambda: NOW)


def test_a_minted_token_is_checked(mint):
    good = mint(token())
    wanted = good.wanted("a", 30 * DAY, 15 * DAY, 0)
    assert wanted == WANTED._replace(key=good.key)
    assert good(wanted) == token().strip()
    with pytest.raises(st.TokenError, match="invalid token for glidein-a@pool: it is for glidein-b@pool"):
        mint(token(sub="glidein-b@pool"))(wanted)


def test_the_error_of_a_failed_command_has_no_standard_output(mint):
    failure = CommandError("condor_token_create failed", ["condor_token_create"], 1, token(), "no signing key")
    failing = mint(failure)
    with pytest.raises(st.TokenError, match="exit status 1: no signing key") as raised:
        failing(failing.wanted("a", 60, 30, 0))
    assert token().split(".")[1] not in str(raised.value)
    assert raised.value.details() == {}


def test_a_missing_signing_key_is_named(mint, tmp_path):
    (tmp_path / "POOL").unlink()
    with pytest.raises(st.TokenError, match="SEC_TOKEN_POOL_SIGNING_KEY_FILE=.*POOL cannot be read"):
        mint("")
