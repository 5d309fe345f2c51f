# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import (
    idle_after_job_s,
    idle_timeout_s,
    normalise_site,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import start_expression
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape


def normalised(**changes):
    return normalise_site("glidein", "lab", {"main": raw_entry(**changes)})["entries"]["main"]


def problems(entries, limits=None, deployment="glidein", name="lab"):
    with pytest.raises(InputError) as raised:
        normalise_site(deployment, name, entries, limits)
    return raised.value.problems


@pytest.mark.parametrize(
    ("raw", "seconds"), [({}, {"part": 1200, "whole": 600}), ({"idle_timeout": "5m"}, {"part": 300, "whole": 300})]
)
def test_a_whole_node_waits_less_for_jobs(raw, seconds):
    entry = normalised(shapes={"part": shape(), "whole": shape(whole_node=True)}, **raw)
    assert {name: idle_timeout_s(entry, of) for name, of in entry["shapes"].items()} == seconds


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ({}, 300),
        ({"idle_timeout": "2m"}, 120),
        ({"idle_timeout": "1h"}, 3600),
        ({"idle_timeout": "1h", "idle_after_job": "10m"}, 600),
    ],
)
def test_the_idle_timeout_after_a_job_is_shorter_unless_it_is_configured(raw, seconds):
    entry = normalised(shapes={"part": shape(), "whole": shape(whole_node=True)}, **raw)
    assert {idle_after_job_s(entry, of) for of in entry["shapes"].values()} == {seconds}


def test_missing_options_get_the_documented_default():
    assert normalised() == {
        "name": "main",
        "queue": "cpu",
        "account": None,
        "constraint": None,
        "budget": None,
        "walltime_s": 7200,
        "shapes": {
            "core": {
                "cpus": 1,
                "memory_mb": 2000,
                "asked_memory_mb": 2068,
                "disk_mb": 10000,
                "min_disk_mb": 10000,
                "gpus": 0,
                "gpu_type": None,
                "whole_node": False,
            }
        },
        "limits": {"queued": 10, "total": 100, "per_cycle": 10},
        "accept": {},
        "accept_requirements": None,
        "rank": None,
        "array": None,
        "resources": {},
        "directives": [],
        "attributes": {},
        "environment": {},
        "modules": None,
        "scratch": None,
        "granted": None,
        "site_resource": None,
        "gpu_discovery": None,
        "cvmfs": [],
        "job_setup": None,
        "job_environment": {},
        "condor_config": {},
        "image": None,
        "retirement_s": 600,
        "idle_timeout_s": None,
        "idle_after_job_s": None,
        "fast_failures": 5,
        "checks": {},
        "require_checks": [],
        "priority": 0,
        "eagerness": 0,
    }


def test_checks_may_be_a_list_of_names():
    assert normalised(checks=["cvmfs", "gpu"], require_checks=["gpu"])["checks"] == {"cvmfs": "", "gpu": ""}


def test_a_short_walltime_shortens_the_default_retirement():
    assert normalised(walltime="20m")["retirement_s"] == 300


def test_a_site_has_no_limits_unless_given():
    assert normalise_site("glidein", "lab", {"main": raw_entry()}, {"total": 7})["limits"] == {
        "queued": None,
        "total": 7,
        "per_cycle": None,
    }


def test_an_array_is_as_large_as_entry_and_site_both_allow():
    def array(entry, site_limits):
        made = normalise_site("glidein", "lab", {"main": raw_entry(limits=entry)}, site_limits)
        return made["entries"]["main"]["array"]

    assert array({}, None) is None
    assert array({"array": 50}, {}) == 50
    assert array({"array": 50}, {"array": 20}) == 20
    assert array({}, {"array": 1}) == 1


