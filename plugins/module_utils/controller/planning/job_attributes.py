# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job attributes in the sites' accept_requirements. The demand server divides its groups by them."""

import re
from collections.abc import Mapping

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.expressions import (
    conditions_of,
    name_of,
    spelling_of,
)

# The most names that get_demand accepts.
MOST_NAMES = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

# Attributes that every group has: see job_classes.job_ad. It has RequestGPUs only if that is not 0.
_ALWAYS = frozenset(
    (
        "currenttime", "jobstatus", "jobuniverse", "owner", "requestcpus", "requestdisk", "requestmemory",
        "requiregpus", "requirements", "user",
    )
)  # fmt: skip


def accepted_attributes(sites):
    """Return the names of job attributes in the accept_requirements of sites, [{"entries": {name: entry}}].

    At most MOST_NAMES, sorted. Names that an entry's `attributes` state are the machine's. Entries are as the operator
    wrote them. Invalid ones are left out here; the plan reports them.
    """
    found = {}
    for site in sites:
        entries = site.get("entries")
        for entry in entries.values() if isinstance(entries, Mapping) else ():
            text = entry.get("accept_requirements") if isinstance(entry, Mapping) else None
            if isinstance(text, str):
                found.update(_names(text, entry.get("attributes")))
    return [found[name] for name in sorted(found)][:MOST_NAMES]


def _names(text, stated):
    """Return {name in lower case: as it is spelled} of the job attributes that an expression refers to."""
    own = {str(name).lower() for name in stated} if isinstance(stated, Mapping) else set()
    found = {}
    for condition in conditions_of(text):
        wanted = (condition.target | (condition.bare - own)) - _ALWAYS
        for token in condition.tokens:
            if token.kind in ("name", "quoted") and name_of(token) in wanted and _NAME.match(spelling_of(token)):
                found.setdefault(name_of(token), spelling_of(token))
    return found


def unreported_hint(names, reported):
    """Return the hint for job attributes that the demand server does not report; "" if it reports them all.

    names: as an expression spells them; reported: names that its groups are divided by.
    """
    known = {name.lower() for name in reported}
    missing = [name for name in names if name.lower() not in known]
    if not missing:
        return ""
    listed = ", ".join(missing)
    return (
        f"; the demand server does not report {listed} of jobs yet: it does so from its next reading on if a cycle "
        f"with a token has requested it, or with {listed} in demand_server_attributes"
    )
