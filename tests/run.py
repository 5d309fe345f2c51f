# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run checks and tests, several at a time, and report the result and the run time of each.

Arguments are names of parts, groups and tiers (`tests/run.py --list`); the parts that they need run first. Each part's
output goes to .build/logs/<part>.log, its result to .build/results.json. A part that cannot run here exits with status
77 and prints the reason in its last line. If a part fails, the others continue; the last lines of the output are the
failed tests. Needs only Python's standard library.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple

import failure_report
import prepare
from parts import GROUPS, PARTS, TIERS, select

LOGS = prepare.BUILD / "logs"
RESULTS = prepare.BUILD / "results.json"
# The commit that `make test` has passed on, and the report of a run that failed.
PASSED = prepare.BUILD / "passed"
FAILURES = prepare.BUILD / "failures.txt"
SKIPPED = 77
HEARTBEAT_S = 60

Result = namedtuple("Result", "state seconds note")


def clean_commit():
    """Return the hash of the checkout's commit; None if a file differs from it or git does not answer."""
    git = ["git", "-c", f"safe.directory={prepare.ROOT}"]
    commands = ([*git, "rev-parse", "HEAD"], [*git, "status", "--porcelain"])
    done = [subprocess.run(each, cwd=prepare.ROOT, capture_output=True, text=True, check=False) for each in commands]
    unchanged = all(each.returncode == 0 for each in done) and not done[1].stdout.strip()
    return done[0].stdout.strip() if unchanged else None


class Results:
    """The results of the parts by commit, which the next run finds in .build/results.json."""

    def __init__(self, commit, resume):
        """Read the file. commit: of clean_commit(); resume: whether parts that have passed on it do not run again."""
        self.commit = commit
        self.resume = resume and commit is not None
        self.by_part = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}

    def passed(self, name):
        """Return whether a part need not run, because it has passed on this commit."""
        known = self.by_part.get(name, {})
        return self.resume and known.get("commit") == self.commit and known.get("state") == "ok"

    def add(self, name, result):
        """Store the result of a part."""
        self.by_part[name] = {"commit": self.commit, **result._asdict(), "seconds": round(result.seconds, 1)}
        fresh = RESULTS.with_suffix(".new")
        fresh.write_text(json.dumps(self.by_part, indent=2, sort_keys=True) + "\n")
        fresh.replace(RESULTS)


def last_line(log):
    """Return the last line of a log that is not empty."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


class Run:
    """A run of parts, at most `slots` at a time, and one in each lab. Labs take no slot, because they mostly wait."""

    def __init__(self, parts, results, slots, slots_beside_labs):
        """Set the parts in the order in which they should start, and the slots without and with labs in use.

        results: Results.
        """
        self.parts = parts
        self.known = results
        self.slots = slots
        self.slots_beside_labs = slots_beside_labs
        self.results = {}
        self.started = {}
        self.processes = {}
        self.changed = threading.Condition()
        self.error = None  # what went wrong in a thread, for the main one
        self.width = max(len(part.name) for part in parts)

    def running(self):
        """Return the parts that are running."""
        return [part for part in self.parts if part.name in self.started and part.name not in self.results]

    def ready(self, part):
        """Return whether a part can start now."""
        if part.name in self.started or not all(need in self.results for need in part.needs):
            return False
        running = self.running()
        if part.lab is not None:
            return part.lab not in [each.lab for each in running]
        labs = any(each.lab is not None and each.name not in self.results for each in self.parts)
        busy = sum(1 for each in running if each.lab is None)
        return busy < (self.slots_beside_labs if labs else self.slots)

    def run(self):
        """Run all parts; return the results by name."""
        LOGS.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self.heartbeat, daemon=True).start()
        with self.changed:
            while len(self.results) < len(self.parts):
                for part in self.parts:
                    if self.ready(part):
                        self.started[part.name] = time.monotonic()
                        threading.Thread(target=self.finish, args=(part,), daemon=True).start()
                self.changed.wait()
                if self.error:
                    raise self.error
        return self.results

    def finish(self, part):
        """Run one part, and print its result."""
        failed = [need for need in part.needs if self.results[need].state == "FAILED"]
        if failed:
            result = Result("FAILED", 0.0, f"not run: {', '.join(failed)} failed")
        elif part.tier and self.known.passed(part.name):
            result = Result("ok", 0.0, "passed before on this commit")
        else:
            result = self.execute(part)
        with self.changed:
            self.results[part.name] = result
            try:
                if result.seconds:
                    self.known.add(part.name, result)
                line = f"{result.state:<8} {part.name:<{self.width}} {result.seconds:6.1f} s  {result.note}"
                print(line.rstrip(), flush=True)
            except OSError as error:
                self.error = error
            self.changed.notify_all()

    def execute(self, part):
        """Run a part's command with its log; return the result."""
        start = time.monotonic()
        log = LOGS / f"{part.name}.log"
        junit = junit_file(part.name)
        junit.unlink(missing_ok=True)
        pytest = f"-o junit_logging=all -o junit_log_passing_tests=false --junitxml={junit}"
        note = ""
        with log.open("wb") as handle:
            try:
                process = subprocess.Popen(
                    part.command,
                    cwd=prepare.ROOT,
                    env=dict(prepare.environment(), NO_COLOR="1", COLUMNS="160", PYTEST_ADDOPTS=pytest),  # for files
                    stdin=subprocess.DEVNULL,
                    stdout=handle,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # so that a time limit and ^C reach its children too
                )
            except OSError as error:
                return Result("FAILED", 0.0, str(error))
            self.processes[part.name] = process
            try:
                status = process.wait(timeout=part.limit_s)
            except subprocess.TimeoutExpired:
                kill(process)
                status, note = process.wait(), f"stopped after its limit of {part.limit_s} s"
        seconds = time.monotonic() - start
        if status == SKIPPED:
            return Result("skipped", seconds, last_line(log))
        return Result("FAILED" if status else "ok", seconds, note or (f"exit status {status}" if status else ""))

    def heartbeat(self):
        """Print the running parts every minute."""
        while True:
            time.sleep(HEARTBEAT_S)
            with self.changed:
                now = time.monotonic()
                names = [f"{part.name} ({now - self.started[part.name]:.0f} s)" for part in self.running()]
                if names:
                    print(f"running  {', '.join(names)}", flush=True)

    def stop(self):
        """Kill the running parts."""
        for process in self.processes.values():
            kill(process)


