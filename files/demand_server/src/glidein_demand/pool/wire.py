# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server and the reader's processes say to each other: messages, pure functions between values and bytes.

A message is a dict of JSON values, and may have "texts", a list of bytes that stay as they are: the server hands on
most of what it gets without looking into it. On the wire the dict comes first, in one line, with the texts' lengths in
their place; the texts follow.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

TEXTS = "texts"


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as bytes."""
    if TEXTS not in message:
        return _line(message)
    return _line({**message, TEXTS: [len(text) for text in message[TEXTS]]}) + b"".join(message[TEXTS])


def unpacked(said: bytes | bytearray, begin: int = 0) -> dict[str, Any]:
    """The message that packed() made bytes of, from `begin` on. Raises ValueError for what is none, or not whole."""
    end = said.find(b"\n", begin)
    if end < 0:
        raise ValueError("the message is cut off")
    message = json.loads(said[begin:end])
    if not isinstance(message, dict):
        raise ValueError("the message is no object")
    if TEXTS in message:
        message[TEXTS] = _texts(memoryview(said)[end + 1 :], message[TEXTS])
    elif len(said) > end + 1:
        raise ValueError("more follows the message")
    return message


def text(value: Any) -> bytes:
    """JSON (with Python's Infinity) without spaces, as one of a message's texts."""
    return json.dumps(value, separators=(",", ":")).encode()


def _texts(rest: memoryview, lengths: Any) -> list[bytes]:
    if not isinstance(lengths, list) or not all(map(_is_length, lengths)):
        raise ValueError("the lengths of the message's texts are none")
    ends = list(itertools.accumulate(lengths, initial=0))
    if ends[-1] != len(rest):
        raise ValueError("the message is cut off")
    return [bytes(rest[begin:end]) for begin, end in zip(ends, ends[1:])]


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _line(message: Mapping[str, Any]) -> bytes:
    return text(message) + b"\n"
