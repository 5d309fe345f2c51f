# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cores that jobs have claimed in glideins, by user and project, from the ads of claimed slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..values import Key
from .slots import Slot, positive_int

ATTRIBUTES = ("RemoteOwner", "AccountingGroup")
"""The attributes of a claimed slot that name the job's user (alice@pool) and accounting group (physics.alice)."""

MAX_NAME = 128


def claimed_cores(glideins: Mapping[Key, Iterable[Slot]]) -> list[list[Any]]:
    """Return [site, entry, user, project, cores] of all claimed slots; "" is an unknown user, or no project."""
    found: dict[tuple[str, str, str, str], int] = {}
    for (site, entry, _shape), slots in glideins.items():
        for slot in slots:
            if slot.get("State") == "Claimed" and slot.get("SlotType") != "Partitionable":
                user = _name(slot, "RemoteOwner")
                key = (site, entry, user, project_of(_name(slot, "AccountingGroup"), user))
                found[key] = found.get(key, 0) + positive_int(slot, "Cpus")
    return [[*key, cores] for key, cores in sorted(found.items())]


def project_of(accounting_group: str, user: str) -> str:
    """Return the group of an AccountingGroup, which is "group.user" or "group"; "" without a group.

    The user in it is usually the job's owner, whose name may have dots. If it is another name, it is the last part.
    """
    owner = user.partition("@")[0]
    if accounting_group in ("", "<none>", owner, user):
        return ""
    for name in (owner, user):
        if name and accounting_group.endswith(f".{name}"):
            return accounting_group[: -len(name) - 1]
    group, _dot, _user = accounting_group.rpartition(".")
    return group or accounting_group


def _name(slot: Slot, attribute: str) -> str:
    value = slot.get(attribute)
    return value if isinstance(value, str) and len(value) <= MAX_NAME and value.isprintable() else ""
