# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the checks of the methods' parameters."""

import subprocess
import sys

import msgspec
import pytest
from glidein_demand.web import parameters

from conftest import ended_glidein, reported_entry, site_report, summaries_of

FIRST_USES = """
import importlib, sys, threading

sys.setswitchinterval(1e-6)
entry = {"entry": "q", "shape": "s", "glideins": [{"id": "1", "running_s": 1}]}
for _number in range(60):
    sys.modules.pop("glidein_demand.web.parameters", None)
    parameters = importlib.import_module("glidein_demand.web.parameters")
    barrier = threading.Barrier(8)

    def check():
        barrier.wait()
        report = {"site": "A", "as_of": 1, "entries": [entry]}
        for method, given in ((parameters.Report, report), (parameters.Report, {"unserved": [{}]})):
            try:
                parameters.checked(given, method)
            except ValueError:
                pass  # only the crash of the process matters

    threads = [threading.Thread(target=check) for _thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_the_first_calls_after_a_start_may_come_at_the_same_time():
    done = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def refusal(method, params):
    """Return the message of a call with invalid parameters."""
    with pytest.raises(ValueError) as caught:
        parameters.checked(params, method)
    return str(caught.value)


def of_entry(**changes):
    return {"entries": [{"entry": "a", "shape": "b", **changes}]}


def glidein(**changes):
    return of_entry(running_glideins=[{"id": "1", "wait_s": 5, **changes}])


def unserved(**changes):
    return {"unserved": [{"group": "a", "count": 1, "reason": "", **changes}]}


def summaries(*glideins, **times):
    return {"summaries": summaries_of(*glideins, **times)}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"site": ""}, "site"), ({"site": "a b"}, "site"), ({"site": "<b>"}, "site"), ({"site": "A\n"}, "site"),
        ({"site": 5}, "site"), ({"as_of": "now"}, "as_of"), ({"as_of": -1}, "as_of"), ({"as_of": 10**30}, "as_of"),
        ({"orphans": True}, "orphans"), ({"orphans": None}, "orphans"), ({"error": 5}, "error"),
        ({"entries": {}}, "entries"), ({"entries": [5]}, "entries[0]"),
        ({"entries": [{"entry": "a"}]}, "entries[0]"),
        (of_entry(queued="3"), "entries[0].queued"), (of_entry(launched=-1), "entries[0].launched"),
        (of_entry(launched=10**9 + 1), "entries[0].launched"), (of_entry(wanted=True), "entries[0].wanted"),
        (of_entry(sick_reasons="x"), "entries[0].sick_reasons"),
        (of_entry(credential_expires=-1), "entries[0].credential_expires"),
        (of_entry(cpus=0), "entries[0].cpus"), (of_entry(cpus=10**9), "entries[0].cpus"),
        (of_entry(running_since=[[1]]), "entries[0].running_since[0]"),
        (of_entry(running_since="no"), "entries[0].running_since"),
        ({"entries": [{"entry": "a", "shape": "b"}] * 1001}, "entries"),
        (glidein(id=""), "entries[0].running_glideins[0].id"),
        (glidein(id="x" * 101), "entries[0].running_glideins[0].id"),
        (glidein(id="a\nb"), "entries[0].running_glideins[0]"),
        (glidein(wait_s=-1), "entries[0].running_glideins[0].wait_s"),
        (of_entry(running_glideins=[{"id": "1"}] * 2001), "entries[0].running_glideins"),
        ({"entries": [{"entry": "a", "shape": f"s{n}", "running_glideins": [{"id": "1"}] * 1700} for n in range(6)]},
         "entries"),
        ({"unserved": "x"}, "unserved"), ({"unserved": [1]}, "unserved[0]"), ({"unserved": [{}]}, "unserved[0]"),
        (unserved(group="a b"), "unserved[0].group"), (unserved(count=-1), "unserved[0].count"),
        (unserved(reason=None), "unserved[0].reason"), ({"unserved": unserved()["unserved"] * 51}, "unserved"),
        ({"summaries": []}, "summaries"), ({"summaries": {"since": 1}}, "summaries"),
        (summaries(since=5, until=4), "summaries"), (summaries(None), "summaries.glideins[0]"),
        (summaries(*[ended_glidein()] * 1001), "summaries.glideins"),
        (summaries(ended_glidein(name="")), "summaries.glideins[0].name"),
        (summaries(ended_glidein(name="a\nb")), "summaries.glideins[0]"),
        *(
            (summaries(ended_glidein(**{name: value})), f"summaries.glideins[0].{name}")
            for name, value in (
                ("entry", "a b"), ("batch_id", 1), ("started", -1), ("ended", None), ("jobs", 10**13),
                ("jobs_failed", True), ("exit_status", 256), ("registered", "soon"),
            )
        ),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_report_is_refused_with_its_field(change, field):
    assert refusal(parameters.Report, site_report(**change)).startswith((field + " ", field + ":"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"entries": []}, "entries"), ({"entries": {"RM": 5}}, "entries[...]"),
        ({"entries": {"a b": {}}}, "key in entries"),
        ({"entries": {"RM": {"g": -1}}}, "entries[...][...]"), ({"entries": {"RM": {"g": 1.5}}}, "entries[...][...]"),
        ({"entries": {"RM": {"g": True}}}, "entries[...][...]"),
        ({"entries": {"RM": {"no group": 1}}}, "key in entries[...]"),
        ({"entries": {"RM": {f"g{n}": 1 for n in range(20001)}}}, "entries"), ({"ttl_s": 0}, "ttl_s"),
        ({"ttl_s": 86401}, "ttl_s"), ({"ttl_s": 10.5}, "ttl_s"), ({"ttl_s": None}, "ttl_s"), ({"site": "a b"}, "site"),
        ({"deployment": "a b"}, "deployment: expected a name"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_lease_is_refused_with_its_field(change, field):
    lease = {"site": "PSC", "entries": {"RM": {"g": 1}}, **change}
    assert refusal(parameters.Lease, lease).startswith((field + " ", field + ":"))


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        (parameters.Monitoring, {}, "Object missing required field `uuid`"),
        *((parameters.Monitoring, {"uuid": "a", **params}, message) for params, message in (
            ({"uuid": []}, "uuid: expected `int | float | str`"), ({"metrics": 5}, "metrics: expected `object | null`"),
            ({"glideins_idle": "3"}, "glideins_idle: expected `int | float | object | null`"),
            ({"metrics": {"glideins_idle": {"Cluster": None}}}, "metrics.glideins_idle[...]: expected `int | float`"),
            ({"metrics": {"glideins_running": dict.fromkeys(map(str, range(51)), 1)}},
             "metrics.glideins_running: expected `object` of length <= 50"),
            ({"timestamp": "now"}, "timestamp: expected `int | float | null`"),
        )),
        *((parameters.GetDemand, {"attributes": names}, "attributes") for names in (
            "ProjectName", ["a b"], ["1a"], ["x" * 65], [1], ["A"] * 21, {"A": 1},
        )),
        (parameters.GetDemand, [[5]], "sites[0]: expected `str`, got `int`"),
        (parameters.GetDemand, {"nope": 1}, "Object contains unknown field `nope`"),
        # No caller raises its own limit.
        (parameters.Lease, {"site": "PSC", "entries": {}, "site_limit": 9}, "Object contains unknown field"),
        (parameters.NoParameters, [1, 2], "expected at most 0 parameters, got 2"),
        (parameters.GetJob, {"job": 12}, "job: expected `str`"),
        (parameters.GetJob, {}, "Object missing required field `job`"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_another_method_is_refused_with_its_field(method, params, message):
    assert refusal(method, params).startswith(message)


def test_long_texts_are_truncated_missing_values_are_unknown_and_other_keys_are_dropped():
    texts = {"error": "x" * 5000, "reason": "x" * 5000, "sick_reasons": ["x" * 5000]}
    ended = ended_glidein()
    del ended["reason"]
    report = parameters.checked(
        site_report(
            error="x" * 5000,
            entries=[reported_entry(**texts), {"entry": "RM", "shape": "half", "queued": None}],
            **unserved(reason="x" * 501, more=1),
            **summaries(ended_glidein(reason="no " * 1000), ended),
        ),
        parameters.Report,
    )
    first, second = report.entries
    assert [len(text) for text in (report.error, first.error, first.reason)] == [2000] * 3
    assert [len(text) for text in first.sick_reasons] == [300]
    assert (second.queued, second.running, second.launched) == (None, None, 0)
    assert msgspec.to_builtins(report.unserved) == [{"group": "a", "count": 1, "reason": "x" * 499 + "…"}]
    assert [len(row.reason) for row in report.summaries.glideins] == [300, 0]
