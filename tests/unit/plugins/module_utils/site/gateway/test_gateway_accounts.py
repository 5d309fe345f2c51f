# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts of a gateway's pilots. tests/e2e has them on real HTCondor and Slurm."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.accounts import (
    account_config,
    mapped_account,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.routes import router_config

ACCOUNTS = {"VO": {"icecube": ["ice", "physics"], "/us[0-9]+/": "atlas"}, "AuthTokenSubject": {"u@gateway-a": "u"}}
MAPPED = (
    'userMap("accounts_vo", VO, BatchProject) ?: userMap("accounts_authtokensubject", AuthTokenSubject, BatchProject)'
)


def route_lines(accounts, **route):
    """Return the lines of a route with these tables."""
    lines = router_config({"main": dict({"batch_system": "slurm", "walltime": "1h"}, **route)}, {}, accounts)
    return [line.strip() for line in lines[lines.index("JOB_ROUTER_ROUTE_main @=route") :]]


def test_each_table_is_a_user_map():
    problems = []
    assert account_config(problems, ACCOUNTS) == [
        "JOB_ROUTER_CLASSAD_USER_MAP_NAMES = accounts_vo accounts_authtokensubject",
        "TOOL_CLASSAD_USER_MAP_NAMES = $(JOB_ROUTER_CLASSAD_USER_MAP_NAMES)",
        "CLASSAD_USER_MAPDATA_accounts_vo @=table",
        '  * "icecube" ice,physics',
        r"  * /\A(?:us[0-9]+)\z/ atlas",
        "@table",
        "CLASSAD_USER_MAPDATA_accounts_authtokensubject @=table",
        '  * "u@gateway-a" u',
        "@table",
    ]
    assert problems == []


def test_a_value_may_be_a_subject_or_an_fqan():
    rows = account_config([], {"x509UserProxySubject": {"CN=A B, O=C": "a", "/atlas/Role=pilot": "b"}})[3:5]
    assert rows == ['  * "CN=A B, O=C" a', '  * "/atlas/Role=pilot" b']


def test_the_first_table_with_the_value_counts():
    assert mapped_account(ACCOUNTS) == MAPPED


def test_the_job_router_can_evaluate_requirements_with_the_job_as_target():
    # There, MY is an ad of the job router: MY.VO would be undefined, and no pilot would be routed.
    requirements = route_lines(ACCOUNTS, require_account=True, max_gpus=1, queues=["a"])[1]
    assert requirements.startswith("REQUIREMENTS ") and "MY." not in requirements


def test_the_account_of_the_route_is_for_pilots_without_one():
    lines = route_lines(ACCOUNTS, account="other")
    assert f'EVALSET BatchProject {MAPPED} ?: "other"' in lines
    assert f"EVALSET BatchProject {MAPPED}" in route_lines(ACCOUNTS)


def test_a_value_that_cannot_be_evaluated_is_not_accepted():
    assert route_lines(ACCOUNTS)[1].endswith(f" && !isError({MAPPED})")


def test_a_route_may_accept_only_pilots_with_an_account():
    assert route_lines(ACCOUNTS, require_account=True)[1].endswith(f" && isString({MAPPED})")


def test_without_tables_no_pilot_has_an_account_of_its_own():
    assert "DELETE BatchProject" in route_lines({})
    assert not [line for line in route_lines({}) if "userMap" in line]


@pytest.mark.parametrize(
    "route, expected",
    [
        ({"batch_system": "htcondor"}, f'strcat("accounting_group = ", {MAPPED}) ?: undefined'),
        ({"batch_system": "htcondor", "account": "x"}, f'strcat("accounting_group = ", {MAPPED} ?: "x") ?: undefined'),
        ({"batch_system": "sge"}, f'strcat("#$ -P ", {MAPPED}) ?: undefined'),
        ({"batch_system": "sge", "directives": ["-l x=1"]}, f'strcat("#$ -l x=1 -P ", {MAPPED}) ?: "#$ -l x=1"'),
    ],
)
def test_the_account_is_an_option_where_blahp_has_no_attribute_for_it(route, expected):
    lines = route_lines(ACCOUNTS, **route)
    assert f"EVALSET BatchExtraSubmitArgs {expected}" in lines
    # The pilot's choice is read before it is deleted.
    assert lines.index(f"EVALSET BatchExtraSubmitArgs {expected}") < lines.index("DELETE BatchProject")


def test_a_required_account_and_a_default_contradict_each_other():
    with pytest.raises(InputError) as raised:
        route_lines(ACCOUNTS, require_account=True, account="a")
    assert "glidein_gateway_routes.main.account: 'a' is invalid; expected no value with require_acc" in str(
        raised.value
    )


@pytest.mark.parametrize(
    "accounts, message",
    [
        (["VO"], ": ['VO'] is invalid; expected a mapping of job attributes to tables"),
        ({"a b": {"x": "y"}}, ": 'a b' is invalid; expected the name of a job attribute"),
        ({"VO": {"x": "y"}, "vo": {"x": "y"}}, ": 'vo' is invalid; expected the name of a job attribute: letters, "
         "digits and underscores, each only once"),
        ({"VO": ["x"]}, ".VO: ['x'] is invalid; expected a mapping of values to accounts"),
        ({"VO": {}}, ".VO: {} is invalid; expected a mapping of values to accounts"),
        ({"VO": {'a"b': "y"}}, ".VO: 'a\"b' is invalid; expected letters, digits"),
        ({"VO": {"a\n* x": "y"}}, ".VO: 'a\\n* x' is invalid; expected letters, digits"),
        ({"VO": {"$(LOG)": "y"}}, ".VO: '$(LOG)' is invalid; expected letters, digits"),
        ({"VO": {True: "y"}}, ".VO: True is invalid; expected letters, digits"),
        ({"VO": {"/(/": "y"}}, ".VO: '/(/' is invalid; expected letters, digits"),
        ({"VO": {"/a$/": "y"}}, ".VO: '/a$/' is invalid; expected letters, digits"),
        ({"VO": {"x": []}}, ".VO.x: [] is invalid; expected an account or a list of accounts"),
        ({"VO": {"x": "a b"}}, ".VO.x: 'a b' is invalid; expected an account or a list of accounts"),
        ({"VO": {"x": "a,b"}}, ".VO.x: 'a,b' is invalid; expected an account or a list of accounts"),
        ({"VO": {"x": ["a", None]}}, ".VO.x: ['a', None] is invalid; expected an account or a list of accounts"),
        ({"VO": {"x": 5}}, ".VO.x: 5 is invalid; expected an account or a list of accounts"),
    ],
)  # fmt: skip
def test_invalid_values_are_refused(accounts, message):
    problems = []
    account_config(problems, accounts)
    assert [problem for problem in problems if problem.startswith(f"glidein_gateway_accounts{message}")], problems
