# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from glidein_demand.pool import schedds


def ad(name="a", **values):
    return {"Name": name, "MyAddress": f"<{name}>", "TotalIdleJobs": 3, "LastHeardFrom": 10, **values}


def names(found):
    return [schedd["name"] for schedd in found]


def test_each_schedd_has_the_attributes_that_a_connection_needs():
    found = schedds.from_ads([ad("b"), ad("a", CondorVersion="v")])
    assert names(found) == ["a", "b"]
    assert found[0] == {"name": "a", "address": {"Name": "a", "MyAddress": "<a>", "CondorVersion": "v"}, "idle": 3}


def test_the_newer_of_two_ads_with_the_same_name_counts():
    found = schedds.from_ads([ad(MyAddress="<new>", LastHeardFrom=20), ad(MyAddress="<old>")])
    assert [schedd["address"]["MyAddress"] for schedd in found] == ["<new>"]


def test_an_ad_without_name_or_address_is_left_out():
    assert schedds.from_ads([{"Name": "x"}, {"MyAddress": "<y>"}]) == []


def test_without_names_all_schedds_are_selected():
    known = schedds.from_ads([ad("a"), ad("B"), ad("c")])
    assert names(schedds.select(known, ())[0]) == ["B", "a", "c"]
    chosen, missing = schedds.select(known, ("b", "gone"))
    assert (names(chosen), missing) == (["B"], ["gone"])


def test_a_large_queue_is_divided_if_grouping_takes_long():
    many = schedds.MANY_JOBS
    assert [schedds.number_of_parts(idle, True, 8) for idle in (0, many - 1, many)] == [1, 1, schedds.MAX_PARTS]
    assert schedds.number_of_parts(many, False, 8) == 1


def test_a_processor_is_left_to_requests():
    assert [schedds.number_of_parts(schedds.MANY_JOBS, True, processors) for processors in (1, 2, 3, 4)] == [1, 1, 2, 3]


def test_the_merged_result_has_the_limit_of_the_first_part():
    first = {"groups": [1], "unreadable": [], "limit": 10, "left": 4}
    second = {"groups": [2], "unreadable": [3], "limit": None, "left": None}
    assert schedds.merge_parts([first, second]) == {"groups": [1, 2], "unreadable": [3], "limit": 10, "left": 4}
