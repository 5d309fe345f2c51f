# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""To which site a machine belongs: decided by who authenticated, not by what the ad says of itself.

The collector writes the attribute AuthenticatedIdentity into every ad, and removes one that the sender wrote. A site's
token says `glidein-SITE@DOMAIN` (roles/tarball). The pool password is one secret of all sites, so an ad that came with
it says its site itself; it is believed, unless it names a site that has shown a token of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from ..values import NAME, Key
from .slots import Slot, startd_name

_TOKEN = re.compile(r"glidein-([A-Za-z0-9][A-Za-z0-9._-]{0,63})@[^@\s]*\Z")


class Owner(NamedTuple):
    """`key` is None for a machine that is no glidein of ours; `problem` is a line for a person, or None."""

    key: Key | None
    problem: str | None = None


def token_site(slot: Slot) -> str | None:
    """The site whose token the machine authenticated with; None for every other identity, and for none."""
    identity = slot.get("AuthenticatedIdentity")
    match = _TOKEN.match(identity) if isinstance(identity, str) else None
    return match.group(1) if match else None


def owner(slot: Slot, token_sites: Collection[str]) -> Owner:
    """Whose machine this is. `token_sites`: sites that have shown a token identity, now or earlier."""
    by_token = token_site(slot)
    says, entry, shape = (slot.get(name) for name in ("GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape"))
    if slot.get("is_glidein") is not True or not (_is_name(entry) and _is_name(shape)):
        if by_token is None:
            return Owner(None)
        return Owner(None, f"a machine with the token of site {by_token} names no entry and shape: {_called(slot)}")
    if by_token is not None:
        if says == by_token:
            return Owner((by_token, entry, shape))
        return Owner(
            (by_token, entry, shape),
            f"a glidein with the token of site {by_token} says that it is of site {_shown(says)}: {_called(slot)}",
        )
    if not _is_name(says):
        return Owner(None)
    if says in token_sites:
        identity = _shown(slot.get("AuthenticatedIdentity"))
        return Owner(
            None,
            f"a machine says that it is of site {says}, which has a token of its own, but authenticated as "
            f"{identity}: {_called(slot)}",
        )
    return Owner((says, entry, shape))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.match(value) is not None


def _called(slot: Slot) -> str:
    return _shown(startd_name(slot))


def _shown(value: object) -> str:
    """A value of an ad in a line of text: short, and nothing in it but visible ASCII."""
    return ascii(value)[:100] if isinstance(value, str) else "nobody" if value is None else type(value).__name__
