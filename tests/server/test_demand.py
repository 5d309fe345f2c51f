# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from glidein_demand.pool import demand
from hypothesis import given
from hypothesis import strategies as st

from conftest import group

GROUPS = st.lists(
    st.builds(
        lambda count, cpus, user, job: group(count, {user: count}, job, cpus=cpus),
        st.integers(0, 1000), st.integers(1, 4), st.sampled_from(["a@p", "b@p"]),
        st.sampled_from(["9.0", "10.0", "10.2", None]),
    ),
    max_size=12,
)  # fmt: skip


@given(GROUPS, st.randoms(use_true_random=False))
def test_merging_does_not_depend_on_the_order(groups, random):
    shuffled = list(groups)
    random.shuffle(shuffled)
    assert demand.merge(shuffled) == demand.merge(groups)


@given(GROUPS)
def test_merging_keeps_the_jobs_and_every_users_jobs(groups):
    merged = demand.merge(groups)
    assert sum(item["count"] for item in merged) == sum(item["count"] for item in groups)
    for item in merged:
        assert sum(item["users"].values()) == item["count"]


@given(GROUPS)
def test_merging_twice_changes_neither_result_nor_input(groups):
    before = [{**item, "users": dict(item["users"])} for item in groups]
    once = demand.merge(groups)
    assert demand.merge(once) == once
    assert groups == before


@given(GROUPS, st.one_of(st.none(), st.integers(0, 3000)))
def test_a_limit_permits_the_remaining_jobs_and_loses_none(groups, left):
    within = demand.within_limit(groups, left)
    total = sum(item["count"] for item in groups)
    assert sum(item["count"] for item in within) == (total if left is None else min(left, total))
    assert sum(item["count"] + item.get("over_limit", 0) for item in within) == total
    for item in within:
        assert sum(item["users"].values()) == item["count"]


def test_the_oldest_jobs_are_let_through_first():
    within = demand.within_limit([group(5, first_job="10.0", cpus=1), group(5, first_job="9.0", cpus=2)], 7)
    assert {item["cpus"]: (item["count"], item.get("over_limit", 0)) for item in within} == {2: (5, 0), 1: (2, 3)}


def test_of_jobs_of_one_group_the_unmaterialized_ones_wait_first():
    late = {**group(10, first_job="1.5"), "unmaterialized": 10}
    (merged,) = demand.merge(demand.within_limit([group(5, first_job="1.0"), late], 8))
    assert (merged["count"], merged["unmaterialized"], merged["over_limit"]) == (8, 3, 7)
    (cut,) = demand.within_limit([{**group(15), "unmaterialized": 10}], 6)
    assert (cut["unmaterialized"], cut["over_limit"]) == (1, 9)


def test_a_merged_group_is_as_old_as_its_oldest_part():
    (merged,) = demand.merge({**group(1), "as_of": as_of, "stale": stale} for as_of, stale in ((200, 0), (100, 1)))
    assert (merged["as_of"], merged["stale"], merged["count"]) == (100, 1, 2)


def test_the_id_depends_on_the_requests_and_not_on_the_count():
    assert group(1)["id"] == group(500, {"bob@pool": 500}, "77.0")["id"]
    assert (
        len({group(cpus=2)["id"], group(requirements="A")["id"], group(attributes={"A": 1})["id"], group()["id"]}) == 4
    )


def test_job_ids_are_ordered_as_numbers():
    merged = demand.merge([group(first_job="10.0"), group(first_job="9.5"), group(first_job=None)])
    assert merged[0]["first_job"] == "9.5"


def test_groups_with_equal_pyglidein_values_are_merged_for_pyglidein():
    old, new = 'TARGET.OpSysAndVer =?= "SL6"', 'TARGET.OpSysAndVer is "SL6"'
    groups = [group(2), group(3, requirements="HasFoo"), group(4, cpus=8, gpus=1), {**group(0), "over_limit": 5}]
    assert demand.pyglidein_state([*groups, group(1, requirements=old), group(2, requirements=new)]) == [
        {"cpus": 1, "memory": 2048, "disk": 1000.0, "gpus": 0, "os": None, "count": 5},
        {"cpus": 8, "memory": 2048, "disk": 1000.0, "gpus": 1, "os": None, "count": 4},
        {"cpus": 1, "memory": 2048, "disk": 1000.0, "gpus": 0, "os": "sl6", "count": 3},
    ]


@pytest.mark.parametrize(("leased", "counted"), [(0, 2), (1, 1), (5, 0)])
def test_pyglidein_counts_jobs_of_a_factory_that_are_in_the_queue_and_not_leased(leased, counted):
    """Assert the count of a factory of 20 jobs, of which the schedd has materialised 2.

    `counted` is the number without leased jobs.
    """
    rows = demand.pyglidein_state([{**group(20 - leased), "leased": leased, "unmaterialized": 18}])
    assert sum(row["count"] for row in rows) == counted
