# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes of a gateway's job router. tests/e2e has them on real HTCondor and Slurm."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.routes import router_config

SLURM = {"batch_system": "slurm", "walltime": "2h"}


def transform(**route):
    """Return {first word: rest} of the lines of a route; `EVALSET NAME` and the like are one word."""
    lines = router_config({"main": dict(SLURM, **route)})
    assert lines[:2] == ["JOB_ROUTER_ROUTE_NAMES = main", "JOB_ROUTER_ROUTE_main @=route"]
    assert lines[-1] == "@route"
    found = {}
    for line in lines[2:-1]:
        words = line.split()
        number = 2 if words[0] in ("EVALSET", "SET", "DELETE") else 1
        found[" ".join(words[:number])] = " ".join(words[number:])
    return found


def refused(**route):
    with pytest.raises(InputError) as raised:
        router_config({"main": dict(SLURM, **route)})
    return str(raised.value)


def test_routes_keep_their_order():
    lines = router_config({"z": SLURM, "a": SLURM})
    assert lines[0] == "JOB_ROUTER_ROUTE_NAMES = z a"
    assert [line for line in lines if line.startswith("JOB_ROUTER_ROUTE_") and "@=" in line] == [
        "JOB_ROUTER_ROUTE_z @=route",
        "JOB_ROUTER_ROUTE_a @=route",
    ]


def test_a_request_of_the_pilot_replaces_the_default_of_the_route():
    found = transform(cpus=4, memory_mb=3000)
    assert found["EVALSET RequestCpus"] == "xcount ?: int(max({RequestCpus ?: 1, 4}))"
    assert found["EVALSET RequestMemory"] == "maxMemory ?: int(max({RequestMemory ?: 0, 3000}))"
    assert found["EVALSET BatchRuntime"] == "60 * (maxWallTime ?: 120)"


def test_the_cores_are_those_of_one_node():
    found = transform()
    assert found["EVALSET NodeNumber"] == found["EVALSET SMPGranularity"] == "RequestCpus"


@pytest.mark.parametrize(
    "batch_system, name",
    [("slurm", "slurm"), ("pbspro", "pbs"), ("torque", "pbs"), ("sge", "sge"), ("uge", "sge"), ("htcondor", "condor")],
)
def test_the_route_leads_to_its_batch_system(batch_system, name):
    assert transform(batch_system=batch_system)["GridResource"] == f'= "batch {name}"'


def test_only_named_queues_are_accepted_and_the_first_is_the_default():
    found = transform(queues=["cpu", "debug"])
    accepted = '(queue is undefined || queue is "cpu" || queue is "debug") && '
    assert found["REQUIREMENTS"].startswith(accepted)
    chosen = 'member(queue, {"cpu", "debug"}) is true ? queue : "cpu"'
    assert found["EVALSET BatchQueue"] == chosen


def test_without_queues_only_pilots_without_a_queue_are_accepted():
    found = transform()
    assert found["REQUIREMENTS"].startswith("(queue is undefined) && ")
    assert "DELETE BatchQueue" in found


def test_account_and_directives_are_those_of_the_route():
    found = transform(account="abc", directives=["--qos=low", "--constraint=x86"])
    assert found["SET BatchProject"] == '"abc"'
    assert found["SET BatchExtraSubmitArgs"] == '"#SBATCH --qos=low --constraint=x86"'
    assert {"DELETE BatchProject", "DELETE BatchExtraSubmitArgs"} <= set(transform())


@pytest.mark.parametrize(
    "batch_system, option", [("sge", "#$ -P"), ("uge", "#$ -P"), ("htcondor", "accounting_group =")]
)
def test_the_account_is_an_option_where_blahp_has_no_attribute_for_it(batch_system, option):
    found = transform(batch_system=batch_system, account="abc")
    assert found["SET BatchExtraSubmitArgs"] == f'"{option} abc"'
    assert "DELETE BatchProject" in found


def test_account_and_directives_of_grid_engine_are_one_line():
    found = transform(batch_system="sge", account="abc", directives=["-l x=1"])
    assert found["SET BatchExtraSubmitArgs"] == '"#$ -l x=1 -P abc"'


def test_the_limits_of_a_route_are_those_of_the_job_router():
    found = transform(max_jobs=100, max_idle_jobs=5)
    assert (found["MaxJobs"], found["MaxIdleJobs"]) == ("= 100", "= 5")
    assert not {"MaxJobs", "MaxIdleJobs"} & set(transform())


def test_transforms_and_accounts_come_before_the_routes():
    lines = router_config({"main": SLURM}, {"a": {"stage": "pre", "delete": ["x"]}}, {"VO": {"ice": "i"}})
    beginnings = [line.split()[0] for line in lines if not line.startswith((" ", "@"))]
    assert beginnings == [
        "JOB_ROUTER_CLASSAD_USER_MAP_NAMES",
        "TOOL_CLASSAD_USER_MAP_NAMES",
        "CLASSAD_USER_MAPDATA_accounts_vo",
        "JOB_ROUTER_PRE_ROUTE_TRANSFORM_NAMES",
        "JOB_ROUTER_TRANSFORM_a",
        "JOB_ROUTER_ROUTE_NAMES",
        "JOB_ROUTER_ROUTE_main",
    ]


