# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transforms of a gateway's job router. tests/e2e has them on real HTCondor."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.transforms import transform_config

try:
    import classad2
except ImportError:
    classad2 = None


def lines_of(**transform):
    """Return the lines of one transform, without its name."""
    problems = []
    lines = transform_config(problems, {"main": dict({"stage": "pre"}, **transform)})
    assert problems == []
    assert lines[:2] == ["JOB_ROUTER_PRE_ROUTE_TRANSFORM_NAMES = main", "JOB_ROUTER_TRANSFORM_main @=transform"]
    assert lines[-1] == "@transform"
    return [line.strip() for line in lines[2:-1]]


def test_transforms_keep_their_order_in_each_stage():
    transforms = {"d": {"stage": "post"}, "c": {"stage": "pre"}, "b": {"stage": "post"}, "a": {"stage": "pre"}}
    lines = transform_config([], transforms)
    assert lines[:2] == [
        "JOB_ROUTER_PRE_ROUTE_TRANSFORM_NAMES = c a",
        "JOB_ROUTER_POST_ROUTE_TRANSFORM_NAMES = d b",
    ]
    assert [line for line in lines if "@=" in line] == [f"JOB_ROUTER_TRANSFORM_{name} @=transform" for name in "dcba"]


def test_no_transforms_give_no_lines():
    assert transform_config([], {}) == []


def test_the_commands_have_a_fixed_order():
    assert lines_of(
        delete=["Old"],
        evaluate={"RequestMemory": "MY.RequestMemory * 2"},
        set_expression={"PeriodicRemove": "JobStatus == 5"},
        set={"Wanted": True},
        default={"maxWallTime": 60},
        requirements='MY.VO is "icecube"',
    ) == [
        'REQUIREMENTS MY.VO is "icecube"',
        "DEFAULT maxWallTime 60",
        "SET Wanted true",
        "SET PeriodicRemove JobStatus == 5",
        "EVALSET RequestMemory MY.RequestMemory * 2",
        "DELETE Old",
    ]


@pytest.mark.parametrize(
    "value, literal",
    [("a b", '"a b"'), ('a"\\', '"a\\"\\\\"'), ("", '""'), (5, "5"), (1.5, "1.5"), (False, "false")],
)
def test_values_are_literals(value, literal):
    assert lines_of(set={"Note": value}) == [f"SET Note {literal}"]


@pytest.mark.parametrize("name", ["A", "a b", "1a", "", 5])
def test_an_invalid_name_is_refused(name):
    problems = []
    transform_config(problems, {name: {"stage": "pre"}})
    assert problems == [
        f"glidein_gateway_transforms: {name!r} is invalid; expected a name of lower case letters, digits and "
        "underscores, which begins with a letter"
    ]


def test_a_list_of_transforms_is_refused():
    problems = []
    transform_config(problems, [{"stage": "pre"}])
    assert problems[0].endswith("expected a mapping of names to transforms")


@pytest.mark.parametrize(
    "transform, message",
    [
        ({"stage": None}, "stage: missing; expected pre or post"),
        ({"stage": "middle"}, "stage: 'middle' is invalid; expected pre or post"),
        ({"sets": {}}, "sets: unknown key (did you mean 'set'?)"),
        ({"requirements": "$(LOG)"}, "requirements: '$(LOG)' is invalid; expected a ClassAd expression"),
        ({"set": ["a"]}, "set: ['a'] is invalid; expected a mapping of attributes to values"),
        ({"set": {"a b": 1}}, "set: 'a b' is invalid; expected the name of a job attribute"),
        ({"set": {"true": 1}}, "set: 'true' is invalid; expected the name of a job attribute"),
        ({"set": {"a": "$(LOG)"}}, "set.a: '$(LOG)' is invalid; expected text without line breaks"),
        ({"set": {"a": "x\n@transform"}}, "set.a: 'x\\n@transform' is invalid; expected text without line breaks"),
        ({"set": {"a": [1]}}, "set.a: [1] is invalid; expected text, a number, true or false"),
        ({"set": {"a": float("inf")}}, "set.a: inf is invalid; expected text, a number, true or false"),
        ({"default": {"a": None}}, "default.a: None is invalid; expected text, a number, true or false"),
        ({"evaluate": {"a": ""}}, "evaluate.a: '' is invalid; expected a ClassAd expression"),
        ({"set_expression": {"a": 5}}, "set_expression.a: 5 is invalid; expected a ClassAd expression"),
        ({"delete": "a"}, "delete: 'a' is invalid; expected a list of names of attributes"),
        ({"delete": [5]}, "delete: 5 is invalid; expected the name of a job attribute"),
        (
            {"set": {"batchqueue": "a"}},
            "set: 'batchqueue' is invalid; expected an attribute that no route sets: use que",
        ),
        (
            {"delete": ["BatchProject"]},
            "delete: 'BatchProject' is invalid; expected an attribute that no route sets: u",
        ),
        ({"set": {"Owner": "a"}}, "set: 'Owner' is invalid; expected an attribute that HTCondor does not set itself"),
        ({"set": {"RoutedBy": "a"}}, "set: 'RoutedBy' is invalid; expected an attribute that HTCondor does not set"),
        ({"set": {"AuthTokenId": "a"}}, "set: 'AuthTokenId' is invalid; expected an attribute that HTCondor does not"),
        # blahp passes it to a shell.
        ({"set": {"queue": "a;b"}}, "set.queue: 'a;b' is invalid; expected the name of a queue"),
        ({"evaluate": {"Queue": "MY.x"}}, "evaluate.Queue: 'MY.x' is invalid; expected no expression"),
    ],
)
def test_invalid_values_are_refused(transform, message):
    problems = []
    transform_config(problems, {"main": dict({"stage": "pre"}, **transform)})
    assert [problem for problem in problems if problem.startswith(f"glidein_gateway_transforms.main.{message}")]


@pytest.mark.skipif(classad2 is None, reason="needs the Python library htcondor")
@pytest.mark.parametrize(
    "transform, message",
    [
        ({"requirements": "VO ="}, "requirements: 'VO =' is invalid; expected a ClassAd expression without $(...)"),
        ({"evaluate": {"a": "1 +"}}, "evaluate.a: '1 +' is invalid; expected a ClassAd expression"),
    ],
)
def test_an_expression_that_htcondor_cannot_parse_is_refused(transform, message):
    test_invalid_values_are_refused(transform, message)


def test_a_queue_can_be_set():
    assert lines_of(default={"queue": "cpu"}) == ['DEFAULT queue "cpu"']
