# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server and the reader's processes say to each other: messages, pure functions between values and bytes.

A message is a dict of JSON values, and may have "texts", a list of bytes that stay as they are: the server hands on
most of what it gets without looking into it. On the wire the dict comes first, in one line, with the texts' lengths in
their place; the texts follow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

TEXTS = "texts"


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as bytes."""
    if TEXTS not in message:
        return _line(message)
    return _line({**message, TEXTS: [len(text) for text in message[TEXTS]]}) + b"".join(message[TEXTS])


def unpacked(said: bytes) -> dict[str, Any]:
    """The message that packed() made bytes of. Raises ValueError for what is none, or not all of it."""
    line, newline, rest = said.partition(b"\n")
    message = json.loads(line)
    if not newline or sum(message.get(TEXTS, ())) != len(rest):
        raise ValueError("the message is cut off")
    if TEXTS in message:
        begin, texts = 0, []
        for length in message[TEXTS]:
            texts.append(rest[begin : begin + length])
            begin += length
        message[TEXTS] = texts
    return message


def text(value: Any) -> bytes:
    """JSON without spaces, as one of a message's texts."""
    return json.dumps(value, separators=(",", ":")).encode()


def _line(message: Mapping[str, Any]) -> bytes:
    return text(message) + b"\n"
