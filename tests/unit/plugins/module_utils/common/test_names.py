# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import as_name, is_job_name, is_name, job_name
from hypothesis import given
from hypothesis import strategies as st

names = st.text(min_size=1, max_size=64)


@given(names, names, names, names)
def test_job_names_have_15_plain_characters(deployment, site, entry, shape):
    name = job_name(deployment, site, entry, shape)
    assert len(name) == 15
    assert set(name) <= set("g-0123456789abcdef")
    assert is_job_name(name, deployment)


def test_job_names_never_change_because_queued_jobs_carry_them():
    assert job_name("glidein", "lab", "main", "core") == "g952ce-1c5e5ee7"


def test_site_entry_and_shape_cannot_be_mixed_up():
    made = {job_name("d", "ab", "c", "d"), job_name("d", "a", "bc", "d"), job_name("d", "a", "b", "cd")}
    assert len(made) == 3


@pytest.mark.parametrize("name", ["", "g952ce", "bash", "{}x", "x{}", "g952ce-1C5E5EE7", "{}\n"])
def test_jobs_with_other_names_are_ignored(name):
    assert not is_job_name(name.format("g952ce-1c5e5ee7"), "glidein")


def test_jobs_of_another_deployment_are_ignored():
    assert not is_job_name(job_name("other", "lab", "main", "core"), "glidein")


def test_names_that_files_or_shells_could_misread_are_refused():
    assert all(map(is_name, ["a", "RM", "PSC-Bridges", "rm.small_2", "0", "x" * 64]))
    refused = ["", "-a", ".a", "a b", "a/b", "a\n", "x" * 65, "\u00e9", None, 3, "a;b", "$a"]
    assert not [name for name in refused if is_name(name)]


@pytest.mark.parametrize("text, name", [("a b/c", "a-b-c"), (" gpu", "gpu"), ("x" * 70, "x" * 64), ("{{", "")])
def test_a_text_becomes_a_valid_name(text, name):
    assert as_name(text) == name
