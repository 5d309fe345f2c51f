# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cores that jobs have claimed, in glideins by user, project and VO, from the ads of claimed slots.

The schedd sets a job's x509UserProxyVOName from its VOMS proxy and AuthTokenIssuer from the token that submitted it;
users cannot set them (HTCondor's SYSTEM_SECURE_JOB_ATTRS). They choose AccountingGroup and ProjectName.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..values import OTHER_MACHINES, Key
from .slots import Slot, positive_int

ATTRIBUTES = ("RemoteOwner", "AccountingGroup", "ProjectName", "x509UserProxyVOName", "AuthTokenIssuer")
"""The attributes of a claimed slot that name the job's user (alice@pool), accounting group (physics.alice), and so on.

Glideins publish the last three by SYSTEM_STARTD_JOB_ATTRS (files/glidein/lib/configure.sh).
"""

MAX_NAME = 128


def claimed_cores(
    glideins: Mapping[Key, Iterable[Slot]],
    vo: str = "",
    token_vos: Mapping[str, str] = MappingProxyType({}),
    others: int = 0,
) -> list[list[Any]]:
    """Return [site, entry, shape, user, project, VO, cores] of all claimed slots; "" is unknown.

    vo, token_vos: the settings pool.vo and pool.token_vos. others: the claimed cores of other machines, which become
    one row of the site OTHER_MACHINES.
    """
    found: dict[tuple[str, ...], int] = {(OTHER_MACHINES, "", "", "", "", ""): others} if others else {}
    for place, slots in glideins.items():
        for slot in slots:
            if slot.get("State") == "Claimed" and slot.get("SlotType") != "Partitionable":
                user = _name(slot, "RemoteOwner")
                project = project_of(_name(slot, "AccountingGroup"), user) or _name(slot, "ProjectName")
                own_vo = _name(slot, "x509UserProxyVOName") or token_vos.get(_name(slot, "AuthTokenIssuer"), vo)
                key = (*place, user, project, own_vo)
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
