# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ANYTHING,
    BOOLEAN,
    Spec,
    choice,
    duration,
    integer,
    list_of_texts,
    text,
    whole_number,
)

LIMITS = Spec({"queued": {"type": whole_number(0), "default": 10}, "total": {"type": whole_number(0)}})
SPEC = Spec(
    {
        "walltime": {"type": duration(60), "required": True},
        "limits": {"type": ANYTHING, "default": {}, "options": LIMITS},
        "accept": {"type": ANYTHING, "options": LIMITS},
        "exclusive": {"type": BOOLEAN, "default": False},
        "granted": {"type": choice("asked", "auto")},
        "queue": {"type": text(re.compile(r"^[a-z]+\Z"), "lower-case letters")},
        "modules": {"type": list_of_texts(re.compile(r"^[a-z]+\Z"), "a list of names"), "default": []},
    }
)


def checked(value, variable="site.RM"):
    problems = []
    return SPEC.check(problems, variable, value), problems


def test_defaults_are_filled_in_at_all_levels_and_values_get_their_normal_form():
    assert checked({"walltime": "2h", "limits": {"total": "5"}, "exclusive": "True", "queue": ""}) == (
        {
            "walltime": 7200,
            "limits": {"queued": 10, "total": 5},
            "accept": None,
            "exclusive": True,
            "granted": None,
            "queue": None,
            "modules": [],
        },
        [],
    )


@pytest.mark.parametrize("changes", [{"queue": 2022_123}, {"queue": True}, {"modules": ["gcc", 2024]}])
def test_text_that_yaml_reads_as_a_number_is_to_be_quoted(changes):
    (problem,) = checked({"walltime": 60, **changes})[1]
    assert problem.endswith("; put it in quotes, because YAML reads it as a number, a date or a truth value")


def test_null_is_the_same_as_absent():
    assert checked({"walltime": 60, "limits": None, "granted": None}) == checked({"walltime": 60})
    assert checked({"walltime": None})[1] == checked({})[1]


@pytest.mark.parametrize(
    "changes, problem",
    [
        ({"walltime": "x"}, "site.RM.walltime: 'x' is invalid; expected a duration of at least 60 s: "),
        ({"walltime": "it's 'y' is of type z"}, "site.RM.walltime: \"it's 'y' is of type z\" is invalid; expected "),
        ({"walltime": None}, "site.RM.walltime: missing; expected a duration of at least 60 s: "),
        ({"limits": {"queued": True}}, "site.RM.limits.queued: True is invalid; expected a whole number of at least 0"),
        ({"limits": {"queued": 1.5}}, "site.RM.limits.queued: 1.5 is invalid; expected a whole number of at least 0"),
        (
            {"limits": "queued=1"},
            "site.RM.limits: 'queued=1' is invalid; expected a mapping with the keys queued, total",
        ),
        (
            {"limits": {"queue": 1}},
            "site.RM.limits.queue: unknown key (did you mean 'queued'?); the keys are queued, total",
        ),
        ({7: 1}, "site.RM.7: unknown key; the keys are walltime, "),
        ({"exclusive": "yes"}, "site.RM.exclusive: 'yes' is invalid; expected true or false"),
        ({"granted": ["auto"]}, "site.RM.granted: ['auto'] is invalid; expected asked or auto"),
        ({"modules": "gcc"}, "site.RM.modules: 'gcc' is invalid; expected a list of names"),
        ({"queue": "x" * 999}, None),
        ({"queue": "X" * 999}, "site.RM.queue: '" + "X" * 116 + "... is invalid; expected lower-case letters"),
    ],
)
def test_an_error_names_the_path_the_value_and_the_expected_value(changes, problem):
    problems = checked(dict({"walltime": 60}, **changes) if 7 not in changes else {"walltime": 60, 7: 1})[1]
    if problem is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert problems[0].startswith(problem)


def test_options_without_a_mapping_around_them_have_no_path():
    assert checked({"walltime": 5}, "")[1][0].startswith("walltime: 5 is invalid; expected a duration")
    assert checked({"walltme": 5, "walltime": 60}, "")[1][0].startswith(
        "walltme: unknown key (did you mean 'walltime'?)"
    )


def test_an_invalid_value_is_none_in_the_result_and_all_errors_are_reported():
    found, problems = checked({"walltime": 1, "limits": {"queued": -1}, "granted": "x"})
    assert (found["walltime"], found["limits"]["queued"], found["granted"]) == (None, None, None)
    assert [problem.partition(":")[0] for problem in problems] == [
        "site.RM.walltime",
        "site.RM.limits.queued",
        "site.RM.granted",
    ]


def test_a_value_other_than_a_mapping_is_one_error():
    keys = "walltime, limits, accept, exclusive, granted, queue, modules"
    assert checked([1])[1] == [f"site.RM: [1] is invalid; expected a mapping with the keys {keys}"]


@pytest.mark.parametrize(
    "value, number",
    [(3, 3), ("3", 3), (" -3 ", -3), (True, None), ("3.0", None), (3.0, None), (None, None), ([], None)],
)
def test_a_whole_number_may_be_text_but_no_truth_value(value, number):
    assert integer(value) == number
