# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import hashlib
import re
import threading

import pytest
from glidein_demand.store import tokens as module
from glidein_demand.store.database import Database
from glidein_demand.store.schema import metadata
from glidein_demand.store.tokens import Caller, TokenError, Tokens
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from databases import NOW, SERVER

SECRETS = {name: f"correct-horse-battery-{name}" for name in ("A", "B", "C", "D")}
_table = metadata.tables["token"]


@pytest.fixture
def tokens(database, clock):
    return Tokens(database, clock)


def test_a_made_token_is_recognised_and_no_other(tokens):
    secret = tokens.create("PSC-Bridges")
    reader = tokens.create("prometheus", "reader")
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", secret)
    assert tokens.identify(secret) == Caller("PSC-Bridges", "site")
    assert tokens.identify(reader) == Caller("prometheus", "reader")
    wrong = (
        "",
        secret[:-1],
        secret + "x",
        secret.swapcase(),
        "\ud800",
        "é",
        hashlib.sha256(secret.encode()).hexdigest(),
    )
    assert [tokens.identify(one) for one in wrong] == [None] * len(wrong)


def test_a_name_has_one_token(tokens):
    first = tokens.create("A")
    with pytest.raises(TokenError, match="A already has a token; revoke it first"):
        tokens.create("A")
    tokens.revoke("A")
    with pytest.raises(TokenError, match="unknown token 'A'"):
        tokens.revoke("A")
    second = tokens.create("A")
    assert second != first
    assert tokens.identify(first) is None


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 65, "a\n", "é", None, 3, "<b>"])
def test_a_name_must_be_valid_for_sites(tokens, name):
    with pytest.raises(TokenError, match="is not a valid name"):
        tokens.create(name)
    with pytest.raises(TokenError, match="is not a valid name"):
        tokens.install({name: "x" * 32})


def test_changes_by_another_process_count_at_once(tokens, database_url):
    other = Tokens(Database(database_url))
    assert other.identify("nothing") is None
    secret = tokens.create("A")
    assert other.identify(secret)
    tokens.revoke("A")
    assert other.identify(secret) is None


def test_no_secret_is_kept(tokens, database, tmp_path):
    secrets = [tokens.create("A"), SECRETS["B"]]
    tokens.install({"B": SECRETS["B"]})
    with database.read() as connection:
        kept = repr(connection.execute(select(_table)).all())
    files = b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))
    for secret in secrets:
        assert secret not in kept
        assert secret.encode() not in files
        assert hashlib.sha256(secret.encode()).hexdigest() in kept


def test_rows_are_sorted_and_have_neither_secret_nor_hash(tokens):
    tokens.create("B", "reader")
    tokens.install({"A": SECRETS["A"]})
    assert tokens.rows() == [
        {"name": "A", "kind": "site", "origin": "role", "created": NOW, "last_used": None},
        {"name": "B", "kind": "reader", "origin": "command", "created": NOW, "last_used": None},
    ]


def test_installing_reports_its_changes_and_none_the_second_time(tokens):
    assert tokens.install({"B": SECRETS["B"], "A": SECRETS["A"]}) == {
        "created": ["A", "B"],
        "changed": [],
        "revoked": [],
    }
    assert tokens.install({"A": SECRETS["A"], "B": SECRETS["B"]}) == {"created": [], "changed": [], "revoked": []}
    exchanged = {"A": SECRETS["B"], "B": SECRETS["A"]}
    for expected in (["A", "B"], []):
        assert tokens.install(exchanged) == {"created": [], "changed": expected, "revoked": []}
    tokens.install({"A": SECRETS["A"], "B": SECRETS["B"]})
    wanted = {"B": SECRETS["D"], "C": SECRETS["C"]}
    expected = {"created": ["C"], "changed": ["B"], "revoked": ["A"]}
    assert tokens.install(wanted, check=True) == expected
    assert tokens.identify(SECRETS["A"]) == Caller("A", "site")
    assert tokens.install(wanted) == expected
    assert [tokens.identify(SECRETS[key]) for key in "ABCD"] == [None, None, Caller("C", "site"), Caller("B", "site")]


def test_installing_keeps_manually_created_tokens_and_other_kinds(tokens):
    by_hand = tokens.create("hand")
    reader = tokens.create("grafana", "reader")
    assert tokens.install({}) == {"created": [], "changed": [], "revoked": []}
    assert tokens.identify(by_hand)
    assert tokens.identify(reader) == Caller("grafana", "reader")


