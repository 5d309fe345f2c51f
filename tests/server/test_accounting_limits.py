# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that jobs beyond the negotiator's limits are not demand. The ads are those of HTCondor 23.9."""

import pytest
from glidein_demand.pool import accounting_limits, demand, jobs
from glidein_demand.pool.pool_state import QueryResults, ScheddState
from glidein_demand.web import results
from hypothesis import given
from hypothesis import strategies as st

from conftest import demand_answer, group, job_row

CONFIGURED = {
    "XLIC_LIMIT": "0", "YLIC_LIMIT": "3", "CONCURRENCY_LIMIT_DEFAULT": "2308032",
    "CONCURRENCY_LIMIT_DEFAULT_LARGE": "4",
    "GROUP_QUOTA_group_phys": "4", "GROUP_QUOTA_group_phys.sub": "2", "GROUP_QUOTA_DYNAMIC_group_dyn": "0.3",
    "GROUP_ACCEPT_SURPLUS": "false",
}  # fmt: skip


def accounting_group(name, used=0.0):
    return {"Name": name, "IsAccountingGroup": True, "HierWeightedResourcesUsed": used, "EffectiveQuota": 0.0}


def user(name, ceiling=-1, used=0.0):
    return {"Name": name, "IsAccountingGroup": False, "Ceiling": ceiling, "WeightedResourcesUsed": used}


def read(*priorities, in_use=(), **changed):
    return accounting_limits.read(priorities, {**CONFIGURED, **changed}, in_use)


def licensed(text, count=5, **changes):
    return group(count, attributes={"ConcurrencyLimits": text}, **changes)


def of(name, **changes):
    """Return a group of five jobs with this AccountingGroup."""
    return {**group(5, **changes), "accounting_group": name}


def test_a_concurrency_limit_of_zero_permits_no_job_and_is_the_reason():
    (row,) = accounting_limits.apply([licensed("xlic")], read())
    assert (row["count"], row["over_limit"], row["users"]) == (0, 5, {})
    assert row["limited_by"] == {"concurrency limit xlic: 0, 0 in use": 5}


PHYS = [accounting_group("group_phys", used=1.0), accounting_group("group_phys.sub", used=1.0)]


@pytest.mark.parametrize(
    ("groups", "known", "counts"),
    [
        # The usage of running jobs is subtracted; a job may use more than one; the closest of several limits counts.
        ([licensed("ylic")], read(in_use=["ylic:2", "other"]), [(1, 4)]),
        ([licensed("ylic:2")], read(), [(1, 4)]),
        ([licensed("ylic,xlic")], read(), [(0, 5)]),
        # A limit permits the oldest jobs first.
        ([licensed("ylic", first_job="8.0", cpus=2), licensed("ylic", 2, first_job="7.0")], read(), [(2, 0), (1, 4)]),
        # A limit that is not configured has the default.
        ([licensed("large.one"), licensed("small.one")], read(), [(4, 1), (5, 0)]),
        ([licensed("nolic")], read(CONCURRENCY_LIMIT_DEFAULT="1"), [(1, 4)]),
        # A ceiling counts cores. Zero is a ceiling; a negative number means that there is no ceiling.
        ([group(5, cpus=3, first_job="1.0"), group(9, users={"bob@pool": 9}, first_job="2.0")],
         read(user("alice@pool", ceiling=10, used=2.0), user("bob@pool")), [(2, 3), (9, 0)]),
        ([group(5)], read(user("alice@pool", ceiling=0)), [(0, 5)]),
        ([group(5)], read(user("alice@pool", ceiling=-1)), [(5, 0)]),
        ([of("group_dyn.bob")], read(user("group_dyn.bob@pool", ceiling=1), user("alice@pool", ceiling=0)), [(1, 4)]),
        # A static quota holds for the whole tree of the group, unless the group may use surplus.
        ([of("group_phys.sub.bob"), of("group_phys.carol", first_job="2.0", cpus=2)], read(*PHYS), [(1, 4), (1, 4)]),
        *(([of("group_phys.bob")], read(accounting_group("group_phys"), **{name: "true"}), [(5, 0)])
          for name in ("GROUP_ACCEPT_SURPLUS", "GROUP_AUTOREGROUP", "GROUP_ACCEPT_SURPLUS_group_phys")),
        # A dynamic quota is a share of the pool's cores, which must not exclude all glideins from an empty pool.
        ([of("group_dyn.bob")], read(accounting_group("group_dyn")), [(5, 0)]),
        # The negotiator did not answer.
        ([licensed("xlic")], None, [(5, 0)]),
    ],
)  # fmt: skip
def test_jobs_beyond_a_limit_are_not_demand(groups, known, counts):
    found = accounting_limits.apply(groups, known)
    assert [(row["count"], row.get("over_limit", 0)) for row in found] == counts


