# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup of one job in the pool's schedds, while a request waits for it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..config import Settings
from . import schedds
from .queries import MAX_PARALLEL_QUERIES, QueryError, RunQuery, demand_query, schedds_query

MAX_TIMEOUT_S = 10
"""The time limit of one query. Meanwhile, it occupies a thread of the server."""

MAX_LOOKUPS = 2
"""The most lookups at the same time. Further ones are refused: the other threads serve the sites."""

_JOB = re.compile(r"(?:(?P<schedd>[^#\s]{1,256})#)?(?P<cluster>\d{1,10})(?:\.(?P<proc>\d{1,10}))?(?:#\d{1,12})?\Z")


class LookupFailedError(Exception):
    """The schedds cannot be asked now; the message is one line that gives the reason."""


@dataclass(frozen=True)
class JobName:
    """The name of a job: its id, and the name of its schedd or ""."""

    cluster: int
    proc: int
    schedd: str = ""

    @classmethod
    def parse(cls, text: str) -> JobName:
        """Return the job of "123.0", "123" (its first job), "SCHEDD#123.0", or of a GlobalJobId. Raise ValueError."""
        match = _JOB.match(text.strip())
        if match is None:
            raise ValueError(
                "job: expected an id such as 123.0, or SCHEDD#123.0 with the name of its schedd, not "
                f"{ascii(text)[:80]}"
            )
        return cls(int(match["cluster"]), int(match["proc"] or 0), match["schedd"] or "")

    @property
    def id(self) -> str:
        """Return the id as condor_q prints it."""
        return f"{self.cluster}.{self.proc}"


class JobLookup:
    """The lookup. Safe from many threads. run_query: Queries.run, or the function of tests."""

    def __init__(self, settings: Settings, run_query: RunQuery) -> None:
        self._settings = settings
        self.run_query = run_query
        self._free = threading.BoundedSemaphore(MAX_LOOKUPS)
        self._timeout_s = min(MAX_TIMEOUT_S, settings.pool.query_timeout_seconds)

    def find(self, name: JobName, divided_by: Mapping[str, Iterable[str]]) -> dict[str, Any]:
        """Return {"found": [(schedd, facts of job_facts.read)], "errors": {schedd: text}, "schedds": [names]}.

        found: of every schedd that has a job of this id, unless `name` names the schedd. The histories are read only if
        no queue has it. divided_by: {schedd: names of the attributes that divide its groups}. Raise ValueError
        if the pool has no schedd of this name, and LookupFailedError if the collector does not answer or too many
        lookups are running.
        """
        if not self._free.acquire(blocking=False):
            raise LookupFailedError(f"{MAX_LOOKUPS} jobs are being looked up already; try again")
        try:
            return self._find(name, divided_by)
        finally:
            self._free.release()

    def _find(self, name: JobName, divided_by: Mapping[str, Iterable[str]]) -> dict[str, Any]:
        chosen = _of_name(self._schedds(), name.schedd)
        queries = []
        for schedd in chosen:
            query = demand_query(self._settings, schedd)
            attributes = list(dict.fromkeys([*query["attributes"], *divided_by.get(schedd["name"], ())]))
            queries.append(
                {**query, "type": "job", "attributes": attributes, "cluster": name.cluster, "proc": name.proc}
            )
        found, errors = self._run_all(queries)
        if not found and not errors:
            found, errors = self._run_all([{**query, "type": "job_history"} for query in queries])
            errors = {schedd: f"the history of ended jobs: {error}" for schedd, error in errors.items()}
        return {"found": found, "errors": errors, "schedds": [schedd["name"] for schedd in chosen]}

    def _schedds(self) -> list[dict[str, Any]]:
        try:
            rows = self.run_query(schedds_query(self._settings), self._timeout_s)["schedds"]
        except QueryError as error:
            raise LookupFailedError(f"the collector: {error}") from error
        return schedds.select(rows, self._settings.pool.schedds)[0]

    def _run_all(self, queries: list[dict[str, Any]]) -> tuple[list[tuple[str, Any]], dict[str, str]]:
        """Return ([(schedd, facts)] of the schedds that have the job, {schedd: error})."""
        found, errors = [], {}
        with ThreadPoolExecutor(MAX_PARALLEL_QUERIES, thread_name_prefix="job") as executor:
            pending = [(query["schedd"], executor.submit(self.run_query, query, self._timeout_s)) for query in queries]
            for schedd, answer in pending:
                try:
                    facts = answer.result()["facts"]
                except QueryError as error:
                    errors[schedd] = str(error)
                else:
                    if facts is not None:
                        found.append((schedd, facts))
        return found, errors


def _of_name(known: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the schedds of this name, or of this host name without its domain; all for "". Raise ValueError."""
    if not name:
        return known
    lower = name.lower()
    exact = [schedd for schedd in known if schedd["name"].lower() == lower]
    chosen = exact or [schedd for schedd in known if schedd["name"].lower().startswith(f"{lower}.")]
    if len(chosen) != 1:
        names = ", ".join(schedd["name"] for schedd in known) or "none"
        raise ValueError(f"schedd: {ascii(name)[:80]} is not one of the schedds that the server reads: {names}")
    return chosen