def test_installing_takes_over_a_token_made_by_hand(tokens):
    by_hand = tokens.create("A")
    assert tokens.install({"A": by_hand})["changed"] == ["A"]
    assert tokens.install({"A": by_hand})["changed"] == []
    assert tokens.rows()[0]["origin"] == "role"
    assert tokens.install({})["revoked"] == ["A"]


def test_installing_no_secret_revokes_a_token_made_by_hand_and_no_reader(tokens):
    by_hand, reader = tokens.create("A"), tokens.create("B", "reader")
    wanted = {"A": None, "B": None, "C": None}
    for expected in (["A"], []):
        assert tokens.install(wanted) == {"created": [], "changed": [], "revoked": expected}
    assert tokens.identify(by_hand) is None
    assert tokens.identify(reader) == Caller("B", "reader")


@pytest.mark.parametrize(
    "secret", ["", "short", "a b" * 9, "é" * 20, "x" * 20 + "\n", 1234567890123456, {"b": SECRETS["A"]}]
)
def test_an_invalid_secret_is_refused_and_not_quoted(tokens, secret):
    with pytest.raises(TokenError) as caught:
        tokens.install({"A": SECRETS["A"], "B": secret})
    assert "the token of B is invalid" in str(caught.value)
    assert not secret or str(secret) not in str(caught.value)
    assert tokens.rows() == []


def test_a_secret_belongs_to_one_name(tokens):
    with pytest.raises(TokenError, match="A and B have the same token"):
        tokens.install({"A": SECRETS["A"], "B": SECRETS["A"]})
    by_hand = tokens.create("hand")
    for check in (True, False):
        with pytest.raises(TokenError, match="hand and another name have the same token"):
            tokens.install({"A": by_hand}, check=check)
    assert tokens.identify(by_hand) == Caller("hand", "site")


names = st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 20), max_size=5)
origins = st.sampled_from(["role", "command"])


@given(st.dictionaries(st.sampled_from("ABCDE"), st.tuples(st.integers(21, 30), origins), max_size=5), names)
def test_after_the_changes_there_is_nothing_to_change(before, wanted):
    known = {name: {"digest": str(n), "kind": "site", "origin": origin} for name, (n, origin) in before.items()}
    digests = {name: f"{name}{n}" for name, n in wanted.items()}
    found = module.changes(known, digests)
    changed = {
        name: {"digest": digests[name], "kind": "site", "origin": "role"}
        for name in found["created"] + found["changed"]
    }
    after = {name: row for name, row in {**known, **changed}.items() if name not in found["revoked"]}
    assert module.changes(after, digests) == {"created": [], "changed": [], "revoked": []}
    assert {name: row for name, row in after.items() if name in digests} == {
        name: {"digest": one, "kind": "site", "origin": "role"} for name, one in digests.items()
    }
    assert {name for name in after if name not in digests} == {
        name for name, row in known.items() if row["origin"] == "command" and name not in digests
    }


def test_the_hour_of_the_last_use_is_stored_afterwards(tokens, clock):
    secret = tokens.create("A")
    for hour in (NOW // 3600 * 3600, NOW // 3600 * 3600 + 3600):
        before = tokens.rows()
        for _again in range(3):
            tokens.identify(secret)
        assert tokens.rows() == before
        tokens.store_uses()
        assert [row["last_used"] for row in tokens.rows()] == [hour]
        clock.now += 3600


def test_a_token_is_identified_without_a_write(tokens, database):
    secret = tokens.create("A")
    with database.begin():  # another writing thread would wait for the end of this transaction
        found = []
        reader = threading.Thread(target=lambda: found.append(tokens.identify(secret)), daemon=True)
        reader.start()
        reader.join(60)
        assert found == [Caller("A", "site")]


@pytest.mark.skipif(bool(SERVER), reason="about SQLite's file")
def test_a_use_whose_write_failed_is_stored_after_the_next_use(tokens, database):
    secret = tokens.create("A")
    with database.begin() as connection:
        connection.exec_driver_sql("CREATE TRIGGER full BEFORE UPDATE ON token BEGIN SELECT RAISE(FAIL, 'disk'); END")
    tokens.identify(secret)
    with pytest.raises(SQLAlchemyError):
        tokens.store_uses()
    with database.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    tokens.identify(secret)
    tokens.store_uses()
    assert tokens.rows()[0]["last_used"] is not None
