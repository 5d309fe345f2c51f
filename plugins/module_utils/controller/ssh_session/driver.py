# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One login: runs ssh, answers its questions, and stops it if an answer is missing."""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session.prompts import (
    Conversation,
    LoginError,
    Prompt,
    Rule,
    printable,
)

_POLL_S = 0.1
_HELPER_PATIENCE_S = 5
_QUESTION_MOST = 65536
# A site that offers only public keys has refused a key, not an answer.
_REFUSED = re.compile(r"Permission denied(?: \([^()]*(?:keyboard-interactive|password)[^()]*\)|, please try again)")


def log_in(
    argv: List[str],
    conversation: Conversation,
    answer: Callable[[Prompt, Rule, str], str],
    notice: Callable[[str], Any],
    directory: str,
    timeout_s: float,
) -> None:
    """Run ssh until it has logged in.

    conversation: decides about prompts; answer: function of (prompt, its rule, earlier output of the site) that returns
    the text to send; notice: function that shows a text which needs no answer; directory: a private directory for the
    socket of the questions. Raises LoginError, and the exceptions of `answer`, after ssh has been stopped.
    """
    place = tempfile.mkdtemp(prefix="ask-", dir=directory)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(place, "s"))
            listener.listen(4)
            process = _start(argv, place)
            try:
                _converse(process, listener, place, conversation, answer, notice, timeout_s)
            except BaseException:
                _stop(process)
                raise
            output = _output(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if process.returncode != 0:
        refused = conversation.has_answered and _REFUSED.search(output) is not None
        what = "an answer was not accepted" if refused else f"ssh ended with exit status {process.returncode}"
        raise LoginError(f"{what}: {_output_text(output)}", refused)


def _output_text(output: str) -> str:
    """Return the output of ssh for an error."""
    return excerpt(printable(output)) or "no output"


def _start(argv: List[str], place: str) -> "subprocess.Popen[bytes]":
    """Start ssh without a terminal, so that it asks only through the helper (askpass.py)."""
    script = os.path.join(place, "askpass")
    with open(script, "w", encoding="utf-8", errors="surrogateescape") as handle:
        helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "askpass.py")
        command = " ".join(shlex.quote(part) for part in (sys.executable, "-I", "-S", helper))
        handle.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(script, 0o700)
    environment = dict(
        os.environ,
        LC_ALL="C",
        SSH_ASKPASS=script,
        SSH_ASKPASS_REQUIRE="force",
        # OpenSSH before 8.4 calls the helper only if this is set and ssh has no terminal.
        DISPLAY=os.environ.get("DISPLAY") or ":",
        GLIDEIN_OPS_ASKPASS=os.path.join(place, "s"),
    )
    try:
        # A file: the ssh to a jump host keeps it open as long as the session lasts, and a pipe would be closed earlier.
        with open(os.path.join(place, "output"), "ab") as output:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                env=environment,
                # A process group of its own, which also has the ssh to jump hosts and the helper: _stop kills all.
                start_new_session=True,
            )
    except OSError as error:
        raise CommandError(f"{quote_argv(argv)} could not be started: {error.strerror}.", argv) from error


def _converse(
    process: "subprocess.Popen[bytes]",
    listener: socket.socket,
    place: str,
    conversation: Conversation,
    answer: Callable[[Prompt, Rule, str], str],
    notice: Callable[[str], Any],
    timeout_s: float,
) -> None:
    """Answer questions until ssh has ended. Raises LoginError."""
    deadline = time.monotonic() + timeout_s
    shown = 0
    notices: List[socket.socket] = []
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise LoginError(f"not logged in after {timeout_s} s: {_output_text(_output(place))}")
            if not select.select([listener], [], [], _POLL_S)[0]:
                continue
            channel = listener.accept()[0]
            prompt = _question(channel)
            if prompt is None:
                channel.close()
                continue
            if prompt.is_notice:
                # ssh stops the helper itself when the key has been touched.
                notices.append(channel)
                notice(str(prompt))
                continue
            with channel:
                text = _output(place)
                before, shown = printable(text[shown:]).strip(), len(text)
                asked = time.monotonic()
                try:
                    rule = conversation.decide(prompt)
                    reply = answer(prompt, rule, before)
                except BaseException:
                    # Before the helper sees the closed socket.
                    _stop(process)
                    raise
                # The time that a person takes for an answer does not count.
                deadline += time.monotonic() - asked
                conversation.record(prompt, rule)
                # The helper may have ended meanwhile; the loop then sees that ssh has ended.
                with contextlib.suppress(OSError):
                    channel.sendall(json.dumps({"answer": reply}).encode() + b"\n")
    finally:
        for channel in notices:
            channel.close()


def _question(channel: socket.socket) -> Optional[Prompt]:
    """Return the Prompt that a helper sent; None if it is invalid."""
    channel.settimeout(_HELPER_PATIENCE_S)
    try:
        with channel.makefile("r", encoding="utf-8", errors="replace") as stream:
            question = json.loads(stream.readline(_QUESTION_MOST))
        return Prompt(str(question["prompt"]), str(question["hint"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _output(place: str) -> str:
    """Return the output of ssh and the site so far."""
    with open(os.path.join(place, "output"), "rb") as handle:
        return handle.read().decode("utf-8", "replace")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Kill ssh and its child processes, before the helper can pass on an empty answer. Safe to repeat."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
