# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs outside commands: argument lists only, with a time limit and an environment that cannot change their output."""

import contextlib
import os
import shlex
import signal
import subprocess

from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, CommandTimeoutError

DEFAULT_TIMEOUT_S = 60
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

    timeout_s: seconds after which a command and its children are killed. environment: see clean_environment.
    """

    def __init__(self, environment, timeout_s=DEFAULT_TIMEOUT_S):
        self.environment = environment
        self.timeout_s = timeout_s

    def run(self, argv, stdin=os.devnull):
        """Run `argv` and return its standard output as text. stdin: path of the file that it reads as standard input.

        Raises CommandTimeoutError, or CommandError when it cannot be started or its exit status is not 0.
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
        try:
            out, err = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            out, err = _kill(process)
            raise CommandTimeoutError(
                f"{quote_argv(argv)} gave no answer within {self.timeout_s} s and was stopped.",
                argv,
                None,
                _text(out),
                _text(err),
            ) from None
        out, err = _text(out), _text(err)
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
    try:
        return process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        # A process in uninterruptible sleep (dead NFS server) keeps the pipe: leave it, we know enough.
        return b"", b""


def _text(raw):
    return raw.decode("utf-8", "replace")
