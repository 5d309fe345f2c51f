# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a site's token is minted again, and how it is stored."""

import base64
import json

import pytest
import site_tokens as st

NOW = 1_800_000_000
DAY = 86400
WANTED = st.Wanted("glidein-a@pool", "pool", 30 * DAY, 15 * DAY, "key", 0)


def token(**changes):
    """Return a token in the format of HTCondor 23.9.6, minted a day ago for 30 days."""
    claims = {
        "exp": NOW + 29 * DAY,
        "iat": NOW - DAY,
        "iss": "pool",
        "jti": "0123",
        "scope": "condor:/ADVERTISE_MASTER condor:/ADVERTISE_STARTD",
        "sub": "glidein-a@pool",
    }
    claims.update(changes)
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "kid": "POOL"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in [*parts, b"signature"]) + "\n"


def test_good_token_is_kept():
    assert st.why_renew(token(), "key", WANTED, NOW) is None


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (None, "there is none"),
        ("", "no token"),
        ("a.b.c", "no token"),
        ("a.W10.c", "no token"),
        (token(exp=None), "no token"),
        (token(sub="glidein-b@pool"), "it is for glidein-b@pool"),
        (token(iss="other"), "of other"),
        (token(scope="condor:/ADVERTISE_STARTD"), "allows other things"),
        (token(scope="condor:/ADVERTISE_MASTER condor:/ADVERTISE_STARTD condor:/ADMINISTRATOR"), "allows other things"),
        (token(exp=NOW + 28 * DAY), "it lives"),
    ],
)
def test_an_invalid_token_is_replaced(stored, why):
    assert why in st.why_renew(stored, "key", WANTED, NOW)


@pytest.mark.parametrize(("left", "renewed"), [(15 * DAY, False), (15 * DAY - 1, True), (-5, True)])
def test_token_is_renewed_when_too_little_is_left(left, renewed):
    stored = token(iat=NOW + left - 30 * DAY, exp=NOW + left)
    assert (st.why_renew(stored, "key", WANTED, NOW) is not None) is renewed


@pytest.mark.parametrize(("until", "renewed"), [(NOW - DAY - 1, False), (NOW - DAY, True), (NOW, True)])
def test_token_that_was_issued_before_its_site_was_revoked_is_replaced(until, renewed):
    assert (st.why_renew(token(), "key", WANTED._replace(revoked=until), NOW) is not None) is renewed


def test_revocations_are_read_from_the_state_file_or_an_error(tmp_path):
    state = tmp_path / "revoked.json"
    assert st.read_revoked(state) == {}
    state.write_text('{"sites": {"a": {"before": 12, "denied": false, "machines": []}}}')
    assert st.read_revoked(state) == {"a": 12}
    state.write_text('{"sites": ["a"]}')
    with pytest.raises(st.TokenError, match="revoked.json cannot be read"):
        st.read_revoked(state)


@pytest.mark.parametrize("key", ["older key", None])
def test_token_of_another_signing_key_is_replaced(key):
    assert "signing key is another one" in st.why_renew(token(), key, WANTED, NOW)


@pytest.mark.parametrize(
    ("text", "expected"), [("30d", 30 * DAY), ("12h", 43200), ("90m", 5400), ("600s", 600), ("600", 600)]
)
def test_durations(text, expected):
    assert st.seconds(text) == expected


@pytest.mark.parametrize("text", ["", "d", "-1d", "1w", "1.5h", "1 d", "1d\n2"])
def test_bad_duration_is_quoted(text):
    with pytest.raises(ValueError, match="is no duration"):
        st.seconds(text)


def test_minting_names_identity_life_and_scopes_only():
    assert st.mint_command("glidein-a@pool", 60) == [
        "condor_token_create",
        "-identity",
        "glidein-a@pool",
        "-lifetime",
        "60",
        "-authz",
        "ADVERTISE_MASTER",
        "-authz",
        "ADVERTISE_STARTD",
    ]


def keep(directory, sites, check=False, only=False):
    return st.keep_tokens(
        directory,
        sites,
        lambda site: WANTED._replace(identity="glidein-{}@pool".format(site)),
        lambda wanted: token(sub=wanted.identity),
        NOW,
        check,
        only,
    )


def test_tokens_are_minted_once_and_removed_with_their_site(tmp_path):
    assert keep(tmp_path, ["a", "b"])["minted"] == {"a": "there is none", "b": "there is none"}
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"a": 0o600, "b": 0o600, st.KEYS: 0o600}
    assert keep(tmp_path, ["a", "b"]) == {"changed": False, "minted": {}, "removed": []}
    assert keep(tmp_path, ["b"]) == {"changed": True, "minted": {}, "removed": ["a"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == [st.KEYS, "b"]


def test_one_token_is_renewed_without_the_others(tmp_path):
    keep(tmp_path, ["a", "b"])
    (tmp_path / "a").unlink()
    assert keep(tmp_path, ["a"], only=True) == {"changed": True, "minted": {"a": "there is none"}, "removed": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == [st.KEYS, "a", "b"]


def test_check_mode_reports_what_would_change(tmp_path):
    (tmp_path / "old").write_text("x")
    assert keep(tmp_path, ["a"], check=True) == {"changed": True, "minted": {"a": "there is none"}, "removed": ["old"]}
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_check_before_the_directory_is_there(tmp_path):
    assert keep(tmp_path / "tokens", ["a"], check=True)["minted"] == {"a": "there is none"}


def test_all_tokens_are_renewed_when_the_signing_key_changes(tmp_path):
    keep(tmp_path, ["a", "b"])
    (tmp_path / st.KEYS).write_text('{"a": "key", "b": "older key"}')
    assert list(keep(tmp_path, ["a", "b"])["minted"]) == ["b"]
    (tmp_path / st.KEYS).write_text("not json")
    assert list(keep(tmp_path, ["a", "b"])["minted"]) == ["a", "b"]


def test_token_that_others_can_read_is_replaced(tmp_path):
    keep(tmp_path, ["a"])
    (tmp_path / "a").chmod(0o644)
    assert keep(tmp_path, ["a"])["minted"] == {"a": "others could read it"}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_failure_reports_the_command_and_its_stderr_but_not_its_stdout(tmp_path):
    with pytest.raises(st.TokenError) as caught:
        st.run(["sh", "-c", "echo secret; echo no key >&2; exit 3", "condor_token_create"])
    assert "exit status 3: no key" in str(caught.value)
    assert "secret\n" not in str(caught.value)
