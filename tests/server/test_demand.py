# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from glidein_demand import demand
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
def test_merging_twice_changes_nothing_and_leaves_the_input_alone(groups):
    before = [{**item, "users": dict(item["users"])} for item in groups]
    once = demand.merge(groups)
    assert demand.merge(once) == once
    assert groups == before


def test_the_id_says_what_is_asked_and_not_how_often():
    assert group(1)["id"] == group(500, {"bob@pool": 500}, "77.0")["id"]
    assert (
        len({group(cpus=2)["id"], group(requirements="A")["id"], group(attributes={"A": 1})["id"], group()["id"]}) == 4
    )


def test_job_ids_are_ordered_as_numbers():
    merged = demand.merge([group(first_job="10.0"), group(first_job="9.5"), group(first_job=None)])
    assert merged[0]["first_job"] == "9.5"


def test_anonymous_callers_see_neither_users_nor_requirements_nor_their_attributes():
    secret = group(requirements='Owner == "alice"', attributes={"Owner": "alice"})
    assert "alice" not in str(demand.for_anonymous(secret))
    assert demand.for_anonymous(secret)["count"] == 1


def test_pyglidein_sees_groups_that_differ_only_in_what_it_does_not_know_as_one():
    rows = demand.pyglidein_state([group(2), group(3, requirements="HasFoo"), group(4, cpus=8, gpus=1)])
    assert rows == [
        {"cpus": 1, "memory": 2048, "disk": 1000.0, "gpus": 0, "os": None, "count": 5},
        {"cpus": 8, "memory": 2048, "disk": 1000.0, "gpus": 1, "os": None, "count": 4},
    ]


def test_pyglidein_is_told_of_sl6_in_either_spelling_of_the_operator():
    old, new = 'TARGET.OpSysAndVer =?= "SL6"', 'TARGET.OpSysAndVer is "SL6"'
    assert [row["os"] for row in demand.pyglidein_state([group(requirements=old)])] == ["sl6"]
    assert [row["os"] for row in demand.pyglidein_state([group(requirements=new)])] == ["sl6"]