def test_more_cores_are_requested_where_memory_is_granted_per_core():
    made = normalised(memory_per_core_mb=4000, shapes={"core": shape(cpus=1, memory_mb=6000)})["shapes"]["core"]
    assert (made["cpus"], made["asked_memory_mb"]) == (2, 8000)
    made = normalised(memory_per_core_mb=4000, shapes={"core": shape(cpus=4, memory_mb=6000)})["shapes"]["core"]
    assert (made["cpus"], made["asked_memory_mb"]) == (4, 16000)


def memory(shape_name="core", **changes):
    """Return (memory offered to jobs, memory requested from the batch system)."""
    made = normalised(**changes)["shapes"][shape_name]
    return made["memory_mb"], made["asked_memory_mb"]


def test_the_requested_memory_includes_the_glideins_own():
    assert memory(shapes={"core": shape(memory_mb=2000)}) == (2000, 2000 + 64 + 4)
    assert memory(shapes={"core": shape(cpus=16, memory_mb=64000)}) == (64000, 64000 + 64 + 16 * 4)
    assert memory(memory_overhead_mb=500) == (2000, 2500)
    assert memory(memory_overhead_mb=0) == (2000, 2000)


def test_jobs_are_offered_less_where_no_more_can_be_requested():
    whole = {"core": shape(cpus=28, memory_mb=120000, whole_node=True)}
    assert memory(shapes=whole) == (120000 - 64 - 28 * 4, 120000)
    assert memory(shapes=whole, memory_overhead_mb=2000) == (118000, 120000)
    assert memory(memory_per_core_mb=2000) == (2000 - 68, 2000)
    node = {"cpus": 4, "memory_mb": 16000, "disk_mb": 1000}
    assert memory("half", shapes=None, node=node) == (8000 - 64 - 2 * 4, 8000)


def test_a_shape_without_memory_for_jobs_is_refused():
    text = "\n".join(problems({"main": raw_entry(shapes={"core": shape(memory_mb=68, whole_node=True)})}))
    assert "glidein_entries.main.shapes.core.memory_mb: 68 is invalid" in text
    assert "more than the 68 MB that the glidein itself needs (memory_overhead_mb)" in text


@pytest.mark.parametrize(
    "changes, of_shape, expected",
    [
        ({}, {}, 10000),
        ({"granted": "auto"}, {}, 1000),
        ({}, {"whole_node": True}, 1000),
        ({}, {"whole_node": True, "disk_mb": 500}, 500),
        ({}, {"whole_node": True, "min_disk_mb": 7000}, 7000),
        ({}, {"min_disk_mb": 0}, 0),
    ],
)
def test_a_glidein_that_uses_the_nodes_disk_continues_with_less(changes, of_shape, expected):
    assert normalised(shapes={"core": shape(**of_shape)}, **changes)["shapes"]["core"]["min_disk_mb"] == expected


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, ""),
        ({"accept": {"gpus": {"min": 1}}}, "(TARGET.RequestGPUs ?: 0) > 0"),
        ({"accept": {"gpus": {"max": 0}}}, "(TARGET.RequestGPUs ?: 0) <= 0"),
        (
            {"accept": {"memory_mb": {"min": 2001, "max": 64000}}},
            "(TARGET.RequestMemory ?: 0) > 2000 && (TARGET.RequestMemory ?: 0) <= 64000",
        ),
        ({"accept": {"cpus": {"max": 4}, "gpus": {"min": 0}}}, "(TARGET.RequestCpus ?: 1) <= 4"),
        # KiB are rounded up to a whole MiB.
        (
            {"accept": {"disk_mb": {"min": 2, "max": 100}}},
            "(TARGET.RequestDisk ?: 0) > 1024 && (TARGET.RequestDisk ?: 0) <= 102400",
        ),
        ({"accept_requirements": "A || B"}, "A || B"),
        (
            {"accept": {"gpus": {"min": 1}}, "accept_requirements": "A || B"},
            "(TARGET.RequestGPUs ?: 0) > 0 && (A || B)",
        ),
    ],
)
def test_glideins_start_only_the_jobs_that_they_are_ordered_for(changes, expected):
    assert start_expression(normalised(**changes)) == expected


