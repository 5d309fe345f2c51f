# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError, StaleInputError
from ansible_collections.glidein.ops.plugins.module_utils.login_node.reconcile import (
    check_plan,
    decide,
    newest_first,
    orphans_to_cancel,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import SiteJobs
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


def decided(present, entry_limits=None, site_limits=None, cancel_running=False, kept_sick=0, added=None, **counts):
    one = site(
        {"main": raw_entry(limits=entry_limits or {"queued": 1000, "total": 1000, "per_cycle": 1000})}, site_limits
    )
    wanted = {CORE: {"present": present, "added": added, "kept_sick": kept_sick}}
    return decide(wanted, counted(**counts), one, cancel_running)[0]


@pytest.mark.parametrize(
    "present, counts, submit, cancelled",
    [
        (5, {"queued": 1, "running": 2}, 2, []),
        (3, {"queued": 1, "running": 2}, 0, []),
        (3, {"running": 3}, 0, []),
        (None, {"queued": 7}, 0, []),  # null leaves an entry as it is
        # Queued surplus is cancelled, newest first; running glideins never.
        (2, {"queued": 3, "running": 1}, 0, ["1_3", "1_2"]),
        (0, {"running": 5}, 0, []),
        # Sick and completing glideins meet no target. Sick ones are cancelled first, when others are in their place.
        (2, {"sick": 1, "completing": 1}, 2, []),
        (2, {"queued": 3, "held": 2}, 0, ["1_4001", "1_4000", "1_3"]),
        (2, {"queued": 2, "held": 1}, 0, ["1_4000"]),
        (2, {"queued": 1, "held": 1}, 1, []),
        # A glidein that can never start is not replaced, and stays while it is planned.
        (3, {"queued": 1, "never": 1}, 1, []),
        (1, {"never": 1}, 0, []),
        (0, {"never": 3, "kept_sick": 1}, 0, ["1_5002", "1_5001"]),
        (0, {"never": 1, "held": 1, "kept_sick": 1}, 0, ["1_4000"]),
        (5, {"running": 5, "never": 1, "kept_sick": 1}, 0, []),
        (0, {"never": 1}, 0, ["1_5000"]),
        # A suspended one has run, and ends only when running ones may.
        (0, {"sick": 1, "running": 1}, 0, []),
        (0, {"sick": 1, "running": 1, "cancel_running": True}, 0, ["1_2000", "1_1000"]),
        # Glideins that have ended or appeared since the plan was made are neither replaced nor cancelled.
        (5, {"added": 1, "queued": 2}, 1, []),
        (0, {"added": 0, "queued": 5}, 0, []),
        (2, {"added": -1, "queued": 5}, 0, ["1_5"]),
        (1, {"added": 0, "queued": 3, "held": 1, "kept_sick": 1}, 0, []),
        (1, {"added": 1, "queued": 3, "held": 1}, 0, []),
    ],
)
def test_what_is_missing_is_submitted_and_what_is_surplus_is_cancelled(present, counts, submit, cancelled):
    decision = decided(present, **counts)
    assert (decision.submit, [one.id for one in decision.cancel]) == (submit, cancelled)


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


def test_orphans_count_for_the_sites_limits_and_are_cancelled_while_they_are_queued():
    assert decided(9, site_limits={"total": 4}, orphans=some("running", 3)).submit == 1
    found = orphans_to_cancel(counted(orphans=some("queued", 1) + some("running", 1, 5)))
    assert [one.id for one in found] == ["1_1"]


def test_two_shapes_share_their_entrys_limits():
    one = site({"main": raw_entry(shapes={"a": shape(), "b": shape()}, limits={"queued": 5})})
    nothing = SiteJobs({("main", "a"): [], ("main", "b"): []}, [], [])
    decisions = decide({("main", "a"): {"present": 4}, ("main", "b"): {"present": 4}}, nothing, one)
    assert sum(decision.submit for decision in decisions) == 5


def test_newest_is_by_time_then_by_task_number():
    jobs = [job("9_2", "x", submitted=NOW), job("9_10", "x", submitted=NOW), job("10_1", "x", submitted=NOW - 5)]
    assert [one.id for one in newest_first(jobs)] == ["9_10", "9_2", "10_1"]


small = st.integers(min_value=0, max_value=30)
limits = st.fixed_dictionaries({"queued": small, "total": small, "per_cycle": small})


STATES = ("queued", "running", "sick", "held", "never")


@given(
    present=small, counts=st.fixed_dictionaries(dict.fromkeys(STATES, small)), entry_limits=limits, site_limits=limits
)
def test_decisions_keep_to_every_limit_and_never_end_work(present, counts, entry_limits, site_limits):
    queued, running, suspended, held, never = (counts[state] for state in STATES)
    sick = suspended + held + never
    decision = decided(present, entry_limits, site_limits, **counts)
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
    assert checked([item()], age_s=-60)
    # A number that Jinja made text is a number.
    assert checked([item(present="3", added="-2")])[CORE] == item(present=3, added=-2)


@pytest.mark.parametrize(
    "age_s, message", [(601, r"plan_as_of: the plan is 601 s old; expected at most 600 s"), (-61, "clocks")]
)
def test_a_plan_that_is_old_or_from_the_future_is_refused(age_s, message):
    with pytest.raises(StaleInputError, match=message):
        checked([item()], age_s=age_s)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ([item(site="other")], "plan[0].site: 'other' is invalid; expected 'lab'"),
        ([item(entry="gone")], "plan[0]: entry 'gone' with shape 'core' is not in glidein_entries"),
        ([item(present=-1)], "plan[0].present: -1 is invalid"),
        ([item(present="three")], "plan[0].present: 'three' is invalid"),
        ([item(present=True)], "plan[0].present: True is invalid"),
        ([item(added="some")], "plan[0].added: 'some' is invalid"),
        ([{"entry": "main"}], "plan[0]: has no shape, present"),
        ([item(), item(present=2)], "in the plan twice"),
    ],
)
def test_a_plan_that_is_not_for_this_site_is_refused(wrong, words):
    with pytest.raises(InputError) as raised:
        checked(wrong)
    assert words in str(raised.value)
