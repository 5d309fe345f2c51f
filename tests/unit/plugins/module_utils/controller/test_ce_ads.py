# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the queries of collectors, with a stand-in for HTCondor's Collector or for the program that reads ads."""

import sys
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.controller import ce_ads
from ansible_collections.glidein.ops.plugins.module_utils.controller.ce_catalogue import query
from ansible_collections.glidein.ops.tests.unit.support.hangs import shorten_limits

needs_library = pytest.mark.skipif(ce_ads.classad2 is None, reason="needs the Python library htcondor")

AD = """[
    Name = "ce1.example.org"; OSG_Resource = "CE1"; Other = 1; X = "ce1.example.org";
    grid_resource = strcat("condor ", X, " ", X, ":9619");
    OSG_ResourceCatalog = { [
        Name = "sc1"; CPUs = 8; Memory = 2000 * CPUs; AllowedVOs = { "osg" };
        Requirements = TARGET.RequestCPUs <= CPUs;
        Transform = [ set_xcount = RequestCPUs; set_queue = "long" ]
    ], 7, undefined, error }
]"""
# Each text is 10 times as long as the one before.
_STEPS = "".join(f"a{n} = strcat({', '.join([f'a{n - 1}'] * 10)}); " for n in range(1, 12))
LARGE = f'[ Name = "large"; grid_resource = [ a0 = "{"x" * 10**5}"; {_STEPS}].a11 ]'
# Each number is a sum of 10 of the one before, evaluated anew.
_SUMS = "".join(f"a{n} = {' + '.join([f'a{n - 1}'] * 10)}; " for n in range(1, 12))
SLOW = f'[ Name = "slow"; grid_resource = [ a0 = 1; {_SUMS}].a11 ]'
CHAIN = f'[ Name = "chain"; {"".join(f"a{n} = a{n + 1} + 1; " for n in range(10000))} a10000 = 1; grid_resource = a0 ]'
LOOP = '[ Name = "loop"; grid_resource = a; a = b; b = a ]'
DEEP = '[ Name = "deep"; OSG_ResourceCatalog = { { { { { { { 1 } } } } } } } ]'
MANY = f'[ Name = "many"; OSG_ResourceCatalog = {{ {", ".join(["1"] * 201)} }} ]'
LONG = f'[ Name = "long"; OSG_Resource = "{"x" * 1001}" ]'
TIME = '[ Name = "time"; OSG_Resource = absTime(0) ]'
_PART = f'[ a = "{"x" * 999}"; b = "{"y" * 999}" ]'
HUGE = f'[ Name = "huge"; OSG_ResourceCatalog = {{ {", ".join([_PART] * 150)} }} ]'