def sizes(shapes, **changes):
    """Return {name: (cpus, memory_mb)} of the normalised shapes."""
    made = normalised(shapes=shapes, **changes)["shapes"]
    return {name: (of["cpus"], of["memory_mb"]) for name, of in made.items()}


def test_ranges_stand_for_doubling_sizes_that_are_named_by_them():
    ranges = {"cpus": {"min": 1, "max": 6}, "memory_mb": {"min": 2000, "max": 4000}}
    assert sizes({"job": shape(**ranges)}) == {
        "job-1c-2000m": (1, 2000),
        "job-1c-4000m": (1, 4000),
        "job-2c-2000m": (2, 2000),
        "job-2c-4000m": (2, 4000),
        "job-4c-2000m": (4, 2000),
        "job-4c-4000m": (4, 4000),
        "job-6c-2000m": (6, 2000),
        "job-6c-4000m": (6, 4000),
    }


def test_the_names_of_sizes_do_not_depend_on_the_order_of_the_ranges():
    one = {"disk_mb": {"min": 10, "max": 20}, "cpus": {"min": 2, "max": 2}, "memory_mb": 1000}
    other = dict(reversed(list(one.items())))
    assert list(sizes({"job": one})) == list(sizes({"job": other})) == ["job-2c-10d", "job-2c-20d"]


def test_a_range_of_gpus_may_start_at_zero():
    made = normalised(shapes={"job": shape(gpus={"min": 0, "max": 3}, gpu_type="a100")})["shapes"]
    assert [(name, of["gpus"], of["gpu_type"]) for name, of in made.items()] == [
        ("job-0g", 0, None),
        ("job-1g", 1, "a100"),
        ("job-2g", 2, "a100"),
        ("job-3g", 3, "a100"),
    ]


def test_names_of_sizes_have_the_granted_cores_where_memory_is_per_core():
    shapes = {"job": shape(memory_mb={"min": 2000, "max": 16000})}
    assert sizes(shapes, memory_per_core_mb=4000, memory_overhead_mb=0) == {
        "job-4000m": (1, 4000),
        "job-8000m": (2, 8000),
        "job-16000m": (4, 16000),
    }


def test_shapes_are_in_the_order_of_the_inventory():
    ranges = raw_entry(shapes={"job": shape(cpus={"min": 1, "max": 2}), "big": shape(cpus=64)})
    node = raw_entry(node=shape(cpus=2))
    del node["shapes"]
    entries = normalise_site("glidein", "lab", {"main": ranges, "another": node})["entries"]
    assert [(name, list(entry["shapes"])) for name, entry in entries.items()] == [
        ("main", ["job-1c", "job-2c", "big"]),
        ("another", ["whole", "half"]),
    ]


WORD = "letters, digits and _ . , : @ + / = - without spaces"
TEXT = "text without line breaks"
STEPS = "certain, roomy, redundant, everywhere, or its number from 0 to 3"
ARGUMENTS = "words of letters, digits and _ . / : @ % + = , -"


