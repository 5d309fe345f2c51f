# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that prints the ads of a collector's schedds that have a catalogue, one ad a line: NAME, tab, JSON.

ce_catalogue.py runs it as a process, because HTCondor's bindings block the whole interpreter until the collector
answers. Anyone whom the collector accepts may write expressions of any cost: lack of memory or time ends the process.
NAME is printed before the evaluation, so that an incomplete line names the ad.
"""

import contextlib
import json
import resource
import sys
from typing import Any, Union

try:
    import classad2
    import htcondor2
except ImportError:
    classad2 = htcondor2 = None  # type: ignore[assignment]  # modules otherwise; main checks it

NO_BINDINGS = 3  # exit status
MEMORY_BYTES = 512 << 20  # with the libraries, which take 100 MB

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

# Of one evaluated ad.
_TEXT_MOST = 1000
_ITEMS_MOST = 200
_DEPTH_MOST = 5
_LINE_MOST = 200000
_SHOWN_MOST = 100


def main(collector: str) -> Union[int, str]:
    """Print the ads of a collector, and return the exit status of the program, or the error."""
    if htcondor2 is None:
        return NO_BINDINGS
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        query = htcondor2.Collector(collector).query
        wanted = "OSG_ResourceCatalog isnt undefined"
        ads = query(htcondor2.AdType.Schedd, constraint=wanted, projection=list(ATTRIBUTES))
    # The bindings raise OSError, RuntimeError, and classes of their own.
    except Exception as error:  # pylint: disable=broad-exception-caught
        return str(error) or type(error).__name__
    for ad in ads:
        sys.stdout.write(f"{_name(ad)}\t")
        sys.stdout.flush()
        sys.stdout.write(f"{_line(ad)}\n")
    return 0


def _name(ad: "classad2.ClassAd") -> str:
    """Return an ad's name for messages, as a literal of Python. It is not evaluated: only a text is shown."""
    try:
        name = ad["Name"]
    except (KeyError, UnicodeDecodeError):
        return "?"
    return ascii(name[:_SHOWN_MOST]) if isinstance(name, str) else "?"


def _line(ad: "classad2.ClassAd") -> str:
    """Return {"ad": {attribute: plain value}} or {"error": text} as JSON."""
    try:
        line = json.dumps({"ad": {name: _plain(ad.eval(name)) for name in ATTRIBUTES if name in ad}})
        if len(line) <= _LINE_MOST:
            return line
        reason = f"it has {len(line)} characters; expected at most {_LINE_MOST}"
    except UnicodeDecodeError:
        reason = "it has text that is not UTF-8"
    except (ValueError, TypeError) as error:
        reason = str(error)
    # The bindings raise a class of their own.
    except Exception:  # pylint: disable=broad-exception-caught
        reason = "its expressions cannot be evaluated"
    return json.dumps({"error": reason})


def _plain(value: Any, depth: int = 0) -> Any:
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
