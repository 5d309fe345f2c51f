# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who calls: nobody in particular, a site, a reader, or somebody with a wrong token."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from ..store.tokens import Token

LONGEST_HEADER = 4096


@dataclass(frozen=True)
class Caller:
    """What a request's Authorization header makes of its sender. `name` is the token's, "" without one.

    kind: "anonymous", "site" (writes as that site, reads all), "reader" (reads all), "refused".
    """

    kind: str
    name: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it may see users and Requirements."""
        return self.kind in ("site", "reader")


ANONYMOUS = Caller("anonymous")
REFUSED = Caller("refused")


def identify(header: str | None, lookup: Callable[[str], Token | None]) -> Caller:
    """Judge an Authorization header; `lookup` gives the token that has a secret.

    A wrong one is refused, not taken for none: its sender believes to be known.
    """
    if header is None:
        return ANONYMOUS
    secret = secret_of(header)
    token = lookup(secret) if secret else None
    return Caller(token.kind, token.name) if token else REFUSED


def secret_of(header: str) -> str:
    """The secret in "Bearer <secret>", or in "Basic <base64 of anybody:secret>" as browsers send it; "" for none."""
    if len(header) > LONGEST_HEADER:
        return ""
    scheme, _space, given = header.partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer":
        return given
    if scheme.lower() != "basic":
        return ""
    try:
        decoded = base64.b64decode(given.encode("ascii"), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeError, ValueError):
        return ""
    return decoded.partition(":")[2]