@pytest.mark.parametrize(
    "option, value, expected",
    [
        ("queue", "a b", WORD),
        ("account", "x\ny", WORD),
        ("constraint", "a b", "letters, digits and _ . , : @ + / = & | ! * ( ) [ ] < > - without spaces"),
        ("walltime", "10s", "a duration of at least 60 s: seconds as a number, or text such as 48h, 90m"),
        ("resources.memory", "x y", WORD),
        ("directives", "-C x", "a list of options of the batch system, such as ['-C EGRESS']"),
        ("limits.queued", -1, "a whole number of at least 0"),
        ("limits.array", 0, "a whole number of at least 1"),
        ("limits.cores", -1, "a whole number of at least 0"),
        ("priority", "high", "a whole number"),
        *(("eagerness", step, STEPS) for step in (4, "eager", True)),
        ("memory_per_core_mb", 0, "a whole number of at least 1"),
        ("memory_overhead_mb", -1, "a whole number of at least 0"),
        ("node", {"cpus": 1, "memory_mb": 1, "disk_mb": 1}, "no value with shapes"),
        ("accept.gpus", 1, "a mapping with the keys min, max"),
        ("accept.gpus", {"min": 2, "max": 1}, "a min that is not above the max"),
        *(
            ("accept_requirements", text, "a ClassAd expression without $(...), such as TARGET.Owner == ")
            for text in ("$(LOG)", "  ", 5)
        ),
        ("rank", "$(X)", "a ClassAd expression without $(...), such as TARGET.RequestMemory"),
        ("attributes.A", "x\ny", f"{TEXT}, control characters or $(...)"),
        ("attributes.A", "$(HOME)", f"{TEXT}, control characters or $(...)"),
        ("attributes.A", [1], "text, a number, true or false"),
        ("attributes.A", float("nan"), "text, a number, true or false"),
        ("site_resource", "a b", "1 to 64 letters, digits, dots, dashes or underscores, "),
        ("environment", ["A=1"], "a mapping of environment variables"),
        ("environment.A", "x\ny", f"{TEXT} or control characters"),
        ("environment.A", True, "text or a number"),
        ("job_environment.A", "x\ny", f"{TEXT} or control characters"),
        ("modules", "gcc", "a list of names of environment modules: letters, "),
        ("modules", ["gcc; id"], "a list of names of environment modules: letters, "),
        ("scratch", "$(id)", "a path of letters, digits, blanks, . _ / + @ % , = - and the variables $NAME, "),
        ("granted", "all", "asked or auto"),
        ("gpu_discovery", "-extra;id", "arguments of condor_gpu_discovery such as -extra: letters, "),
        ("cvmfs", "a.org", "a list of names of repositories, such as "),
        ("cvmfs", ["../etc"], "a list of names of repositories, such as "),
        ("image", "-B /", "a path or address: letters, digits and / . _ : @ + -"),
        ("job_setup", "setup.sh", "an absolute path of letters, digits, blanks and "),
        ("retirement", "2h", "less than the walltime (7200 s)"),
        ("idle_timeout", 0, "a duration of at least 1 s: "),
        ("idle_after_job", "-5m", "a duration of at least 1 s: "),
        ("fast_failures", -1, "a whole number of at least 0"),
        ("checks", "cvmfs", "a mapping from names to arguments, or a list of names"),
        *(("checks.x", value, ARGUMENTS) for value in (0, "a'b", "a\nb")),
    ],
)
def test_an_error_names_variable_value_and_the_allowed_values(option, value, expected):
    name, _dot, key = option.partition(".")
    (problem,) = problems({"main": raw_entry(**{name: {key: value} if key else value})})
    assert problem.startswith(f"glidein_entries.main.{option}: {value!r} is invalid; expected {expected}")