@pytest.fixture
def program(tmp_path):
    """Return a function that writes a program in place of ce_ads.py, and returns its path."""

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(f"import os, sys, time\n{text}\n", encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def reader(program):
    """Return a function that returns the path of ce_ads.py with the texts of ads as every collector's answer.

    before: statements that run before the query.
    """

    def reader_of(*ads, before=""):
        folder = str(Path(ce_ads.__file__).parent)
        return program(
            f"""
sys.path.insert(0, {folder!r})
import ce_ads
class Collector:
    def __init__(self, address):
        if address == "down:9619":
            raise RuntimeError("Failed communication with\\ncollector.")
    def query(self, adtype, constraint, projection):
        assert constraint == "OSG_ResourceCatalog isnt undefined" and "grid_resource" in projection
        return [ce_ads.classad2.ClassAd(text) for text in {ads!r}]
ce_ads.htcondor2.Collector = Collector
{before}
sys.exit(ce_ads.main(sys.argv[1]))
"""
        )

    return reader_of


@needs_library
def test_expressions_of_an_ad_are_evaluated(reader):
    answers, failures = query(["one:9619"], 60, reader(AD))
    assert failures == {}
    (record,) = answers["one:9619"]
    assert record["name"] == "'ce1.example.org'"
    assert record["ad"] == {
        "Name": "ce1.example.org",
        "OSG_Resource": "CE1",
        "grid_resource": "condor ce1.example.org ce1.example.org:9619",
        "OSG_ResourceCatalog": [
            {
                "Name": "sc1",
                "CPUs": 8,
                "Memory": 16000,
                "AllowedVOs": ["osg"],
                "Requirements": None,
                "Transform": {"set_xcount": None, "set_queue": "long"},
            },
            7,
            None,
            None,
        ],
    }


@needs_library
@pytest.mark.parametrize(
    ("ad", "error"),
    [
        (CHAIN, "its expressions cannot be evaluated"),
        (DEEP, "it has lists or ads nested more than 5 deep"),
        (MANY, "it has a list or ad of 201 items; expected at most 200"),
        (LONG, "it has a text of 1001 characters; expected at most 1000"),
        (TIME, "it has a value of the type datetime"),
        (HUGE, "it has 302"),
    ],
    ids=["chain", "deep", "many", "long", "time", "huge"],
)
def test_an_invalid_ad_costs_only_itself(reader, ad, error):
    records = query(["one:9619"], 60, reader(AD, ad, AD))[0]["one:9619"]
    assert [record["name"] for record in records[::2]] == ["'ce1.example.org'"] * 2
    assert "ad" not in records[1]
    assert records[1]["error"].startswith(error)


@needs_library
def test_attributes_that_refer_to_each_other_are_undefined(reader):
    assert query(["one:9619"], 60, reader(LOOP))[0]["one:9619"][0]["ad"]["grid_resource"] is None


@needs_library
@pytest.mark.parametrize(("ad", "name"), [(SLOW, "slow"), (LARGE, "large")], ids=["slow", "large"])
def test_an_ad_that_needs_too_much_costs_the_answer_of_its_collector(reader, tmp_path, monkeypatch, ad, name):
    shorten_limits(monkeypatch, tmp_path)
    # The time limit begins with the evaluation of SLOW.
    mark = f"""
evaluate = ce_ads._line
def evaluate_marked(ad):
    if ad["Name"] == "slow":
        open('{tmp_path}/hanging.%d' % os.getpgrp(), 'w').close()
    return evaluate(ad)
ce_ads._line = evaluate_marked
"""
    reason = f"its ad '{name}' cannot be evaluated within 60 s and 512 MB"
    assert query(["one:9619"], 60, reader(AD, ad, AD, before=mark)) == ({}, {"one:9619": reason})


@needs_library
def test_a_collector_that_does_not_answer_is_named_with_its_error(reader):
    answers, failures = query(["one:9619", "down:9619"], 60, reader(AD))
    assert list(answers) == ["one:9619"]
    assert failures == {"down:9619": "Failed communication with collector."}


# --- the process, without the library


def test_the_query_is_not_authenticated_unless_the_user_configures_htcondor(program, monkeypatch):
    path = program("print(os.environ['CONDOR_CONFIG'], '{}', sep='\\t')")
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    assert query(["one:9619"], 60, path)[0] == {"one:9619": [{"name": "ONLY_ENV"}]}
    monkeypatch.setenv("CONDOR_CONFIG", "/etc/condor/condor_config")
    assert query(["one:9619"], 60, path)[0] == {"one:9619": [{"name": "/etc/condor/condor_config"}]}


def test_collectors_that_do_not_answer_in_time_are_named_and_wait_at_the_same_time(program, tmp_path, monkeypatch):
    shorten_limits(monkeypatch, tmp_path)
    # Each of the two hangs when both have begun.
    path = program(
        "name = sys.argv[1][0]\n"
        "if name in 'ab':\n"
        f"    open(f'{tmp_path}/{{name}}', 'w').close()\n"
        f"    while not os.path.exists('{tmp_path}/' + {{'a': 'b', 'b': 'a'}}[name]):\n"
        "        time.sleep(0.05)\n"
        f"    open('{tmp_path}/hanging.%d' % os.getpgrp(), 'w').close()\n"
        "    time.sleep(600)"
    )
    answers, failures = query(["a:1", "b:1", "c:1"], 60, path)
    assert answers == {"c:1": []}
    assert failures == {"a:1": "no answer within 60 s", "b:1": "no answer within 60 s"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sys.exit(7)", "the query ended with the exit status 7"),
        ("print('one\\t{}', flush=True); sys.exit('lost\\x1b[2J')", "lost?[2J"),
        (
            "print('one\\t{}'); print('two', end='\\t', flush=True); os.kill(os.getpid(), 9)",
            "its ad two cannot be evaluated within 60 s and 512 MB",
        ),
    ],
    ids=["no message", "incomplete", "killed"],
)
def test_an_answer_of_a_query_that_fails_is_not_used(program, text, reason):
    assert query(["a:1", "b:1"], 60, program(f"if sys.argv[1] == 'a:1':\n    {text}")) == ({"b:1": []}, {"a:1": reason})


def test_without_the_library_the_error_says_what_to_install(program):
    with pytest.raises(GlideinError) as error:
        query(["a:1"], 60, program(f"sys.exit({ce_ads.NO_BINDINGS})"))
    assert str(error.value) == (
        "The Python library htcondor is missing on the controller. To install it, run "
        f"{sys.executable} -m pip install 'htcondor>=25.0,<26'"
    )


def test_the_program_reports_a_missing_library(monkeypatch):
    monkeypatch.setattr(ce_ads, "htcondor2", None)
    assert ce_ads.main("a:1") == ce_ads.NO_BINDINGS