@pytest.mark.parametrize(
    "more, variable",
    [
        ({"transforms": {"a": {"stage": "pre"}}}, "glidein_gateway_transforms: {'a': {'stage': 'pre'}}"),
        ({"accounts": {"VO": {"ice": "i"}}}, "glidein_gateway_accounts: {'VO': {'ice': 'i'}}"),
    ],
)
def test_transforms_and_accounts_need_routes(more, variable):
    with pytest.raises(InputError) as raised:
        router_config({}, **more)
    assert str(raised.value) == f"{variable} is invalid; expected no value without glidein_gateway_routes"


def test_all_errors_are_reported_together():
    with pytest.raises(InputError) as raised:
        router_config({"main": {}}, {"a": {"stage": "x"}}, {"VO": {"ice": 5}})
    for variable in ("routes.main.walltime", "transforms.a.stage", "accounts.VO.ice"):
        assert f"glidein_gateway_{variable}: " in str(raised.value)


def test_a_larger_pilot_than_the_limits_is_not_accepted():
    limits = transform(max_cpus=8, max_memory_mb=4000, max_walltime="150m", max_gpus=2)["REQUIREMENTS"]
    tests = limits.split(" && ")
    assert "(xcount ?: int(max({RequestCpus ?: 1, 1}))) <= 8" in tests
    assert "(maxMemory ?: int(max({RequestMemory ?: 0, 2000}))) <= 4000" in tests
    assert "(maxWallTime ?: 120) <= 150" in tests
    assert "(RequestGPUs ?: 0) <= 2" in tests


def test_a_route_with_gpus_accepts_only_pilots_with_gpus():
    assert "(RequestGPUs ?: 0) >= 1" in transform(max_gpus=2)["REQUIREMENTS"].split(" && ")
    assert "(RequestGPUs ?: 0) >= 0" in transform()["REQUIREMENTS"].split(" && ")


def test_without_limits_any_whole_number_is_accepted_but_no_gpu():
    tests = transform()["REQUIREMENTS"].split(" && ")
    assert [test for test in tests if "<=" in test] == ["(RequestGPUs ?: 0) <= 0"]
    assert len([test for test in tests if test.startswith("isInteger(")]) == 4


@pytest.mark.parametrize("name", ["names", "A", "a b", "a\n", "1a", "", 5])
def test_a_name_that_is_no_route_is_refused(name):
    with pytest.raises(InputError, match="glidein_gateway_routes: .* is invalid; expected a name of lower case"):
        router_config({name: SLURM})


def test_a_list_of_routes_is_refused():
    with pytest.raises(InputError, match="expected a mapping of names to routes"):
        router_config([SLURM])


@pytest.mark.parametrize(
    "route, message",
    [
        ({"batch_system": "lsf"}, "batch_system: 'lsf' is invalid; expected slurm or"),
        ({"batch_system": None}, "batch_system: missing"),
        ({"walltime": None}, "walltime: missing"),
        ({"walltime": "2 fortnights"}, "walltime: '2 fortnights' is invalid; expected a duration"),
        ({"memory_mb": "1; x"}, "memory_mb: '1; x' is invalid; expected a whole number"),
        ({"mem": 5}, "mem: unknown key"),
        ({"queues": ["a;b"]}, "queues: ['a;b'] is invalid"),
        ({"queues": ["-x"]}, "queues: ['-x'] is invalid"),
        ({"queues": ["$(LOG)"]}, "queues: ['$(LOG)'] is invalid"),
        ({"queues": ["a\n@route"]}, "queues: ['a\\n@route'] is invalid"),
        ({"account": 'a"'}, "account: 'a\"' is invalid"),
        ({"directives": ["--comment=$(id)"]}, "directives: ['--comment=$(id)'] is invalid"),
        ({"directives": ["qos=low"]}, "directives: ['qos=low'] is invalid"),
        ({"directives": ["--array=1-9"]}, "directives[0]: '--array=1-9' is invalid"),
        (
            {"memory_mb": 5000, "max_memory_mb": 4000},
            "memory_mb: 5000 is invalid; expected at most max_memory_mb, 4000",
        ),
        ({"max_walltime": "1h"}, "walltime: 7200 is invalid; expected at most max_walltime, 3600 s"),
        ({"batch_system": "htcondor", "queues": ["a"]}, "queues: ['a'] is invalid; expected no value: blahp cannot"),
        ({"max_jobs": 0}, "max_jobs: 0 is invalid; expected a whole number of at least 1"),
        ({"max_idle_jobs": "x"}, "max_idle_jobs: 'x' is invalid; expected a whole number of at least 1"),
        ({"require_account": "yes"}, "require_account: 'yes' is invalid; expected true or false"),
        (
            {"require_account": True},
            "require_account: True is invalid; expected false without glidein_gateway_accounts",
        ),
        ({"batch_system": "htcondor", "directives": ["-x"]}, "directives: ['-x'] is invalid; expected no value"),
        ({"batch_system": "pbspro", "max_gpus": 1}, "max_gpus: 1 is invalid; expected 0: blahp cannot request GPUs"),
    ],
)
def test_invalid_values_are_refused(route, message):
    assert f"glidein_gateway_routes.main.{message}" in refused(**route)