RANGE = {"min": 1, "max": 2}
# (shapes, what follows "glidein_entries.main.shapes")
INVALID_SHAPES = [
    ({}, ": missing; expected at least one shape"),
    ({"core": {"cpus": 1, "disk_mb": 1}}, ".core.memory_mb: missing"),
    ({"core": shape(cpus=0)}, ".core.cpus: 0 is invalid; expected a whole number of at least 1"),
    ({"core": shape(memory=1)}, ".core.memory: unknown key (did you mean 'memory_mb'?)"),
    ({"core": shape(min_disk_mb=10001)}, ".core.min_disk_mb: 10001 is invalid; expected at most disk_mb (10000)"),
    (
        {"core": shape(gpu_type="a100")},
        ".core.gpu_type: 'a100' is invalid; expected gpu_type only in a shape with gpus",
    ),
    ({"core": shape(whole_node="yes")}, ".core.whole_node: 'yes' is invalid; expected true or false"),
    ({"job": shape(cpus={"min": 4, "max": 2})}, ".job.cpus: {'min': 4, 'max': 2} is invalid; expected a min that is "),
    ({"job": shape(cpus={"min": 0, "max": 2})}, ".job.cpus.min: 0 is invalid; expected a whole number of at least 1"),
    ({"job": shape(cpus={"min": 1})}, ".job.cpus.max: missing"),
    ({"job": shape(cpus=dict(RANGE, step=1))}, ".job.cpus.step: unknown key"),
    ({"job": shape(cpus=RANGE, whole_node=True)}, ".job.whole_node: True is invalid; expected false in a shape with "),
    (
        {"job": shape(cpus={"min": 1, "max": 64}, memory_mb={"min": 1000, "max": 600000})},
        ".job: {'cpus': {'min': 1, 'max': 64}, 'memory_mb': {'min': 1000, 'max': 600000}, 'disk_mb': 10000} is "
        "invalid; expected ranges of at most 64 sizes (these have 77)",
    ),
    (
        {"job-2c": shape(), "job": shape(cpus=RANGE)},
        ".job: {'cpus': {'min': 1, 'max': 2}, 'memory_mb': 2000, 'disk_mb': 10000} is invalid; expected only one "
        "shape or size with the name job-2c",
    ),
]
# (changes of the entry, invalid name, its option, what is expected)
INVALID_NAMES = [
    ({"shapes": {"a b": shape()}}, "a b", "shapes", "1 to 64 letters, digits, "),
    (
        {"shapes": {"j" * 62: shape(cpus={"min": 16, "max": 16})}},
        "j" * 62,
        "shapes",
        "a shorter name: one of its sizes",
    ),
    ({"environment": {"GLIDEIN_SITE": "x"}}, "GLIDEIN_SITE", "environment", "another name than GLIDEIN_..., "),
    ({"job_environment": {"_CONDOR_X": "1"}}, "_CONDOR_X", "job_environment", "another name than _CONDOR_..., which "),
    ({"attributes": {"a-b": 1}}, "a-b", "attributes", "a ClassAd attribute name"),
    ({"attributes": {"GLIDEIN_Site": "x"}}, "GLIDEIN_Site", "attributes", "another name than is_glidein and GLIDEIN_"),
    ({"checks": {"../x": None}}, "../x", "checks", "the file name of a check"),
]


@pytest.mark.parametrize(
    "changes, beginning, rest",
    [
        *(({"shapes": shapes}, "", f"shapes{message}") for shapes, message in INVALID_SHAPES),
        *(
            (changes, "name of ", f"{option}.{name}: {name!r} is invalid; expected {expected}")
            for changes, name, option, expected in INVALID_NAMES
        ),
        ({"walltime": None}, "", "walltime: missing; expected a duration of at least 60 s"),
        ({"queu": "x"}, "", "queu: unknown key (did you mean 'queue'?); docs/variables.md lists the keys"),
        ({"xyz": 1}, "", "xyz: unknown key; docs/variables.md lists the keys"),
        ({"limits": {"idle": 1}}, "", "limits.idle: unknown key; the keys are queued, total, per_cycle"),
        ({"accept": {"cpu": {}}}, "", "accept.cpu: unknown key (did you mean 'cpus'?); the keys are cpus, memory_mb, "),
        ({"resources": {"ram": "x"}}, "", "resources.ram: unknown key; the keys are memory, memory_unit"),
        ({"directives": ["-C a", " "]}, "", "directives[1]: ' ' is invalid; expected one option of the batch system"),
        ({"directives": ["-C a", "-C b\nid"]}, "", "directives[1]: '-C b\\nid' is invalid; expected one option of "),
        ({"condor_config": {"ALLOW_WRITE": "*"}}, "", "condor_config.ALLOW_WRITE: this setting cannot be changed: it "),
        ({"checks": ["x"], "require_checks": ["y"]}, "", "require_checks: ['y'] is invalid; expected a list of names "),
    ],
)
def test_an_error_of_a_name_a_key_or_a_shape_has_its_path(changes, beginning, rest):
    (problem,) = problems({"main": raw_entry(**changes)})
    assert problem.startswith(f"{beginning}glidein_entries.main.{rest}")


