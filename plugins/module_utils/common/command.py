# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of batch systems: argument lists, with a time limit and an environment that does not change their output."""

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandStoppedError,
    CommandTimeoutError,
)

DEFAULT_TIMEOUT_S = 60
# The limit on standard output and standard error together: the list of some hundred thousand jobs fits.
MAX_OUTPUT_BYTES = 256 * 2**20
# Bytes of each output that the error for too much output contains.
_KEPT_OUTPUT = 64 * 2**10
_CHUNK = 2**16
# Characters of an output in a message; the fields of the error contain the whole output.
QUOTED_CHARS = 400


def quote_argv(argv):
    """Return an argument list as a shell command line."""
    return " ".join(shlex.quote(argument) for argument in argv)


# Variables that a command needs itself, at sites where its environment becomes the environment of the job.
ESSENTIAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH", "TMPDIR")


def clean_environment(environ, scrub_prefixes=(), keep=(), only_prefixes=None):
    """Return a copy of `environ` for batch commands.

    Variables that begin with one of `scrub_prefixes` are removed, except those in `keep`. The locale is C and the time
    zone UTC, so that the output has the same form at every site. only_prefixes: if given, all variables are removed but
    ESSENTIAL, `keep` and those that begin with one of these.
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

    timeout_s: the time limit of a command, after which it and its children are killed; max_output_bytes: the limit on
    its output, after which it is killed; environment: see clean_environment.
    """

    def __init__(self, environment, timeout_s=DEFAULT_TIMEOUT_S, max_output_bytes=MAX_OUTPUT_BYTES):
        self.environment = environment
        self.timeout_s = timeout_s
        self.max_output_bytes = max_output_bytes

    def run(self, argv, stdin=os.devnull):
        """Return the standard output of `argv`. The argument and the errors are those of `outputs`."""
        return self.outputs(argv, stdin)[0]

    def outputs(self, argv, stdin=os.devnull):
        """Run `argv` and return its standard output and standard error as text.

        stdin: path of the file that it reads as standard input.

        Raises CommandTimeoutError, CommandStoppedError (more than max_output_bytes of output), or CommandError (not
        started, or an exit status other than 0).
        """
        try:
            with open(stdin, "rb") as source:
                process = subprocess.Popen(
                    argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self.environment,
                    # In a session of its own: at the time limit, the children of a wrapper script are killed, too.
                    start_new_session=True,
                )
        except OSError as error:
            raise CommandError(f"{quote_argv(argv)} could not be started: {error.strerror}.", argv) from error
        out, err, is_late = self._read(process)
        if len(out) + len(err) > self.max_output_bytes:
            raise CommandStoppedError(
                f"{quote_argv(argv)} printed more than {_megabytes(self.max_output_bytes)} and was stopped; it began "
                f"with: {excerpt(_text((out or err)[:_KEPT_OUTPUT]))}",
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
                f"{quote_argv(argv)} failed with exit status {process.returncode}: {_reason(out, err)}",
                argv,
                process.returncode,
                out,
                err,
            )
        return out, err

    def run_with_input(self, argv, text):
        """Run `argv` with `text` as its standard input, and return its standard output. Raises as run does."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as handle:  # 0600
            handle.write(text)
            handle.flush()
            return self.run(argv, handle.name)

    def _read(self, process):
        """Return (standard output, standard error, whether the time limit was reached) of a process that has ended.

        Each output is a bytearray. The process is killed at the time limit, or after it has printed more than
        max_output_bytes; at most one further chunk is read.
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
                if sum(map(len, outputs.values())) > self.max_output_bytes:
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


def excerpt(text, most=QUOTED_CHARS):
    """Return `text` on one line of at most `most` characters: if it is too long, its beginning and its end.

    Banners come first, and the reason of a failure last.
    """
    text = text.strip()
    beginning, end = text[: 4 * most], text[-4 * most :]  # to join all words of a long list takes most of a second
    line = " ".join(beginning.split())
    if len(line) <= most and len(beginning) == len(text):
        return line
    line = line[: most // 4] + " ... "
    return line + " ".join(end.split())[len(line) - most :]


def _reason(out, err):
    """Return what a command that failed has printed. Some commands print errors to standard output."""
    if not out.strip():
        return excerpt(err) or "no output"
    return f"{excerpt(err) or 'no error message'}; standard output: {excerpt(out)}"


def _kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process in uninterruptible sleep (dead NFS server) does not end: do not wait for it.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def _megabytes(number):
    return f"{number // 2**20} MB" if number >= 2**20 else f"{number} bytes"


def _text(raw):
    return raw.decode("utf-8", "replace")
