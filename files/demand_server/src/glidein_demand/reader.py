# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read one schedd or the collector, in a process of its own.

HTCondor's Python bindings keep the interpreter's lock while they wait for a daemon (a collector that accepts and
never answers stopped every thread for 60 s), so a query inside the server would stop every request. A process of its
own can also be ended when it takes too long, and whatever memory a large queue needed goes with it.

`python -m glidein_demand.reader`: an order as JSON on stdin, the answer as JSON on stdout:
{"name": ..., ...} or {"error": "one line"}.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import MutableMapping
from typing import Any, Callable


class ReadError(Exception):
    """A daemon could not be read; the message is one line that says why."""


def read(order: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Carry out `order` in a new process, at most `timeout` seconds; raise ReadError when there is no answer."""
    command = [sys.executable, "-m", "glidein_demand.reader"]
    try:
        done = subprocess.run(
            command, input=json.dumps(order).encode(), capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ReadError(f"no answer within {timeout:g} s") from error
    except OSError as error:
        raise ReadError(f"cannot start the reader: {error}") from error
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        said = one_line(done.stderr.decode(errors="replace"))[-300:]
        raise ReadError(f"the reader ended with status {done.returncode}: {said or 'nothing on stderr'}") from error
    if "error" in answer:
        raise ReadError(answer["error"])
    return answer


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def read_demand(order: dict[str, Any], query: Callable[[str, list[str]], tuple[str, list[Any]]]) -> dict[str, Any]:
    """Demand of one schedd. `query(constraint, projection)` returns (the schedd's name, its grouped ads)."""
    from . import jobs

    attributes, runtime = order["attributes"], order["runtime_attributes"]
    name, rows = query(jobs.constraint(order["constraint"]), jobs.projection(order["constraint"], attributes, runtime))
    groups, unreadable = jobs.demand_groups(rows, jobs.Rounding(**order["rounding"]), attributes, runtime)
    return {"name": name, "groups": groups, "unreadable": unreadable}


def read_supply(order: dict[str, Any], query: Callable[[list[str]], list[Any]]) -> dict[str, Any]:
    """The collector's machines. `query(projection)` returns the slot ads."""
    from . import jobs, supply

    slots = [
        {name: value for name in supply.ATTRIBUTES if jobs.is_scalar(value := jobs.evaluate(ad, name))}
        for ad in query(list(supply.ATTRIBUTES))
    ]
    return supply.summarise(slots, order["now"])


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    if order["what"] == "check":
        from . import jobs

        jobs.references(order["constraint"])
        return {}
    import htcondor2

    _authenticate_where_asked(htcondor2.param)
    collector = order["collector"] or None

    def query_schedd(constraint: str, projection: list[str]) -> tuple[str, list[Any]]:
        if order["schedd"]:
            where = htcondor2.Collector(collector).locate(htcondor2.DaemonType.Schedd, order["schedd"])
        else:
            where = htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)
        if where is None:
            raise ReadError("the collector does not know a schedd of this name")
        rows = htcondor2.Schedd(where).query(
            constraint=constraint, projection=projection, opts=htcondor2.QueryOpts.GroupBy
        )
        return str(where.get("Name") or order["schedd"] or "local"), rows

    def query_collector(projection: list[str]) -> list[Any]:
        return htcondor2.Collector(collector).query(htcondor2.AdType.Startd, projection=projection)

    if order["what"] == "demand":
        return read_demand(order, query_schedd)
    return read_supply(order, query_collector)


def _authenticate_where_asked(param: MutableMapping[str, str]) -> None:
    """Authenticate to daemons that require it of readers, and not to those that do not.

    HTCondor's recommended configuration makes every client require authentication, reading or not. For a service
    without credentials that leaves FS, which fails for two reasons: it needs the daemon's /tmp, where the service has
    a private one, and these bindings (25.14) refuse it with schedds before 25 (SEC_FS_ENFORCE_CHANNEL_BINDING).
    A configuration that sets SEC_CLIENT_* for itself is left alone.
    """
    for what in ("AUTHENTICATION", "ENCRYPTION", "INTEGRITY"):
        name = f"SEC_CLIENT_{what}"
        if name not in param:
            param[name] = "OPTIONAL"


def main() -> int:
    try:
        answer = _answer(json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - whatever it was, the server shows it and keeps its last answer
        answer = {"error": one_line(error) or type(error).__name__}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