def test_all_mistakes_come_in_one_error():
    found = problems({"a": raw_entry(walltime="x"), "b": raw_entry(priority="x")}, {"total": -1}, name="a/b")
    assert [problem.split(":")[0] for problem in found] == [
        "glidein_site",
        "glidein_limits.total",
        "glidein_entries.a.walltime",
        "glidein_entries.b.priority",
    ]


def test_a_site_has_at_most_as_many_shapes_as_a_report():
    (problem,) = problems({"main": raw_entry(shapes={str(number): shape() for number in range(1001)})})
    assert problem.startswith("glidein_entries: 1001 shapes, counting each size of a range; expected at most 1000")


def test_an_entry_other_than_a_mapping_is_one_error():
    assert problems({"main": "x"}) == ["glidein_entries.main: 'x' is invalid; expected a mapping"]


def test_an_option_that_is_null_is_as_if_it_were_absent():
    nulls = dict.fromkeys(("limits", "accept", "directives", "environment", "priority", "checks", "node"))
    assert normalised(**nulls) == normalised()


@pytest.mark.parametrize("entries", [None, {}, [], "x", {"main": "x"}, {"main": None}, {1: raw_entry()}])
def test_entries_of_another_kind_are_an_error_not_a_crash(entries):
    assert problems(entries)


@pytest.mark.parametrize(
    "value, literal",
    [("RHEL8", '"RHEL8"'), ('a"b\\', '"a\\"b\\\\"'), (True, "true"), (False, "false"), (3, "3"), (1.5, "1.5")],
)
def test_attribute_values_become_classad_literals(value, literal):
    assert classad_literal(value) == literal


# -- entry settings that only the plan uses: shapes derived from a node, and accepted jobs -----------------------------


def shapes_of(node):
    entry = raw_entry(node=node)
    del entry["shapes"]
    return normalise_site("glidein", "lab", {"main": entry})["entries"]["main"]["shapes"]


def test_without_shapes_they_are_the_whole_the_half_and_so_on_of_the_node():
    shapes = shapes_of({"cpus": 6, "memory_mb": 1000, "disk_mb": 100})
    sizes = {name: (one["cpus"], one["asked_memory_mb"], one["disk_mb"]) for name, one in shapes.items()}
    assert sizes == {"whole": (6, 1000, 100), "half": (3, 500, 50), "quarter": (1, 250, 25)}


def test_parts_of_a_node_with_gpus_have_at_least_one():
    shapes = shapes_of({"cpus": 64, "memory_mb": 256000, "disk_mb": 1000000, "gpus": 4})
    assert {name: one["gpus"] for name, one in shapes.items()} == {"whole": 4, "half": 2, "quarter": 1}


def test_a_whole_node_entry_has_no_smaller_shapes():
    assert list(shapes_of({"cpus": 64, "memory_mb": 256000, "disk_mb": 1000000, "whole_node": True})) == ["whole"]


@pytest.mark.parametrize(
    "of_entry, of_site, step",
    [(None, None, 0), (None, "redundant", 2), ("certain", 3, 0), ("roomy", None, 1), ("2", "everywhere", 2), (3, 0, 3)],
)
def test_the_eagerness_of_an_entry_overrides_that_of_its_site(of_entry, of_site, step):
    one = normalise_site("glidein", "lab", {"main": raw_entry(eagerness=of_entry)}, eagerness=of_site)
    assert one["entries"]["main"]["eagerness"] == step


def test_an_invalid_eagerness_of_a_site_is_an_error_with_the_steps():
    with pytest.raises(
        InputError, match="glidein_eagerness: 'fast' .* certain, roomy, redundant, everywhere, or its number"
    ):
        normalise_site("glidein", "lab", {"main": raw_entry()}, eagerness="fast")
