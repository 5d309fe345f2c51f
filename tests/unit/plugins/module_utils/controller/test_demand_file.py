# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_file import read_demand_file
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError, StaleInputError
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW

FRESH = {"demand": {"as_of": NOW - 900}, "supply": {"as_of": NOW + 300}}


@pytest.fixture
def written(tmp_path):
    def write(content, mode=0o600):
        path = tmp_path / "demand.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(mode)
        return str(path)

    return write


def test_a_written_file_is_read_back(written):
    assert read_demand_file(written(FRESH), 900, NOW) == (FRESH["demand"], FRESH["supply"])


@pytest.mark.parametrize(
    "what, as_of, said",
    [
        ("demand", NOW - 901, "the demand in "),
        ("supply", NOW - 5000, "is 5000 s old by this host's clock, at most 900 s are allowed"),
        ("supply", NOW + 301, "is -301 s old"),
        ("demand", None, "has no demand: the demand server had not read it yet"),
    ],
)
def test_a_too_old_file_is_refused(written, what, as_of, said):
    with pytest.raises(StaleInputError) as raised:
        read_demand_file(written(dict(FRESH, **{what: {"as_of": as_of}})), 900, NOW)
    assert said in str(raised.value)
    assert "glidein.ops.push_demand" in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "{",
        '{"demand": 1, "supply": 2}',
        '{"demand": {}, "supply": {}}',
        '{"demand": {"as_of": NaN}, "supply": {}}',
        "[" * 100000,
    ],
)
def test_an_invalid_demand_is_refused(written, content):
    with pytest.raises(InputError) as raised:
        read_demand_file(written(content), 900, NOW)
    assert "is invalid: " in str(raised.value)


def test_a_file_that_others_may_write_is_refused(written):
    with pytest.raises(InputError, match="is writable for other users"):
        read_demand_file(written(FRESH, 0o620), 900, NOW)


def test_the_error_for_a_missing_file_names_its_writer(tmp_path):
    with pytest.raises(InputError, match="cannot be read: .*glidein.ops.push_demand"):
        read_demand_file(str(tmp_path / "none"), 900, NOW)
