# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out orders, each in a process of its own: what asks schedds and collector, and what takes long to make.

HTCondor's Python bindings keep the interpreter's lock while they wait for a daemon (a collector that accepts and
never answers stopped every thread for 60 s), so a query inside the server would stop every request. A process of its
own can also be ended when it takes too long, and whatever memory a large queue needed goes with it. Work in Python
holds that lock, too, and for long when the kernel lets others go first in the middle of it.

Starting Python and loading the bindings costs more than most queries. A helper process does it once, and forks a
process for each order: about 3 ms instead of 100 ms. `python -m glidein_demand.helper FD` is that helper; on the
socket FD it is given one socket for each order, and ends when the server does. The forked process writes its id in a
line, reads the order to its end, and writes the answer, or {"error": "one line"}. Both are messages (see wire.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable

from . import wire

NICE = 10
"""Niceness, at least. Requests go first: a refresh may take what the processor has left."""

HUNG_S = 10.0
"""A helper that does not begin with an order in this time is taken for one that never will."""

HELPER = "glidein_demand.helper"
"""What the server starts; it knows which order is carried out by what."""


class ReadError(Exception):
    """An order could not be carried out; the message is one line that says why."""


class _NotBegunError(ReadError):
    """The helper did nothing with an order."""


class Reader:
    """Carries out orders (see helper.py for what there is); safe to use from many threads. Close it at the end.

    The helper is started with the first order, and again when it is gone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closed = False

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def read(self, order: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Carry out `order` within `timeout` seconds; raise ReadError when there is no answer."""
        deadline = time.monotonic() + timeout
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                helper = self._hand_over(theirs)
            try:
                answer = _exchange(ours, wire.packed(order), deadline, timeout)
            except _NotBegunError:
                if timeout >= HUNG_S:
                    helper.kill()
                    helper.wait()  # the next order starts another
                raise
        if "error" in answer:
            raise ReadError(answer["error"])
        return answer

    def close(self) -> None:
        """End the helper; an order under way is carried out, and no other."""
        with self._lock:
            self._closed = True
            self._end()

    def _hand_over(self, connection: socket.socket) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise ReadError("the server ends")
            if self._helper is not None and self._helper.poll() is None:
                with contextlib.suppress(OSError):
                    socket.send_fds(self._control, [b"."], [connection.fileno()])
                    return self._helper
            try:
                helper = self._begin()
                socket.send_fds(self._control, [b"."], [connection.fileno()])
            except OSError as error:
                raise ReadError(f"cannot start the reader: {error}") from error
            return helper

    def _begin(self) -> subprocess.Popen[bytes]:
        self._end()
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", HELPER, str(theirs.fileno())]
            self._helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        return self._helper

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()  # which the helper takes as the end
            self._control = None
        if self._helper is not None:
            try:
                self._helper.wait(5)
            except subprocess.TimeoutExpired:
                self._helper.kill()
                self._helper.wait()
            self._helper = None


def read(order: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Carry out a single order, as Reader.read does."""
    with Reader() as reader:
        return reader.read(order, timeout)


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def _exchange(connection: socket.socket, order: bytes, deadline: float, timeout: float) -> dict[str, Any]:
    """Send the order and receive the answer; at the deadline, end the process that works on it."""
    said = bytearray()

    def wait_no_longer() -> None:
        connection.settimeout(max(0.001, deadline - time.monotonic()))

    try:
        wait_no_longer()
        connection.sendall(order)
        connection.shutdown(socket.SHUT_WR)
        while True:
            wait_no_longer()
            part = connection.recv(1 << 20)
            if not part:
                break
            said += part
    except socket.timeout as error:  # an alias of TimeoutError since Python 3.10
        _kill(said)
        raise (ReadError if said else _NotBegunError)(f"no answer within {timeout:g} s") from error
    except OSError as error:
        raise ReadError(f"the reader is gone: {error}") from error
    try:
        return wire.unpacked(said, said.find(b"\n") + 1)
    except ValueError as error:
        raise ReadError("the reader ended without an answer; what it said is in the log") from error


def _kill(said: bytearray) -> None:
    """End the process that has sent its id in the first line. It holds its end of the socket, so it is still there."""
    line, newline, _rest = said.partition(b"\n")
    if newline and line.isdigit():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line), signal.SIGKILL)


def serve(descriptor: int, carry_out: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """The helper: fork a process for each socket that comes, which carries out an order, until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches it too, and deserves no traceback
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes: let none stay as a zombie
    with socket.socket(fileno=descriptor) as control:
        while True:
            _data, descriptors, _flags, _address = socket.recv_fds(control, 1, 1)
            if not descriptors:
                return 0
            with socket.socket(fileno=descriptors[0]) as connection:
                try:
                    if os.fork():
                        continue
                except OSError as error:  # too many processes, or too little memory: the next order may find some
                    print(f"reader: cannot start a process: {one_line(error)}", file=sys.stderr, flush=True)
                    continue
                control.close()
                try:
                    _answer(connection, carry_out)
                    os._exit(0)
                except BaseException as error:  # noqa: BLE001 - the log has to say why there is no answer
                    if not isinstance(error, BrokenPipeError):  # the server has given up
                        print(f"reader: {one_line(repr(error))}", file=sys.stderr, flush=True)
                    os._exit(1)


def _told(error: Exception) -> str:
    """What an error says, in one line; those of Python itself say little without their type."""
    ours = not isinstance(error, (LookupError, TypeError, AttributeError))
    return (one_line(error) if ours else "") or one_line(repr(error))


def _answer(connection: socket.socket, carry_out: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """In the forked process: carry out the order that comes."""
    os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))  # whatever the server's is
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.sendall(b"%d\n" % os.getpid())
    with connection.makefile("rb") as incoming:
        order = wire.unpacked(incoming.read())
    try:
        answer = carry_out(order)
    except Exception as error:  # noqa: BLE001 - whatever it was, the server shows it and keeps its last answer
        answer = {"error": _told(error)}
    connection.sendall(wire.packed(answer))
