# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens of sites and readers. Only hashes of the secrets are stored."""

from __future__ import annotations

import hashlib
import secrets as random_secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from sqlalchemy import Connection, bindparam, delete, select, update

from ..values import NAME
from . import schema
from .database import Database

_OF_ROLE = ("site", "role")
"""The kind and the origin of the tokens that the role installs."""
SECRET_BYTES = 32
MINIMUM_LENGTH = 16
"""The least number of characters of a secret that the operator chose."""
USED_STEP_S = 3600

_column = schema.token.c
# Made once: each request executes it.
_BY_DIGEST = select(_column.name, _column.kind, _column.created, _column.last_used).where(
    _column.digest == bindparam("given")
)


class TokenError(ValueError):
    """A token that cannot be made, installed or revoked; the message is one line and never has a secret."""


@dataclass(frozen=True)
class Caller:
    """The sender of a request: the owner of a token, made at `created` (epoch seconds), or another kind without a name.

    kind: "site" (may write as the site `name` and read all), "reader" (may read all), "anonymous", "refused".
    """

    name: str
    kind: str
    created: int = field(default=0, compare=False)

    @property
    def is_known(self) -> bool:
        """Return True if the caller may see users and Requirements."""
        return self.kind in ("site", "reader")


class Tokens:
    """The tokens. Safe from many threads and processes."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._uses: dict[str, int] = {}  # {digest: hour of a use that is not stored yet}

    def create(self, name: str, kind: str = "site") -> str:
        """Make a token and return its secret (43 characters, safe in a URL), which is not stored.

        kind: "site" or "reader". Raise TokenError if the name is invalid, or has a token, which must be revoked first.
        """
        _check_name(name)
        secret = random_secrets.token_urlsafe(SECRET_BYTES)
        with self._db.begin() as connection:
            if name in _rows_by_name(connection):
                raise TokenError(f"{name} already has a token; revoke it first: glidein-demand token revoke {name}")
            connection.execute(schema.token.insert(), [self._row(name, kind, "command", digest(secret))])
        return secret

    def install(self, secrets: Mapping[str, str | None], check: bool = False) -> dict[str, list[str]]:
        """Make the role's tokens of sites equal to `secrets` ({site: secret}); one transaction.

        Return {"created": [name], "changed": [name], "revoked": [name]}, sorted; with `check`, change nothing.
        A site without secret (None) has no token afterwards, not even one made by hand.
        A token of the same name that was made by hand is replaced ("changed"). Raise TokenError.
        """
        wanted = wanted_digests({name: secret for name, secret in secrets.items() if secret is not None})
        refused = frozenset(secrets) - frozenset(wanted)
        with self._db.read() if check else self._db.begin() as connection:
            found = changes(_rows_by_name(connection), wanted, refused)
            if check:
                return found
            connection.execute(delete(schema.token).where(schema.token.c.name.in_(found["revoked"] + found["changed"])))
            names = found["created"] + found["changed"]
            rows = [self._row(name, *_OF_ROLE, wanted[name]) for name in names]
            if rows:
                connection.execute(schema.token.insert(), rows)
        return found

    def revoke(self, name: str) -> None:
        """Revoke a token at once. Raise TokenError if the name is unknown."""
        with self._db.begin() as connection:
            gone = connection.execute(delete(schema.token).where(schema.token.c.name == name)).rowcount
        if not gone:
            raise TokenError(f"unknown token {ascii(name)[:80]}; 'glidein-demand token list' shows all tokens")

    def rows(self) -> list[dict[str, Any]]:
        """Return [{"name", "kind", "origin", "created", "last_used"}] by name; times are epoch seconds.

        last_used is rounded down to the hour; None: never used.
        """
        with self._db.read() as connection:
            found = _rows_by_name(connection)
        return [{key: row[key] for key in row if key != "digest"} for _name, row in sorted(found.items())]

    def identify(self, secret: str) -> Caller | None:
        """Return the token that has this secret, or None. Write nothing: store_uses() stores the use."""
        given = digest(secret)
        # The time of a look-up may reveal a part of the digest, but a part of a hash reveals nothing of the secret.
        with self._db.read() as connection:
            found = connection.execute(_BY_DIGEST, {"given": given}).first()
        if found is None:
            return None
        hour = int(self._clock()) // USED_STEP_S * USED_STEP_S
        if hour > (found.last_used or 0):
            self._uses[given] = hour
        return Caller(found.name, found.kind, found.created)

    def store_uses(self) -> None:
        """Store the hours in which tokens were used since the last call."""
        uses, self._uses = self._uses, {}
        rows = [{"given": given, "hour": hour} for given, hour in dict(uses).items()]
        if rows:
            of_token = schema.token.c.digest == bindparam("given")
            with self._db.begin() as connection:
                connection.execute(update(schema.token).where(of_token).values(last_used=bindparam("hour")), rows)

    def _row(self, name: str, kind: str, origin: str, hashed: str) -> dict[str, Any]:
        created = int(self._clock())
        return {"name": name, "kind": kind, "origin": origin, "digest": hashed, "created": created, "last_used": None}


def digest(secret: str) -> str:
    """Return the stored hash of a secret. Secrets are long and random, therefore no salt is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def changes(
    known: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, str], refused: frozenset[str] = frozenset()
) -> dict[str, list[str]]:
    """Return the changes that install() makes. Raise TokenError.

    known: rows by name; wanted: {site: digest}; refused: sites that must have no token.
    """
    changed = [
        name
        for name, hashed in wanted.items()
        if name in known and not (known[name]["digest"] == hashed and _is_of_role(known[name]))
    ]
    others = {name: row for name, row in known.items() if name not in wanted}
    revoked = [name for name, row in others.items() if (row["kind"] == "site" if name in refused else _is_of_role(row))]
    for name, row in others.items():
        if name not in revoked and row["digest"] in wanted.values():
            raise TokenError(f"{name} and another name have the same token; each name must have its own")
    return {
        "created": sorted(name for name in wanted if name not in known),
        "changed": sorted(changed),
        "revoked": sorted(revoked),
    }


def wanted_digests(secrets: Mapping[str, str]) -> dict[str, str]:
    """Return {name: digest} of {name: secret}; raise TokenError if a name or secret is invalid."""
    owners: dict[str, str] = {}
    for name, secret in secrets.items():
        _check_name(name)
        fit = isinstance(secret, str) and secret.isascii() and secret.isprintable() and " " not in secret
        if not fit or len(secret) < MINIMUM_LENGTH:
            raise TokenError(
                f"the token of {name} is invalid; expected at least {MINIMUM_LENGTH} printable ASCII characters "
                "without spaces"
            )
        other = owners.setdefault(digest(secret), name)
        if other != name:
            raise TokenError(f"{other} and {name} have the same token; each name must have its own")
    return {name: hashed for hashed, name in owners.items()}


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not NAME.match(name):
        raise TokenError(
            f"{ascii(name)[:80]} is not a valid name; expected 1 to 64 letters, digits, '.', '_', '-', "
            "beginning with a letter or digit"
        )


def _is_of_role(row: Mapping[str, Any]) -> bool:
    return (row["kind"], row["origin"]) == _OF_ROLE


def _rows_by_name(connection: Connection) -> dict[str, dict[str, Any]]:
    return {row["name"]: dict(row) for row in connection.execute(select(schema.token)).mappings()}
