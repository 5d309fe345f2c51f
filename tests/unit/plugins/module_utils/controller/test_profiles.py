# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of profiles of known machines: their schema, and the scripts of their entries."""

import pathlib
import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.controller import profiles
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_files

ROOT = pathlib.Path(__file__).parents[5]
ACCOUNT = "abc123"
PAYLOAD = {
    "home": "/home/pilot/.glidein/site/1",
    "log_dir": "/home/pilot/.glidein/site/log",
    "credential": "/home/pilot/.glidein/site/credential",
    "collector": "cm.example.org",
    "scratch": "/tmp",  # noqa: S108
    "environment": {},
    "modules": [],
    "condor_config": {},
}
GUIDE = {"url": "https://example.org/guide", "says": "48 h"}


def raw(**changes):
    """Return a small valid profile."""
    return dict(
        {
            "name": "one",
            "title": "One",
            "organisation": "Centre",
            "documentation": "https://example.org/",
            "scheduler": "slurm",
            "read": "2026-11-22",
            "sources": {"guide": GUIDE},
            "entries": {"main": raw_entry()},
        },
        **changes,
    )


def raw_entry(**changes):
    shapes = {"core": {"cpus": 2, "memory_mb": 4000}}
    return dict({"source": "guide", "queue": "cpu", "walltime": "48h", "shapes": shapes}, **changes)


def problems(**changes):
    with pytest.raises(InputError) as error:
        profiles.check_profile("one", raw(**changes))
    assert all(problem.startswith("files/profiles/one.yml: ") for problem in error.value.problems)
    return [problem.partition(": ")[2] for problem in error.value.problems]


# -- the schema -------------------------------------------------------------------------------------------------------


def test_a_small_profile_is_valid():
    profile = profiles.check_profile("one", raw())
    assert profile["entries"]["main"]["shapes"]["core"]["disk_mb"] == 2000
    assert "source" not in profile["entries"]["main"]
    assert profile["entry_sources"] == {"main": ["guide"]}


def test_a_date_without_quotes_is_a_date():
    assert profiles.check_profile("one", raw(read=profiles.datetime.date(2026, 11, 22)))["read"] == "2026-11-22"


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"scrach": 1}, "scrach: unknown key (did you mean 'scratch'?); docs/profiles.md lists the keys"),
        ({"name": "two"}, "name: 'two' is invalid; expected the file's name, one"),
        ({"title": None}, "title: missing"),
        ({"read": "yesterday"}, "read: 'yesterday' is invalid; expected a date"),
        ({"read": "2026-13-01"}, "read: '2026-13-01' is invalid; expected a date"),
        ({"documentation": "example.org"}, "documentation: 'example.org' is invalid; expected an address"),
        ({"sources": {}}, "sources: {} is invalid; expected a mapping with at least one key"),
        ({"sources": {"guide": {"url": "x", "says": "y"}}}, "sources.guide.url: 'x' is invalid"),
        ({"sources": {"guide": GUIDE, "old": GUIDE}}, "sources.old: is the source of no fact"),
        ({"scratch": {"value": "/x"}}, "scratch.source: missing; expected a key of `sources`"),
        ({"scratch": {"value": "/x", "source": "gide"}}, "scratch.source: 'gide' is invalid; expected a key of"),
        ({"scratch": {"value": "$(id)", "source": "guide"}}, "scratch.value: '$(id)' is invalid"),
        ({"scratch": {"path": "/x", "source": "guide"}}, "scratch.path: unknown key"),
        ({"login": {"two_factor": "duo", "source": "guide"}}, "login.two_factor: 'duo' is invalid; expected true or"),
        (
            {"outbound": {"value": False, "proxy": "http://me:secret@proxy:3128", "source": "guide"}},
            "outbound.proxy: 'http://me:secret@proxy:3128' is invalid; expected http://HOST:PORT",
        ),
        ({"quirks": [{"text": "x"}]}, "quirks[0].source: missing"),
        ({"quirks": "x"}, "quirks: 'x' is invalid; expected a list"),
        ({"queues_without_entry": [{"name": "q", "source": "guide"}]}, "queues_without_entry[0].reason: missing"),
        ({"entries": {}}, "entries: {} is invalid; expected a mapping with at least one key"),
        ({"entries": {"main": raw_entry(source=None)}}, "entries.main.source: missing"),
        ({"entries": {"main": raw_entry(source="x")}}, "entries.main.source: 'x' is invalid"),
        ({"entries": {"main": raw_entry(account="x")}}, "entries.main.account: 'x' is invalid; expected no account"),
        ({"entries": {"main": raw_entry(walltime="48x")}}, "entries.main.walltime: '48x' is invalid; expected a dur"),
        ({"entries": {"main": raw_entry(queu="x")}}, "entries.main.queu: unknown key (did you mean 'queue'?)"),
        (
            {
                "outbound": {"value": True, "constraint": "EGRESS", "source": "guide"},
                "entries": {"main": raw_entry(constraint="haswell")},
            },
            "entries.main.constraint: 'haswell' is invalid; expected one that includes outbound.constraint, EGRESS",
        ),
    ],
)
def test_an_error_names_the_file_the_key_and_the_expected_value(changes, words):
    assert any(problem.startswith(words) for problem in problems(**changes)), problems(**changes)


