# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs outside commands: argument lists only, with a time limit and an environment that cannot change their output."""

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time

from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandStoppedError,
    CommandTimeoutError,
)

DEFAULT_TIMEOUT_S = 60
# Bytes that a command may print, on standard output and standard error together: some hundred thousand jobs of a user.
MOST_OUTPUT = 256 * 2**20
# Bytes of each output that the error of a command with too much output keeps.
_KEPT_OUTPUT = 64 * 2**10
_CHUNK = 2**16
# How much of an output goes into a message; the whole of it is in the error's fields.
QUOTED_CHARS = 400


def quote_argv(argv):
    """Return an argument list as one line that a person could paste into a shell."""
    return " ".join(shlex.quote(argument) for argument in argv)


# What a command finds its way with, where the rest of the environment would travel to the compute node.
ESSENTIAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH", "TMPDIR")


def clean_environment(environ, scrub_prefixes=(), keep=(), only_prefixes=None):
    """Return a copy of `environ` for batch commands.

    Variables that begin with one of `scrub_prefixes` go (unless in `keep`), the locale is C and the time zone UTC, so
    that numbers, words and times look the same on every site. only_prefixes: when given, nothing else than ESSENTIAL,
    `keep` and variables that begin so is let through in the first place.
    """
    prefixes = tuple(scrub_prefixes) + ("LC_", "LANG")
    if only_prefixes is not None:
        allowed = ESSENTIAL + tuple(keep)
        environ = {
            name: value for name, value in environ.items() if name in allowed or name.startswith(tuple(only_prefixes))
        }
    cleaned = {name: value for name, value in environ.items() if name in keep or not name.startswith(prefixes)}
    cleaned["LC_ALL"] = "C"
    cleaned["TZ"] = "UTC0"
    return cleaned


class Runner:
    """Runs commands for one batch system.

    timeout_s: seconds after which a command and its children are killed. most_output: bytes that a command may print
    before it is killed. environment: see clean_environment.
    """

    def __init__(self, environment, timeout_s=DEFAULT_TIMEOUT_S, most_output=MOST_OUTPUT):
        self.environment = environment
        self.timeout_s = timeout_s
        self.most_output = most_output

    def run(self, argv, stdin=os.devnull):
        """Run `argv` and return its standard output as text. stdin: path of the file that it reads as standard input.

        Raises CommandTimeoutError, CommandStoppedError when it prints more than most_output, or CommandError when it
        cannot be started or its exit status is not 0.
        """
        try:
            with open(stdin, "rb") as source:
                process = subprocess.Popen(
                    argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self.environment,
                    # A session of its own: a wrapper script's children are stopped with it.
                    start_new_session=True,
                )
        except OSError as error:
            raise CommandError(f"{quote_argv(argv)} could not be started: {error.strerror}.", argv) from error
        out, err, is_late = self._read(process)
        if len(out) + len(err) > self.most_output:
            raise CommandStoppedError(
                f"{quote_argv(argv)} printed more than {_megabytes(self.most_output)} and was stopped; it began with: "
                f"{excerpt(_text((out or err)[:_KEPT_OUTPUT]))}",
                argv,
                None,
                _text(out[:_KEPT_OUTPUT]),
                _text(err[:_KEPT_OUTPUT]),
            )
        out, err = _text(out), _text(err)
        if is_late:
            raise CommandTimeoutError(
                f"{quote_argv(argv)} gave no answer within {self.timeout_s} s and was stopped.", argv, None, out, err
            )
        if process.returncode != 0:
            raise CommandError(
                f"{quote_argv(argv)} failed with exit status {process.returncode}: "
                f"{excerpt(err or out) or 'no output'}",
                argv,
                process.returncode,
                out,
                err,
            )
        return out

    def run_with_input(self, argv, text):
        """Run `argv` with `text` as its standard input, and return its standard output. Raises as run does."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as handle:  # 0600
            handle.write(text)
            handle.flush()
            return self.run(argv, handle.name)

    def _read(self, process):
        """Return (standard output, standard error, whether the time limit was reached) of a process that has ended.

        Each output is a bytearray. The process is killed at the time limit, and when it has printed more than
        most_output; at most one chunk more than that is read.
        """
        deadline_s = time.monotonic() + self.timeout_s
        outputs = {process.stdout: bytearray(), process.stderr: bytearray()}
        is_late = False
        with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
            for stream in outputs:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map() and not is_late:
                for key, _events in selector.select(max(0, deadline_s - time.monotonic())):
                    chunk = os.read(key.fd, _CHUNK)
                    outputs[key.fileobj] += chunk
                    if not chunk:
                        selector.unregister(key.fileobj)
                if sum(map(len, outputs.values())) > self.most_output:
                    break
                is_late = bool(selector.get_map()) and time.monotonic() >= deadline_s
            has_more = bool(selector.get_map())
        if not has_more:
            try:
                process.wait(timeout=max(0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                is_late = True
        if has_more or is_late:
            _kill(process)
        return outputs[process.stdout], outputs[process.stderr], is_late


def excerpt(text):
    """Return the beginning of `text` on one line, short enough for a message."""
    text = text.strip()
    beginning = text[: 4 * QUOTED_CHARS]  # joining all the words of a long list would take most of a second
    line = " ".join(beginning.split())
    whole = len(line) <= QUOTED_CHARS and len(beginning) == len(text)
    return line if whole else line[:QUOTED_CHARS] + "..."


def _kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process in uninterruptible sleep (dead NFS server) does not end: leave it, we know enough.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def _megabytes(number):
    return f"{number // 2**20} MB" if number >= 2**20 else f"{number} bytes"


def _text(raw):
    return raw.decode("utf-8", "replace")