def test_only_settings_of_limits_are_fetched():
    names = ["XLIC_LIMIT", "GROUP_QUOTA_a", "concurrency_limit_default_x", "GROUP_ACCEPT_SURPLUS_a", "LOG", "HOSTS"]
    assert [name for name in names if accounting_limits.is_setting(name)] == names[:4]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8), st.integers(1, 4)), max_size=6),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_no_job_is_lost_and_no_limit_is_exceeded(rows, most, used):
    groups = [licensed(f"lic:{each}", count, cpus=cpus) for count, cpus, each in rows]
    found = accounting_limits.apply(
        groups, accounting_limits.read([], {"LIC_LIMIT": str(most)}, [f"lic:{used}"] if used else [])
    )
    assert sum(row["count"] + row.get("over_limit", 0) for row in found) == sum(count for count, _cpus, _each in rows)
    taken = sum(row["count"] * int(row["attributes"]["ConcurrencyLimits"].partition(":")[2]) for row in found)
    assert taken <= max(0, most - used)


def test_jobs_with_concurrency_limits_are_a_group_of_their_own():
    rows = [job_row(), job_row(ConcurrencyLimits="xlic"), job_row(AccountingGroup="phys.alice")]
    groups, _unreadable = jobs.demand_groups(rows)
    found = {(row["attributes"].get("ConcurrencyLimits"), row.get("accounting_group")) for row in groups}
    assert found == {(None, None), (None, "phys.alice"), ("xlic", None)}
    assert len({row["id"] for row in groups}) == 2


def answers(groups, known):
    return QueryResults([ScheddState.of("cm", 100, demand_answer(groups))], 0, known)


def test_only_callers_with_a_token_get_the_reasons_of_limits():
    rows = [licensed("xlic", first_job="1.0"), {**group(4, first_job="2.0"), "accounting_group": "phys.alice"}]
    made = answers(rows, read())
    first, second = made.demand()["groups"]
    assert (first["count"], second["count"], second["over_limit"]) == (4, 0, 5)
    assert second["limited_by"] == {"concurrency limit xlic: 0, 0 in use": 5}
    assert "accounting_group" not in first
    assert [row["count"] for row in results.state_for(made.demand(), {}, False)] == [4]


def test_reasons_of_merged_groups_add_up():
    rows = [licensed("xlic", 2, users={"alice@pool": 2}), licensed("xlic", 3, users={"bob@pool": 3})]
    (row,) = demand.merge(accounting_limits.apply(rows, read()))
    assert row["limited_by"] == {"concurrency limit xlic: 0, 0 in use": 5}


def test_limits_that_depend_on_the_machine_are_applied_by_the_plan():
    by_machine = group(4, expressions={"ConcurrencyLimits": "TARGET.NETWORK"})
    made = answers([by_machine, licensed("ylic", 5)], read(in_use=["ylic", "neta:2"], NETA_LIMIT="9"))
    found = made.demand()["concurrency_limits"]
    assert (found["maxima"]["neta"], found["maxima"][""]) == (9, 2308032)
    assert found["used"] == {"ylic": 3, "neta": 2}  # of one running and two idle jobs
    assert "concurrency_limits" not in made.demand(with_token=False)
    assert "concurrency_limits" not in answers([licensed("ylic", 5)], read()).demand()
