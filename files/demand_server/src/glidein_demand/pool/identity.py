# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site of a machine, from its authenticated identity and not from the other attributes of its ad.

The collector writes the attribute AuthenticatedIdentity into every ad, and removes a value that the sender wrote. The
identity of a site's token is `glidein-SITE@DOMAIN` (roles/tarball). The pool password is one secret of all sites. The
site of an ad that was sent with it is its GLIDEIN_Site, unless that site has used a token.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from ..values import NAME, Key
from .slots import Slot, startd_name

_TOKEN = re.compile(r"glidein-([A-Za-z0-9][A-Za-z0-9._-]{0,63})@[^@\s]*\Z")


class SlotOwner(NamedTuple):
    """The site, entry and shape of a slot; `key` is None for another machine. `problem` is a line to show, or None."""

    key: Key | None
    problem: str | None = None


def token_site(slot: Slot) -> str | None:
    """Return the site whose token the machine authenticated with; None for another identity or no identity."""
    identity = slot.get("AuthenticatedIdentity")
    match = _TOKEN.match(identity) if isinstance(identity, str) else None
    return match.group(1) if match else None


def slot_owner(slot: Slot, token_sites: Collection[str]) -> SlotOwner:
    """Return the owner of a machine. `token_sites`: the sites that have used a token, now or earlier."""
    by_token = token_site(slot)
    claimed_site, entry, shape = (_name(slot, name) for name in ("GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape"))
    if slot.get("is_glidein") is not True or entry is None or shape is None:
        if by_token is None:
            return SlotOwner(None)
        problem = f"a machine with the token of site {by_token} has no entry and shape: {_printable_name(slot)}"
        return SlotOwner(None, problem)
    if by_token is not None:
        if claimed_site == by_token:
            return SlotOwner((by_token, entry, shape))
        return SlotOwner(
            (by_token, entry, shape),
            f"a glidein with the token of site {by_token} claims the site {_printable(slot.get('GLIDEIN_Site'))}: "
            f"{_printable_name(slot)}",
        )
    if claimed_site is None:
        return SlotOwner(None)
    if claimed_site in token_sites:
        identity = _printable(slot.get("AuthenticatedIdentity"))
        return SlotOwner(
            None,
            f"a machine claims the site {claimed_site}, which has used its own token, but authenticated as "
            f"{identity}: {_printable_name(slot)}",
        )
    return SlotOwner((claimed_site, entry, shape))


def _name(slot: Slot, attribute: str) -> str | None:
    """Return the attribute's value; None if it is missing or is not a valid name."""
    value = slot.get(attribute)
    return value if isinstance(value, str) and NAME.match(value) else None


def _printable_name(slot: Slot) -> str:
    return _printable(startd_name(slot))


def _printable(value: object) -> str:
    """Return an ad's value as a short text of printable ASCII characters."""
    return ascii(value)[:100] if isinstance(value, str) else "no identity" if value is None else type(value).__name__
