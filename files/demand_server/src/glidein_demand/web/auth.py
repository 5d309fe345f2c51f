# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The authentication of callers: anonymous, a site, a reader, or refused because of an invalid token."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from ..store.tokens import Token


@dataclass(frozen=True)
class Caller:
    """The identity of a request's sender. `name` is the token's name, or "" without a token; `token_created` its time.

    kind: "anonymous", "site" (may write as that site and read all), "reader" (may read all), "refused".
    """

    kind: str
    name: str = ""
    token_created: int = 0

    @property
    def is_known(self) -> bool:
        """Return True if the caller may see users and Requirements."""
        return self.kind in ("site", "reader")


ANONYMOUS = Caller("anonymous")
REFUSED = Caller("refused")


def identify(header: str | None, lookup: Callable[[str], Token | None]) -> Caller:
    """Return the caller of an Authorization header; `lookup` returns the token of a secret.

    An invalid token is refused instead of treated as anonymous: its sender expects to be authenticated.
    """
    if header is None:
        return ANONYMOUS
    secret = secret_of(header)
    token = lookup(secret) if secret else None
    return Caller(token.kind, token.name, token.created) if token else REFUSED


def secret_of(header: str) -> str:
    """Return the secret in "Bearer <secret>" or in "Basic <base64 of user:secret>" (from browsers), or ""."""
    scheme, _space, given = header.partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer":
        return given
    if scheme.lower() != "basic":
        return ""
    try:
        decoded = base64.b64decode(given.encode("ascii"), validate=True).decode("utf-8")
    except ValueError:  # also binascii.Error and UnicodeError
        return ""
    return decoded.partition(":")[2]
