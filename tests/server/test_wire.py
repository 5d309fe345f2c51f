# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages between the server and the reader's processes."""

import pytest
from glidein_demand.pool import wire
from hypothesis import given
from hypothesis import strategies as st

_values = st.none() | st.booleans() | st.integers() | st.text()
_messages = st.dictionaries(st.text().filter(lambda key: key != wire.TEXTS), _values | st.lists(_values))


@given(_messages, st.none() | st.lists(st.binary()))
def test_a_message_comes_out_as_it_went_in(message, texts):
    if texts is not None:
        message[wire.TEXTS] = texts
    assert wire.unpacked(wire.packed(message)) == message


@given(_messages, st.lists(st.binary(), min_size=1), st.data())
def test_one_that_is_cut_off_anywhere_is_refused(message, texts, data):
    whole = wire.packed({**message, wire.TEXTS: texts})
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError):
        wire.unpacked(whole[:cut])


@given(st.binary(), _messages, st.none() | st.lists(st.binary()))
def test_what_comes_before_it_does_not_matter(before, message, texts):
    if texts is not None:
        message[wire.TEXTS] = texts
    assert wire.unpacked(bytearray(before + wire.packed(message)), len(before)) == message


@pytest.mark.parametrize(
    "said",
    [
        b"", b"\n", b"{}", b"[]\n", b"3\n", b"{}\nx",
        b'{"texts":null}\n', b'{"texts":["a"]}\na', b'{"texts":[true]}\na',
        b'{"texts":[-1,1]}\n', b'{"texts":[1]}\n', b'{"texts":[0]}', b'{"texts":[0]}\nx', b'{"texts":{}}\n',
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(said):
    with pytest.raises(ValueError):
        wire.unpacked(said)
