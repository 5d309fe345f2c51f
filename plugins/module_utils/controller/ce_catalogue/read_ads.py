# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that prints the ads of a collector's schedds that have a catalogue, as JSON: one ad a line.

collectors.py runs it as a process, because HTCondor's bindings block the whole interpreter until the collector answers.
An ad has expressions, and anyone whom the collector accepts may write them: each ad is evaluated in a process of its
own with little memory and time, so that a bad one costs only itself.
"""

import contextlib
import json
import os
import resource
import sys

try:
    import classad2
    import htcondor2
except ImportError:
    classad2 = htcondor2 = None

NO_BINDINGS = 3  # exit status

ATTRIBUTES = (
    "Name",
    "AuthenticatedIdentity",
    "LastHeardFrom",
    "HTCondorCEVersion",
    "OSG_Resource",
    "OSG_ResourceGroup",
    "OSG_BatchSystems",
    "OSG_ResourceCatalog",
    "grid_resource",
    "is_glidein",
    "GLIDEIN_Site",
    "GatewayRouted",
)

_EVALUATION_CPU_S = 1
_MEMORY_BYTES = 2 << 30
_EVALUATION_MEMORY_BYTES = 256 << 20
# Of one evaluated ad.
_TEXT_MOST = 1000
_ITEMS_MOST = 200
_DEPTH_MOST = 5
_LINE_MOST = 200000
_SHOWN_MOST = 100


def main(collector):
    """Print the ads of a collector, and return the exit status of the program, or the error."""
    if htcondor2 is None:
        return NO_BINDINGS
    limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    try:
        query = htcondor2.Collector(collector).query
        wanted = "OSG_ResourceCatalog isnt undefined"
        ads = query(htcondor2.AdType.Schedd, constraint=wanted, projection=list(ATTRIBUTES))
    # The bindings raise OSError, RuntimeError, and classes of their own.
    except Exception as error:  # pylint: disable=broad-exception-caught
        return str(error) or type(error).__name__
    for ad in ads:
        sys.stdout.write(f"{_in_process(ad)}\n")
    return 0


def limit(what, most):
    """Limit a resource of this process, where the system can."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(what, (most, most))


def _in_process(ad):
    """Return the line of one ad, evaluated by a forked process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(reader)
            limit(resource.RLIMIT_CORE, 0)
            limit(resource.RLIMIT_CPU, _EVALUATION_CPU_S)
            limit(resource.RLIMIT_AS, _used_bytes() + _EVALUATION_MEMORY_BYTES)
            # The C++ library reports a lack of memory there.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(writer, "wb") as handle:
                handle.write(_line(ad).encode("ascii"))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as handle:
        line = handle.read().decode("ascii")
    os.waitpid(pid, 0)
    try:
        json.loads(line)
    except ValueError:
        return json.dumps(_failed(ad, "its expressions need too much memory or time"))
    return line


def _used_bytes():
    """Return the size of this process's address space; without /proc, a size that the limit hardly matters with."""
    try:
        with open("/proc/self/statm", encoding="ascii") as handle:
            return int(handle.read().split()[0]) * resource.getpagesize()
    except OSError:
        return _MEMORY_BYTES


def _line(ad):
    line = json.dumps(record(ad))
    if len(line) > _LINE_MOST:
        line = json.dumps(_failed(ad, f"it has {len(line)} characters; expected at most {_LINE_MOST}"))
    return line


def record(ad):
    """Return {"name", "ad": {attribute: plain value}} of an ad, or {"name", "error": text}. The name is a repr."""
    try:
        values = {}
        for name in ATTRIBUTES:
            if name in ad:
                values[name] = _plain(ad.eval(name))
        return {"name": _name(ad), "ad": values}
    except UnicodeDecodeError:
        return _failed(ad, "it has text that is not UTF-8")
    except (ValueError, TypeError, RecursionError) as error:
        return _failed(ad, str(error))


def _failed(ad, reason):
    return {"name": _name(ad), "error": reason}


def _name(ad):
    """Return an ad's name for messages. It is not evaluated: only a text is shown."""
    try:
        name = ad["Name"]
    except (KeyError, UnicodeDecodeError):
        return "?"
    return repr(name[:_SHOWN_MOST]) if isinstance(name, str) else "?"


def _plain(value, depth=0):
    """Return an evaluated value as a value of JSON. Raises ValueError.

    Undefined, errors, and expressions that refer to a job are None.
    """
    if depth > _DEPTH_MOST:
        raise ValueError(f"it has lists or ads nested more than {_DEPTH_MOST} deep")
    if isinstance(value, classad2.ExprTree):
        value = value.eval()
    if isinstance(value, classad2.Value) or value is None:
        return None
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        if len(value) > _TEXT_MOST:
            raise ValueError(f"it has a text of {len(value)} characters; expected at most {_TEXT_MOST}")
        return value
    if isinstance(value, (list, classad2.ClassAd)):
        if len(value) > _ITEMS_MOST:
            raise ValueError(f"it has a list or ad of {len(value)} items; expected at most {_ITEMS_MOST}")
        if isinstance(value, list):
            return [_plain(item, depth + 1) for item in value]
        return {name: _plain(value.eval(name), depth + 1) for name in value}
    raise ValueError(f"it has a value of the type {type(value).__name__}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
