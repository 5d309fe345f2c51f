# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run checks and tests, several at a time, and report the result and the run time of each.

Arguments are names of parts or of groups (`tests/run.py --list`); the parts that they need run first. The output of
each part goes to .build/logs/<part>.log and is shown if the part fails. A part that cannot run here exits with status
77 and prints the reason in its last line. Needs only Python's standard library.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple

import prepare

LOGS = prepare.BUILD / "logs"
SKIPPED = 77
HEARTBEAT_S = 60
SHOWN_LINES = 300

# name, command, groups that it belongs to, parts that must have passed before, longest run time allowed in seconds.
Part = namedtuple("Part", "name command groups needs limit_s")
Result = namedtuple("Result", "state seconds note")


def python(*arguments):
    """Return a command of .venv's Python."""
    return [str(prepare.VENV / "bin" / "python"), *arguments]


def check(name, command, groups=("lint", "fast", "all"), needs=("venv",), limit_s=600):
    """Return a part that needs .venv and is by default one of the quick checks."""
    return Part(name, command, groups, needs, limit_s)


def in_lab(number, *command):
    """Return a command in a further lab with the first one's images, so that tests in several labs run in parallel."""
    name = os.environ.get("LAB") or "glidein-lab"
    return ["env", f"LAB={name}-{number}", f"LAB_IMAGES={name}", *command]


LAB_UP = (sys.executable, "tests/lab/lab.py", "up")
DEMAND_SERVER = "files/demand_server"
IMPORT_LINTER = [
    *("env", f"PYTHONPATH={DEMAND_SERVER}/src"),
    *("lint-imports", "--no-cache", "--no-logo", "--config", f"{DEMAND_SERVER}/pyproject.toml"),
]
MOLECULE = ("molecule", "test", "--no-command-borders")


E2E = ("e2e", "all")

# In the order in which they are started: what others wait for, then the longest.
PARTS = [
    Part("venv", [sys.executable, "tests/prepare.py", "venv"], (), (), 900),
    Part("lab", [*LAB_UP], (), (), 1200),
    Part("collection", [sys.executable, "tests/prepare.py", "collection"], ("fast", "all"), ("venv",), 300),
    Part("ee", [sys.executable, "tests/execution_environment.py", "build"], E2E, ("venv", "collection", "lab"), 1200),
    Part("lab-2", in_lab(2, *LAB_UP), (), ("lab",), 1200),
    Part("lab-3", in_lab(3, *LAB_UP, "cm", "slurm", "slurm-accounting", "sge", "htc"), (), ("lab",), 1200),
    Part("lab-4", in_lab(4, *LAB_UP, "cm", "slurm", "sge", "htc", "ce"), (), ("lab",), 1200),
    Part("e2e-pool", [*MOLECULE], E2E, ("venv", "collection", "lab"), 5000),
    Part("e2e-glideins", in_lab(2, *MOLECULE, "-s", "glideins"), E2E, ("venv", "collection", "lab-2", "ee"), 5000),
    Part("e2e-sites", in_lab(3, *MOLECULE, "-s", "sites"), E2E, ("venv", "collection", "lab-3"), 5000),
    Part("e2e-access", in_lab(4, *MOLECULE, "-s", "access"), E2E, ("venv", "collection", "lab-4"), 5000),
    check("glidein", python("-m", "pytest", "-n", "2", "--dist", "loadfile", "-rs", "tests/glidein"), ("fast", "all")),
    check("ansible-test-sanity", python("tests/checks/ansible_test.py", "sanity"), ("fast", "all"), limit_s=1800),
    check("ansible-test-units", python("tests/checks/ansible_test.py", "units"), ("fast", "all"), limit_s=1800),
    check("ansible-test-python3.6", python("tests/checks/ansible_test.py", "python3.6"), ("fast", "all"), limit_s=1800),
    check("server", python("tests/checks/server.py"), ("fast", "all")),
    check("browser", python("tests/checks/browser.py"), ("fast", "all"), limit_s=900),
    check(
        "awx",
        python("-m", "pytest", "-p", "no:cacheprovider", "tests/awx"),
        ("fast", "all"),
        ("venv", "collection"),
        limit_s=1200,
    ),
    check("bench", python("-m", "pytest", "-p", "no:cacheprovider", "tests/bench"), ("fast", "all")),
    check("ansible-lint", ["ansible-lint", "--strict", "--nocolor"], needs=("venv", "collection")),
    check("antsibull-docs", python("tests/checks/docs.py"), needs=("venv", "collection")),
    check("galaxy-importer", python("tests/checks/galaxy_importer.py"), needs=("venv", "collection")),
    check("docs", python("tests/checks/docs_site.py"), needs=("venv", "collection")),
    check("documentation", python("-m", "pytest", "-p", "no:cacheprovider", "tests/documentation")),
    check("roles", python("tests/checks/roles.py")),
    check("shellcheck", python("tests/checks/shell.py")),
    check("vermin", ["vermin", "--target=3.6-", "--no-tips", "--violations", "plugins"]),
    check("import-contracts-plugins", python("tests/checks/plugin_imports.py")),
    check("yamllint", ["yamllint", "--strict", "."]),
    check("import-linter", IMPORT_LINTER),
    check("ruff", ["ruff", "check", "."]),
    check("ruff-format", ["ruff", "format", "--check", "--diff", "."]),
    check("changelog", ["antsibull-changelog", "lint"]),
    check("release", python("tests/checks/release.py")),
    check("reuse", ["reuse", "lint"]),
]


