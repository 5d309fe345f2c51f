# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError, StaleInputError
from ansible_collections.glidein.ops.plugins.module_utils.site.queue_counts import SiteJobs
from ansible_collections.glidein.ops.plugins.module_utils.site.reconcile import (
    check_plan,
    decide,
    newest_first,
    orphans_to_cancel,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW, job, raw_entry, shape, site
from hypothesis import given
from hypothesis import strategies as st

CORE = ("main", "core")


def some(state, number, first=1, **changes):
    return [job("1_" + str(first + n), "x", state, **changes) for n in range(number)]


def counted(queued=0, running=0, sick=0, completing=0, held=0, never=0, orphans=()):
    """Return counts. sick: suspended glideins, which have started; held, never: sick ones that have not or cannot."""
    jobs = some("queued", queued) + some("running", running, 1000) + some("sick", sick, 2000)
    jobs += some("sick", held, 4000, cancellable=True)
    jobs += [one._replace(never_starts=True) for one in some("sick", never, 5000, cancellable=True)]
    return SiteJobs({CORE: jobs + some("completing", completing, 3000)}, list(orphans), [])


def decided(present, entry_limits=None, site_limits=None, cancel_running=False, kept_sick=0, **counts):
    one = site(
        {"main": raw_entry(limits=entry_limits or {"queued": 1000, "total": 1000, "per_cycle": 1000})}, site_limits
    )
    wanted = {CORE: {"present": present, "kept_sick": kept_sick}}
    return decide(wanted, counted(**counts), one, cancel_running)[0]


def test_missing_glideins_are_submitted():
    assert decided(5, queued=1, running=2).submit == 2


def test_a_matching_queue_is_unchanged():
    decision = decided(3, queued=1, running=2)
    assert (decision.submit, decision.cancel) == (0, [])


def test_queued_surplus_is_cancelled_newest_first():
    assert [one.id for one in decided(2, queued=3, running=1).cancel] == ["1_3", "1_2"]


def test_running_glideins_are_never_cancelled():
    assert decided(0, running=5).cancel == []


def test_a_queued_glidein_that_started_meanwhile_changes_nothing():
    assert decided(3, queued=2, running=1)[3:] == decided(3, queued=0, running=3)[3:] == (0, [], None)


def test_sick_and_completing_glideins_meet_no_target():
    assert decided(2, sick=1, completing=1).submit == 2


def ids(decision):
    return [one.id for one in decision.cancel]


def test_sick_glideins_are_cancelled_before_queued_ones():
    assert ids(decided(2, queued=3, held=2)) == ["1_4001", "1_4000", "1_3"]
    assert ids(decided(2, queued=2, held=1)) == ["1_4000"]


def test_a_sick_glidein_stays_until_there_is_one_in_its_place():
    decision = decided(2, queued=1, held=1)
    assert (decision.submit, ids(decision)) == (1, [])


def test_a_glidein_that_can_never_start_is_not_replaced():
    decision = decided(3, queued=1, never=1)
    assert (decision.submit, ids(decision)) == (1, [])
    assert decided(1, never=1)[3:5] == (0, [])


def test_a_glidein_that_can_never_start_stays_while_it_is_planned():
    assert ids(decided(0, never=3, kept_sick=1)) == ["1_5002", "1_5001"]
    assert ids(decided(0, never=1, held=1, kept_sick=1)) == ["1_4000"]
    assert ids(decided(5, running=5, never=1, kept_sick=1)) == []
    assert ids(decided(0, never=1)) == ["1_5000"]


def test_one_that_is_suspended_has_run_and_ends_only_when_running_ones_may():
    assert ids(decided(0, sick=1, running=1)) == []
    assert ids(decided(0, sick=1, running=1, cancel_running=True)) == ["1_2000", "1_1000"]


def test_one_in_an_unknown_state_is_present_and_ends_only_when_running_ones_may():
    one = site()
    jobs = counted(queued=1)
    key = ("main", "core")
    jobs.by_shape[key] = [job._replace(cancellable=False, reason="state X is unknown") for job in jobs.by_shape[key]]
    for present, cancel_running, submit, cancelled in (
        (1, False, 0, 0),
        (2, False, 1, 0),
        (0, False, 0, 0),
        (0, True, 0, 1),
    ):
        decision = decide({key: item(present=present)}, jobs, one, cancel_running)[0]
        assert (decision.submit, len(decision.cancel)) == (submit, cancelled)


def test_null_leaves_an_entry_as_it_is():
    decision = decided(None, queued=7)
    assert (decision.submit, decision.cancel) == (0, [])


@pytest.mark.parametrize(
    "limits, counts, submit, limited_by",
    [
        ({"queued": 3}, {"queued": 1}, 2, "limit queued 3 reached"),
        ({"queued": 3}, {"sick": 3}, 0, "limit queued 3 reached"),
        ({"total": 5, "queued": 99}, {"running": 2, "sick": 1, "completing": 1}, 1, "limit total 5 reached"),
        ({"per_cycle": 4, "queued": 99}, {}, 4, "limit per_cycle 4 reached"),
        ({"queued": 0}, {}, 0, "limit queued 0 reached"),
        ({"total": 1}, {"running": 3}, 0, "limit total 1 reached"),
    ],
)
def test_limits_of_an_entry_bind(limits, counts, submit, limited_by):
    decision = decided(50, limits, **counts)
    assert (decision.submit, decision.limited_by) == (submit, limited_by)


def test_limits_of_the_site_bind_all_entries_together():
    two = site({"a": raw_entry(), "b": raw_entry(priority=1)}, {"per_cycle": 5})
    nothing = SiteJobs({("a", "core"): [], ("b", "core"): []}, [], [])
    wanted = {("a", "core"): {"present": 4}, ("b", "core"): {"present": 4}}
    decisions = {decision.entry: decision for decision in decide(wanted, nothing, two)}
    assert (decisions["b"].submit, decisions["a"].submit) == (4, 1)
    assert decisions["a"].limited_by == "site limit per_cycle 5 reached"


def test_orphans_take_their_place_in_the_sites_limits():
    assert decided(9, site_limits={"total": 4}, orphans=some("running", 3)).submit == 1


def test_two_shapes_share_their_entrys_limits():
    one = site({"main": raw_entry(shapes={"a": shape(), "b": shape()}, limits={"queued": 5})})
    nothing = SiteJobs({("main", "a"): [], ("main", "b"): []}, [], [])
    decisions = decide({("main", "a"): {"present": 4}, ("main", "b"): {"present": 4}}, nothing, one)
    assert sum(decision.submit for decision in decisions) == 5


def test_only_orphans_that_have_not_started_are_cancelled():
    found = orphans_to_cancel(counted(orphans=some("queued", 1) + some("running", 1, 5)))
    assert [one.id for one in found] == ["1_1"]


def test_newest_is_by_time_then_by_task_number():
    jobs = [job("9_2", "x", submitted=NOW), job("9_10", "x", submitted=NOW), job("10_1", "x", submitted=NOW - 5)]
    assert [one.id for one in newest_first(jobs)] == ["9_10", "9_2", "10_1"]


small = st.integers(min_value=0, max_value=30)
limits = st.fixed_dictionaries({"queued": small, "total": small, "per_cycle": small})


@given(
    present=small,
    queued=small,
    running=small,
    suspended=small,
    held=small,
    never=small,
    entry_limits=limits,
    site_limits=limits,
)
def test_decisions_keep_to_every_limit_and_never_end_work(
    present, queued, running, suspended, held, never, entry_limits, site_limits
):
    sick = suspended + held + never
    decision = decided(
        present, entry_limits, site_limits, queued=queued, running=running, sick=suspended, held=held, never=never
    )
    for bounds in (entry_limits, site_limits):
        assert decision.submit == 0 or queued + sick + decision.submit <= bounds["queued"]
        assert decision.submit == 0 or queued + running + sick + decision.submit <= bounds["total"]
        assert decision.submit <= bounds["per_cycle"]
    assert all(one.cancellable for one in decision.cancel)
    gone = sum(1 for one in decision.cancel if one.state == "queued")
    assert not (decision.submit and gone)
    after = queued + running + decision.submit - gone
    assert queued + running + sick - len(decision.cancel) >= min(present, queued + running + sick)
    if decision.limited_by is None and present >= running:
        assert after == max(present - never, min(present, queued + running))
    if decision.limited_by:
        assert after < present


@given(present=small, queued=small, running=small)
def test_a_second_run_changes_nothing(present, queued, running):
    first = decided(present, queued=queued, running=running)
    second = decided(present, queued=queued + first.submit - len(first.cancel), running=running)
    assert (second.submit, second.cancel) == (0, [])


def checked(plan, age_s=0):
    return check_plan(plan, NOW - age_s, site(), NOW)


def item(**changes):
    return dict({"site": "lab", "entry": "main", "shape": "core", "present": 1}, **changes)


def test_a_plan_of_the_right_age_for_this_site_is_accepted():
    assert checked([item()], age_s=600) == {CORE: item()}


def test_a_number_that_jinja_made_text_is_a_number():
    assert checked([item(present="3")])[CORE]["present"] == 3


def test_an_old_plan_is_refused():
    with pytest.raises(StaleInputError, match=r"plan_as_of: the plan is 601 s old; expected at most 600 s"):
        checked([item()], age_s=601)


def test_a_plan_from_the_future_shows_that_clocks_disagree():
    assert checked([item()], age_s=-60)
    with pytest.raises(StaleInputError, match="clocks"):
        checked([item()], age_s=-61)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (item(site="other"), "plan[0].site: 'other' is invalid; expected 'lab'"),
        (item(entry="gone"), "plan[0]: entry 'gone' with shape 'core' is not in glidein_entries"),
        (item(present=-1), "plan[0].present: -1 is invalid"),
        (item(present="three"), "plan[0].present: 'three' is invalid"),
        (item(present=True), "plan[0].present: True is invalid"),
        ({"entry": "main"}, "plan[0]: has no shape, present"),
    ],
)
def test_a_plan_that_is_not_for_this_site_is_refused(wrong, words):
    with pytest.raises(InputError) as raised:
        checked([wrong])
    assert words in str(raised.value)


def test_the_same_pair_twice_is_refused():
    with pytest.raises(InputError, match="in the plan twice"):
        checked([item(), item(present=2)])
