# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who calls: nobody in particular, somebody with the token, or somebody with a wrong one."""

from __future__ import annotations

import enum
import hmac
import stat
from pathlib import Path

from .config import ConfigError

MINIMUM_LENGTH = 16


class Caller(enum.Enum):
    """What a request's Authorization header makes of its sender."""

    ANONYMOUS = "anonymous"
    TOKEN = "token"  # noqa: S105 - a kind of caller
    REFUSED = "refused"


def read_token(path: str) -> str:
    """The token in the file `path`; "" without a path: then nobody has one. Raise ConfigError when it is unfit."""
    if not path:
        return ""
    try:
        mode = Path(path).stat().st_mode
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigError(
            f"server.token_file = {path!r}: cannot be read: {reason}; must be a file with the token"
        ) from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        found = f"mode {stat.S_IMODE(mode):04o}"
        raise ConfigError(
            f"server.token_file = {path!r}: has {found}; must be a file that only its owner can read (0600)"
        )
    if len(token) < MINIMUM_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"server.token_file = {path!r}: its token cannot be used; must be one line of at least "
            f"{MINIMUM_LENGTH} printable ASCII characters without spaces"
        )
    return token


def identify(header: str | None, token: str) -> Caller:
    """Judge an Authorization header. A wrong one is refused, not taken for none: its sender believes to be known."""
    if header is None:
        return Caller.ANONYMOUS
    scheme, _space, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    if token and same and scheme.lower() == "bearer":
        return Caller.TOKEN
    return Caller.REFUSED