def select(names, parts=None):
    """Return the parts of these names of parts and groups, with those that they need, in the order of the table.

    Raise KeyError with the first unknown name.
    """
    parts = PARTS if parts is None else parts
    by_name = {part.name: part for part in parts}
    groups = {group for part in parts for group in part.groups}
    wanted = set()
    todo = list(names)
    while todo:
        name = todo.pop(0)
        if name in by_name:
            wanted.add(name)
            todo.extend(by_name[name].needs)
        elif name in groups:
            todo.extend(part.name for part in parts if name in part.groups)
        else:
            raise KeyError(name)
    return [part for part in parts if part.name in wanted]


def last_line(log):
    """Return the last line of a log that is not empty."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def takes_slot(name):
    """Return whether a part uses a processor slot."""
    return not name.startswith(("lab", "e2e"))


class Run:
    """A run of parts, at most `slots` at a time. Labs and their tests take no slot, because they mostly wait."""

    def __init__(self, parts, slots, slots_beside_labs, out=sys.stdout):
        """Set the parts in the order in which they should start, and the slots without and with labs that run."""
        self.parts = parts
        self.slots = slots
        self.slots_beside_labs = slots_beside_labs
        self.out = out
        self.results = {}
        self.started = {}
        self.processes = {}
        self.changed = threading.Condition()
        self.error = None  # what went wrong in a thread, for the main one
        self.width = max(len(part.name) for part in parts)

    def say(self, text):
        """Print one line without buffering."""
        print(text, file=self.out, flush=True)

    def ready(self, part):
        """Return whether a part can start now."""
        busy = sum(1 for name in self.started if name not in self.results and takes_slot(name))
        labs = any(not takes_slot(each.name) and each.name not in self.results for each in self.parts)
        return (
            part.name not in self.started
            and all(need in self.results for need in part.needs)
            and (not takes_slot(part.name) or busy < (self.slots_beside_labs if labs else self.slots))
        )

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
        result = Result("FAILED", 0.0, f"not run: {', '.join(failed)} failed") if failed else self.execute(part)
        with self.changed:
            self.results[part.name] = result
            try:
                self.show(part, result)
            except OSError as error:
                self.error = error
            self.changed.notify_all()

    def execute(self, part):
        """Run a part's command with its log; return the result."""
        start = time.monotonic()
        log = LOGS / f"{part.name}.log"
        note = ""
        with log.open("wb") as handle:
            try:
                process = subprocess.Popen(
                    part.command,
                    cwd=prepare.ROOT,
                    env=dict(prepare.environment(), NO_COLOR="1", COLUMNS="160"),  # for a log file
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

    def show(self, part, result):
        """Print the line of a finished part, and its log if it failed."""
        line = f"{result.state:<8} {part.name:<{self.width}} {result.seconds:6.1f} s  {result.note}"
        self.say(line.rstrip())
        log = LOGS / f"{part.name}.log"
        if result.state != "FAILED" or not result.seconds:
            return
        lines = log.read_text(errors="replace").splitlines()
        cut = f"last {SHOWN_LINES} of {len(lines)} lines of " if len(lines) > SHOWN_LINES else ""
        self.say(f"-------- {cut}{log.relative_to(prepare.ROOT)}")
        self.say("\n".join(f"  {text}" for text in lines[-SHOWN_LINES:]))
        self.say("--------")

    def heartbeat(self):
        """Print the running parts every minute."""
        while True:
            time.sleep(HEARTBEAT_S)
            with self.changed:
                now = time.monotonic()
                running = [
                    f"{name} ({now - start:.0f} s)" for name, start in self.started.items() if name not in self.results
                ]
                if running:
                    self.say(f"running  {', '.join(running)}")

    def stop(self):
        """Kill the running parts."""
        for process in self.processes.values():
            kill(process)


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
    """Return the parts with their groups."""
    return "\n".join(f"{part.name:<24} {', '.join(part.groups)}".rstrip() for part in PARTS)


def main():
    """Run the parts of the command line; exit with 0 only if no part failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PART|GROUP")
    parser.add_argument("--list", action="store_true", help="list parts and their groups")
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        help="parts at a time beside those on labs (default: one for each processor, one less beside labs)",
    )
    options = parser.parse_args()
    if options.list or not options.names:
        print(listing())
        return 0
    try:
        parts = select(options.names)
    except KeyError as error:
        sys.exit(f"error: no part or group is called {error}; --list shows them")
    start = time.monotonic()
    # Packages before anything runs beside it: only one apt-get can work at a time.
    try:
        prepare.ensure_venv_module()
    except prepare.MissingError as error:
        sys.exit(f"error: {error}")
    if any(part.name == "glidein" for part in parts):
        try:
            prepare.ensure_busybox()
        except prepare.MissingError as error:
            print(f"note     {error}; the part `glidein` skips what needs it", flush=True)
    processors = os.cpu_count() or 2
    run = Run(parts, options.jobs or processors, options.jobs or max(1, processors - 1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = run.run()
    except BaseException as error:
        run.stop()
        if isinstance(error, BrokenPipeError):  # nobody reads the output any more
            sys.stdout = sys.stderr
            sys.exit(1)
        raise
    failed = [name for name, result in results.items() if result.state == "FAILED"]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "all passed"
    print(
        f"{len(results)} parts in {time.monotonic() - start:.0f} s: {verdict} (logs: {LOGS.relative_to(prepare.ROOT)})"
    )
    states = [result.state for result in results.values()]
    print(f"{states.count('ok')} passed, {len(failed)} failed, {states.count('skipped')} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