def test_content_other_than_a_mapping_is_an_error():
    with pytest.raises(InputError, match=r"files/profiles/one.yml: content: \[\] is invalid; expected a mapping"):
        profiles.check_profile("one", [])


def test_invalid_yaml_is_an_error(tmp_path):
    (tmp_path / "odd.yml").write_text("a: [", encoding="utf-8")
    with pytest.raises(InputError, match="files/profiles/odd.yml: cannot be read: "):
        profiles.load_profile("odd", tmp_path)


def test_the_feature_that_reaches_the_internet_is_the_constraint_of_each_entry():
    outbound = {"value": True, "constraint": "EGRESS", "source": "guide"}
    entries = {"main": raw_entry(), "both": raw_entry(constraint="EGRESS&a")}
    found = profiles.check_profile("one", raw(outbound=outbound, entries=entries))["entries"]
    assert [entry["constraint"] for entry in found.values()] == ["EGRESS", "EGRESS&a"]


# -- the profiles of the collection -----------------------------------------------------------------------------------

NAMES = profiles.profile_names()
ENTRIES = [(name, entry) for name in NAMES for entry in profiles.load_profile(name)["entries"]]


@pytest.mark.parametrize("name, entry_name", ENTRIES, ids=["-".join(each) for each in ENTRIES])
def test_each_entry_makes_a_batch_script_with_its_values(name, entry_name):
    profile = profiles.load_profile(name)
    site = normalise_site("glidein", name, {entry_name: dict(profile["entries"][entry_name], account=ACCOUNT)})
    entry = site["entries"][entry_name]
    # make_scheduler checks the entry's resources and directives.
    scheduler = make_scheduler(profile["scheduler"], entries=site["entries"])
    prefix = scheduler.directive_prefix
    for shape_name, shape in entry["shapes"].items():
        files = batch_files(scheduler, site, entry_name, shape_name, PAYLOAD, "/home/pilot/x.batch")
        script = "\n".join(text for _path, text in files)
        expected = [value for value in (ACCOUNT, entry["queue"], entry["constraint"]) if value]
        expected += [f"{prefix} {directive}\n" for directive in entry["directives"]]
        expected += [f"GLIDEIN_CPUS='{shape['cpus']}'\n", f"GLIDEIN_MEMORY_MB='{shape['memory_mb']}'\n"]
        assert [words for words in expected if words not in script] == [], script


def test_the_documentation_lists_all_profiles():
    lines = ["| profile | machine | batch system | entries |", "|---|---|---|---|"]
    for name in NAMES:
        profile = profiles.load_profile(name)
        machine = f"[{profile['title']}]({profile['documentation']})"
        cells = [f"`{name}`", machine, profile["scheduler"], ", ".join(profile["entries"])]
        lines.append(f"| {' | '.join(cells)} |")
    text = (ROOT / "docs/profiles.md").read_text(encoding="utf-8")
    table = [line for line in text.partition("## What the numbers mean")[0].splitlines() if line.startswith("|")]
    assert table == lines, "docs/profiles.md: expected this table:\n" + "\n".join(lines)


def test_limits_of_profiles_are_stated():
    """Assert that each profile sets its limits: the defaults (10 queued, 100 in all) may exceed the machine's."""
    for name, entry in ENTRIES:
        limits = profiles.load_profile(name)["entries"][entry].get("limits") or {}
        assert {"queued", "total"} <= set(limits), f"{name}: entries.{entry}.limits: expected queued and total"


@pytest.mark.parametrize(
    "name, words",
    [
        ("bridges", "profile: 'bridges' is unknown; similar names are psc-bridges2; docs/profiles.md lists"),
        ("tacc-fronterra", "similar names are tacc-frontera"),
        ("zzzz", "profile: 'zzzz' is unknown; docs/profiles.md lists all profiles"),
        ("../x", "profile: '../x' is unknown"),
    ],
)
def test_an_unknown_profile_is_an_error_with_similar_names(name, words):
    with pytest.raises(InputError) as error:
        profiles.load_profile(name)
    assert words in str(error.value)


def test_the_names_of_profiles_are_names_of_machines():
    assert len(NAMES) >= 9
    assert all(re.match(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", name) for name in NAMES)
