# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The authentication of callers: anonymous, a site, a reader, or refused because of an invalid token."""

from __future__ import annotations

import base64
from typing import Callable

from ..store.tokens import Caller

ANONYMOUS = Caller("", "anonymous")
REFUSED = Caller("", "refused")


def identify(header: str | None, lookup: Callable[[str], Caller | None]) -> Caller:
    """Return the caller of an Authorization header; `lookup` returns the token of a secret.

    An invalid token is refused instead of treated as anonymous: its sender expects to be authenticated.
    """
    if header is None:
        return ANONYMOUS
    secret = secret_of(header)
    return (lookup(secret) if secret else None) or REFUSED


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
