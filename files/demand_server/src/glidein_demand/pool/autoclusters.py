# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups a schedd's idle jobs, by AutoClusterId instead of Requirements where it can be trusted.

Grouping by Requirements costs the schedd 5 to 10 µs a job: it collects what each expression refers to and writes it
out. The schedd has done that already for jobs that it has offered to a negotiator, and keeps the result as a number
in the job, AutoClusterId; a second query gives what the numbers stand for. Jobs get their number when the schedd next
sorts its queue, so new ones have none, and in a pool that never had a machine no job has. The query does not give
out numbers itself. When the set of significant attributes grows, all numbers are given out anew: see `_Witness`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

import classad2

Ad = classad2.ClassAd


class Schedd(Protocol):
    """The queries of a schedd that are needed here."""

    def first(self, constraint: str, projection: list[str]) -> Ad | None:
        """One job that satisfies the constraint."""

    def grouped(self, constraint: str, projection: list[str]) -> Iterable[Ad]:
        """One ad for each combination of values, with JobCount and JobIds (QueryOpts.GroupBy)."""

    def autoclusters(self) -> Iterable[Ad]:
        """One ad for each autocluster that the schedd knows (QueryOpts.AutoCluster)."""


def rows(schedd: Schedd, constraint: str, projection: list[str], needed: Collection[str] = ()) -> tuple[list[Ad], bool]:
    """The idle jobs that satisfy `constraint`, grouped by `projection`, Requirements, and what these refer to.

    And whether all had to be grouped by Requirements.
    needed: names of the projection that the constraint needs; see jobs.constraint.
    """
    witness = _Witness(schedd, constraint)
    if not witness.job:
        return [], False
    if witness.has_autocluster:
        found = _by_autocluster(schedd, constraint, projection, needed, witness)
        if found is not None:
            return found, False
    return _by_requirements(schedd, constraint, projection), True


def unique(ads: Iterable[Ad]) -> list[Ad]:
    """The ads without those that came twice.

    When the connection is slow, a schedd (seen with 23.9) sends the ad at which it had to wait a second time, and its
    jobs would count double. Each has an Id of its own.
    """
    found: dict[Any, Ad] = {}
    for number, ad in enumerate(ads):
        found.setdefault(ad.get("Id", -1 - number), ad)
    return list(found.values())


class _Witness:
    """A job that tells whether the numbers still mean what they meant.

    AutoClusterAttrs begins with the significant attributes, and they only ever grow. When they do, all numbers are
    given out anew: what was asked before must not be joined with what was asked after. The same job with the same
    AutoClusterAttrs before and after says that it did not happen in between.
    """

    _ATTRIBUTES = ["ClusterId", "ProcId", "AutoClusterAttrs"]

    def __init__(self, schedd: Schedd, constraint: str) -> None:
        self._schedd = schedd
        self.job = schedd.first(constraint, self._ATTRIBUTES)
        self.has_autocluster = self.job is not None and isinstance(self.job.get("AutoClusterAttrs"), str)

    def significant(self) -> set[str]:
        """Attributes, in small letters, of which the autocluster of *every* job has the value.

        What the values of this one job refer to comes after all of the significant ones, and Requirements is one.
        """
        names = self.job["AutoClusterAttrs"].lower().split(",")
        return set(names[: names.index("requirements")]) if "requirements" in names else set()

    def agrees(self) -> bool:
        same = f"ClusterId == {self.job['ClusterId']} && ProcId == {self.job['ProcId']}"
        now = self._schedd.first(same, self._ATTRIBUTES)
        return now is not None and now.get("AutoClusterAttrs") == self.job["AutoClusterAttrs"]


def _by_requirements(schedd: Schedd, constraint: str, projection: list[str]) -> list[Ad]:
    return unique(schedd.grouped(constraint, [*projection, "Requirements"]))


def _by_autocluster(
    schedd: Schedd, constraint: str, projection: list[str], needed: Collection[str], witness: _Witness
) -> list[Ad] | None:
    """None when numbers and what they stand for do not fit together."""
    # Each column costs 0.2 µs a job: what the autocluster tells anyway is not asked for.
    told = witness.significant() - {name.lower() for name in needed}
    columns = [name for name in projection if name.lower() not in told]
    grouped = unique(schedd.grouped(constraint, [*columns, "AutoClusterId"]))
    signatures = {ad.get("AutoClusterId"): ad for ad in schedd.autoclusters()}
    if not witness.agrees():
        return None
    found, without = [], []
    for row in grouped:
        number = row.get("AutoClusterId")
        if number is None:
            without.append(row)
            continue
        signature = signatures.get(number)
        # Significant is what negotiator and configuration say, and they may leave Requirements out.
        if signature is None or "Requirements" not in signature:
            return None
        found.append(_joined(row, signature))
    if without:
        new = _by_requirements(schedd, f"AutoClusterId is undefined && {constraint}", projection)
        if _jobs(new) < _jobs(without):
            return None  # some have got their number in between, and would be in neither answer
        found += new
    return found


def _joined(row: Ad, signature: Ad) -> Ad:
    for name in signature:
        if name not in row:
            row[name] = signature.lookup(name)
    return row


def _jobs(ads: Iterable[Ad]) -> int:
    return sum(ad["JobCount"] for ad in ads)