def junit_file(name):
    """Return the path of a part's results in JUnit XML, which pytest writes."""
    return LOGS / f"{name}.xml"


def kill(process):
    """Kill a process and its children if it is running."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def listing():
    """Return the parts with the tier in which they begin, and their group."""
    return "\n".join(f"{part.name:<24} {part.tier:<6} {part.group or ''}".rstrip() for part in PARTS if part.tier)


def conclude(results, seconds):
    """Print the verdict; if a part failed, the last lines are the failed tests. Return the exit status."""
    failed = [name for name, result in results.items() if result.state == "FAILED"]
    skipped = [name for name, result in results.items() if result.state == "skipped"]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "all passed"
    print(f"{len(results)} parts in {seconds:.0f} s: {verdict} (logs: {LOGS.relative_to(prepare.ROOT)})")
    print(
        f"{len(results) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped", flush=True
    )
    if not failed:
        FAILURES.unlink(missing_ok=True)
        return 0
    failures = [
        failure
        for name in failed
        if results[name].seconds  # one that was not run has no log; the part that it needs has one
        for failure in failure_report.failures_of(name, junit_file(name), LOGS / f"{name}.log")
    ]
    FAILURES.write_text(failure_report.report(failures) + "\n")
    print(FAILURES.read_text(), end="", flush=True)
    return 1


def main():
    """Run the parts of the command line; exit with 0 only if no part failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PART", help=f"or a group ({', '.join(GROUPS)}) or a tier")
    parser.add_argument("--list", action="store_true", help=f"list parts with the tier ({', '.join(TIERS)}) and group")
    parser.add_argument("--matrix", action="store_true", help="list as JSON the tier check and the parts of the others")
    parser.add_argument("--resume", action="store_true", help="skip parts that have passed on this commit")
    options = parser.parse_args()
    if options.matrix:
        print(json.dumps(["check", *(part.name for part in PARTS if part.tier not in (None, "check"))]))
        return 0
    if options.list or not options.names:
        print(listing())
        return 0
    try:
        parts = select(options.names)
    except KeyError as error:
        sys.exit(f"error: no part, group or tier is called {error}; --list shows them")
    start = time.monotonic()
    # Packages before anything runs beside it: only one apt-get can work at a time.
    try:
        prepare.ensure_venv_module()
    except prepare.MissingError as error:
        sys.exit(f"error: {error}")
    commit = clean_commit()
    results = Results(commit, options.resume)
    processors = os.cpu_count() or 2
    run = Run(parts, results, processors, max(1, processors - 1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        status = conclude(run.run(), time.monotonic() - start)
    except BaseException as error:
        run.stop()
        if isinstance(error, BrokenPipeError):  # nobody reads the output any more
            sys.stdout = sys.stderr
            sys.exit(1)
        raise
    if status == 0 and "test" in options.names and commit and commit == clean_commit():
        PASSED.write_text(f"{commit}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
