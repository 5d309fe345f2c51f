# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a failed run: the failed tests, each with its assertion and the last lines of its log.

pytest writes the results of each part as JUnit XML; of a part without such a file, the report has the end of its log.
"""

from collections import namedtuple
from xml.etree import ElementTree

LINES = 58  # make adds a line, .ci/run another
WIDTH = 180
MOST = 20  # failures with lines of their own

Failure = namedtuple("Failure", "name assertion log")  # log: lines


def failures_of(part, results, log):
    """Return the Failures of a failed part.

    results: path of its JUnit XML, which may be missing; log: path of its log.
    """
    found = _failed_tests(part, results) if results.is_file() else []
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    return found or [Failure(part, *_cause(lines))]


def _cause(lines):
    """Return (first line, following lines) of the cause in a log.

    It is the last failed task of Ansible, the errors of ansible-test and pip, or the end of the log.
    """
    failed = [number for number, line in enumerate(lines) if line.startswith("fatal: ")]
    if failed:
        return lines[failed[-1]], lines[failed[-1] + 1 :][:12]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors[0], errors[1:]) if errors else ("", lines)


def _failed_tests(part, results):
    try:
        cases = list(ElementTree.parse(results).iter("testcase"))  # noqa: S314 - our own file
    except ElementTree.ParseError:  # pytest was killed while it wrote the file
        return []
    found = []
    for case in cases:
        for problem in [*case.findall("failure"), *case.findall("error")]:
            texts = [problem.text, *(each.text for each in (*case.findall("system-out"), *case.findall("system-err")))]
            lines = [line for text in texts for line in (text or "").splitlines() if line.strip(" -")]
            lines = [line for line in lines if not (line.startswith("---") and " Captured " in line)]
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            found.append(Failure(f"{part}: {name}", (problem.get("message") or "").partition("\n")[0], lines))
    return found


def report(failures):
    """Return the text of the failures, at most LINES lines of at most WIDTH characters."""
    shown = failures[:MOST]
    lines = [f"{len(failures)} failed:"]
    if len(failures) > MOST:
        lines.append(f"(the last {len(failures) - MOST} are only in .build/logs)")
    each = (LINES - len(lines)) // len(shown)
    for failure in shown:
        block = [f"FAILED {failure.name}", *([f"  {failure.assertion}"] if failure.assertion else [])]
        rest = each - len(block)
        lines += block + [f"  | {line}" for line in failure.log[-rest:] if rest > 0]
    return "\n".join(line[:WIDTH] for line in lines[:LINES])
