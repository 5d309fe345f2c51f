# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of one job: its facts from real ads, its lookup in several schedds, and get_job."""

import threading

import classad2
import pytest
from glidein_demand.pool import job_facts, jobs
from glidein_demand.pool.job_lookup import MAX_LOOKUPS, JobLookup, JobName, LookupFailedError
from glidein_demand.pool.queries import QueryError, demand_query
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, TOKEN, factory, job_row, settings

# As `condor_q -long` of HTCondor 23.9.6 prints it, without attributes that no test reads.
HELD = """[
AutoClusterId = 3; ClusterId = 12; ProcId = 0; JobStatus = 5; JobUniverse = 5; User = "alice@pool"; Owner = "alice";
QDate = 1795210000; EnteredCurrentStatus = 1795210100; HoldReason = "via condor_hold (by user alice)";
HoldReasonCode = 1; RequestCpus = 1; RequestMemory = 100; RequestDisk = 10240; DiskUsage = 40; WantSite = "lab";
Requirements = (TARGET.GLIDEIN_Site == WantSite) && (TARGET.Arch == "X86_64") && (TARGET.Disk >= RequestDisk);
ServerTime = 1795211000; LastRejMatchReason = "no match found "; LastRejMatchTime = 1795210090;
]"""


class Queue:
    """A schedd with these job ads, factories and ended jobs."""

    def __init__(self, *ads, factories=(), ended=()):
        self.ads, self.factories, self.history = ads, factories, ended

    def first(self, constraint, projection):
        assert projection == []
        return next((ad for ad in self.ads if classad2.ExprTree(constraint).eval(ad) is True), None)

    def clusters(self, constraint):
        return [ad for ad in self.factories if f"ClusterId == {ad['ClusterId']} " in constraint]

    def ended(self, constraint, projection):
        return next((ad for ad in self.history if classad2.ExprTree(constraint).eval(ad) is True), None)


def query(cluster=12, proc=0, **pool):
    return {**demand_query(settings(pool=pool), {"name": "cm", "address": {}}), "cluster": cluster, "proc": proc}


def facts(*ads, factories=(), **options):
    return job_facts.read(query(**options), Queue(*ads, factories=factories))["facts"]


def idle(expressions="", **values):
    return job_row(expressions, **{"ClusterId": 12, "ProcId": 0, "QDate": NOW - 60, **values})


# --- facts ---


def test_a_recorded_ad_gives_state_times_reason_and_group():
    found = facts(classad2.ClassAd(HELD))
    assert (found["status"], found["place"], found["user"]) == (5, "queue", "alice@pool")
    assert (found["queued_at"], found["since"]) == (1795210000, 1795210100)
    assert found["hold_reason"] == "via condor_hold (by user alice)"
    assert (found["rejected"], found["rejected_at"]) == ("no match found ", 1795210090)
    assert found["group"]["attributes"] == {"WantSite": "lab"}
    assert found["group"]["first_job"] == "12.0"


def test_the_group_has_the_id_under_which_the_demand_counts_the_job():
    row = job_row('Requirements = TARGET.X == WantX; WantX = "a";', JobIds="12.0 ... 12.9", JobCount=10)
    (counted,), _unreadable = jobs.demand_groups([row])
    ad = idle('Requirements = TARGET.X == WantX; WantX = "a"; Cmd = "/bin/true"; Iwd = "/tmp"; NumJobStarts = 0;')
    assert facts(ad)["group"]["id"] == counted["id"]


@pytest.mark.parametrize("job", [{"cluster": 13}, {"proc": 1}])
def test_an_unknown_job_has_no_facts(job):
    assert facts(idle(), **job) is None


@pytest.mark.parametrize(
    ("proc", "values", "cpus"),
    [
        (50, {}, 2),
        (50, {"JobMaterializeItemsFile": "/spool/12/condor_submit.12.items"}, None),  # the values are the first item's
        (100, {}, None),  # the last job is 12.99
        (4, {}, None),  # was materialized and has ended
    ],
)
def test_a_job_that_is_not_materialized_yet_has_the_group_of_its_factory(proc, values, cpus):
    found = facts(factories=[factory(**values)], proc=proc)
    if proc == 50:
        assert (found["place"], found["status"]) == ("factory", 1)
        assert (found["group"] and found["group"]["cpus"]) == cpus
    else:
        assert found is None


def test_an_unreadable_request_is_reported_as_in_the_demand():
    found = facts(idle("RequestMemory = undefined;"))
    assert (found["group"], found["unreadable"]["error"]) == (None, "RequestMemory is undefined")


@pytest.mark.parametrize(
    ("expressions", "pool", "excluded_by"),
    [
        ('IsNoopJob = true; Managed = "External";', {}, ["Managed", "IsNoopJob"]),
        ('IsNoopJob = "x"; Managed = "External";', {}, ["Managed"]),
        ("WantX = 1;", {"users": ["alice"], "constraint": "WantX == 1"}, []),
        ("", {"users": ["bob"]}, ["pool.users"]),
        ("", {"constraint": "WantY == 1"}, ["pool.constraint"]),
    ],
)
def test_what_excludes_a_job_is_named(expressions, pool, excluded_by):
    assert facts(idle(expressions, Owner="alice"), **pool)["excluded_by"] == excluded_by


def test_values_of_another_type_are_unknown_and_long_texts_are_cut():
    ad = idle("HoldReason = 3; EnteredCurrentStatus = error;", RemoteHost="x" * 1000, QDate=True)
    found = facts(ad)
    assert (found["hold_reason"], found["queued_at"], found["since"]) == (None, None, None)
    assert len(found["host"]) == job_facts.MAX_TEXT


def test_an_ended_job_is_found_in_the_history():
    schedd = Queue(ended=[classad2.ClassAd({"ClusterId": 12, "ProcId": 0, "JobStatus": 4, "ExitCode": 1})])
    found = job_facts.read_history(query(), schedd)["facts"]
    assert (found["place"], found["status"], found["exit_status"], found["group"]) == ("history", 4, 1, None)
    assert job_facts.read_history(query(13), schedd) == {"facts": None}


# --- names ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123.4", (123, 4, "")),
        (" 123 ", (123, 0, "")),
        ("cm.example.org#123.4", (123, 4, "cm.example.org")),
        ("alice@cm#123.4#1795210000", (123, 4, "alice@cm")),
    ],
)
def test_names_of_jobs(text, expected):
    name = JobName.parse(text)
    assert (name.cluster, name.proc, name.schedd) == expected


@pytest.mark.parametrize("text", ["", "x", "1.", ".1", "1.2.3", "#1.0", "1.0 || true", "a b#1.0", "9" * 20, "1.-1"])
def test_other_texts_are_not_names_of_jobs(text):
    with pytest.raises(ValueError, match="job: expected an id such as"):
        JobName.parse(text)


@given(st.text())
def test_any_text_is_a_name_or_a_value_error(text):
    try:
        name = JobName.parse(text)
    except ValueError:
        return
    assert JobName.parse(name.id) == JobName(name.cluster, name.proc)


# --- lookup ---


class Pool:
    """The answers of a pool: {schedd: facts, None, or the error of its query}."""

    def __init__(self, history=None, **schedds):
        self.schedds, self.history = schedds, history or {}
        self.asked = []

    def __call__(self, asked, timeout):
        assert timeout <= 10
        if asked["type"] == "schedds":
            return {"schedds": [{"name": name, "address": {}} for name in self.schedds]}
        self.asked.append((asked["type"], asked["schedd"], asked["attributes"]))
        answer = (self.schedds if asked["type"] == "job" else self.history).get(asked["schedd"])
        if isinstance(answer, str):
            raise QueryError(answer)
        return {"facts": answer}


FACTS = {"status": 1}
SILENT = "no answer within 10 s"


def silent_collector(_query, _timeout):
    raise QueryError(SILENT)


def find(pool, text="1.0", divided_by=(), **sections):
    return JobLookup(settings(pool=sections), pool).find(JobName.parse(text), dict(divided_by))


@pytest.mark.parametrize(
    ("pool", "found", "errors", "asked"),
    [
        (Pool(a=None, b=FACTS), ["b"], {}, ["job", "job"]),
        # The histories are read if no queue has the job.
        (Pool(a=None, b=None, history={"b": FACTS}), ["b"], {}, ["job", "job", "job_history", "job_history"]),
        # A schedd that does not answer is an error, and the others count.
        (Pool(a=SILENT, b=FACTS), ["b"], {"a": SILENT}, ["job", "job"]),
        (Pool(a=None, b=None, history={"a": SILENT}), [], {"a": f"the history of ended jobs: {SILENT}"},
         ["job", "job", "job_history", "job_history"]),
    ],
)  # fmt: skip
def test_the_schedd_that_has_the_job_is_found(pool, found, errors, asked):
    assert find(pool) == {"found": [(name, FACTS) for name in found], "errors": errors, "schedds": ["a", "b"]}
    assert [kind for kind, _schedd, _attributes in pool.asked] == asked


def test_only_the_named_schedd_is_queried():
    pool = Pool(**{"a.example.org": FACTS, "b.example.org": FACTS})
    assert find(pool, "A#1.0")["found"] == [("a.example.org", FACTS)]
    assert [schedd for _type, schedd, _attributes in pool.asked] == ["a.example.org"]
    with pytest.raises(ValueError, match="is not one of the schedds that the server reads: a.example.org"):
        find(pool, "c#1.0")


def test_the_group_is_made_with_the_attributes_that_divide_the_groups():
    pool = Pool(a=FACTS)
    find(pool, divided_by={"a": ["ProjectName"]}, attributes=["WantSite"])
    assert pool.asked == [("job", "a", ["WantSite", "ProjectName"])]


def test_a_silent_collector_fails_the_lookup():
    with pytest.raises(LookupFailedError, match=f"the collector: {SILENT}"):
        find(silent_collector)


def test_further_lookups_are_refused_while_a_schedd_hangs():
    hung, release = threading.Semaphore(0), threading.Event()
    pool = Pool(a=FACTS)

    def slow(asked, timeout):
        if asked["type"] == "job":
            hung.release()
            assert release.wait(60)
        return pool(asked, timeout)

    lookup = JobLookup(settings(), slow)
    threads = [threading.Thread(target=lookup.find, args=(JobName(1, 0), {})) for _number in range(MAX_LOOKUPS)]
    for thread in threads:
        thread.start()
    for _thread in threads:
        assert hung.acquire(timeout=60)
    with pytest.raises(LookupFailedError, match="try again"):
        lookup.find(JobName(1, 0), {})
    release.set()
    for thread in threads:
        thread.join(60)
    assert lookup.find(JobName(1, 0), {})["found"] == [("a", FACTS)]


# --- get_job, and the page ---


@pytest.fixture
def looked_up(service):
    """Return the service; its only schedd `cm` has the job 12.0 of HELD."""
    service.server.jobs.run_query = Pool(cm=facts(classad2.ClassAd(HELD)))
    return service


def test_get_job_returns_state_group_and_obstacles_to_callers_with_a_token(looked_up):
    assert looked_up.error("get_job", {"job": "12.0"})["code"] == -32001
    assert looked_up.result("get_job", {"job": "12.0"}, looked_up.token("grafana", "reader"))["state"] == "held"
    found = looked_up.result("get_job", {"job": "12.0"}, TOKEN)
    assert (found["schedd"], found["job"], found["state"], found["user"]) == ("cm", "12.0", "held", "alice@pool")
    assert found["text"] == "held for 19 min: via condor_hold (by user alice)"
    assert [obstacle["reason"] for obstacle in found["obstacles"]] == ["A held job is not matched"]
    assert (found["group"]["count"], found["in_demand"]) == (1, False)


@pytest.mark.parametrize(("stopping", "reason"), [(False, SILENT), (True, "the server is stopping")])
def test_get_job_reports_that_the_collector_is_silent_or_that_the_server_ends(service, stopping, reason):
    if stopping:
        service.server.queries.close()
    else:
        service.server.jobs.run_query = silent_collector
    response = service.call("get_job", {"job": "12.0"}, TOKEN)
    assert (response.status_code, response.json["error"]["code"]) == (503, -32005)
    assert response.json["error"]["data"] == f"the collector: {reason}"


def test_the_page_explains_a_job_to_callers_with_a_token(looked_up):
    html = looked_up.get("/?job=12.0", TOKEN).text
    assert "via condor_hold (by user alice)" in html
    assert "glidein.ops.explain -e job=cm#12.0" in html
    assert looked_up.get("/?job=12.0").status_code == 401
    assert "WWW-Authenticate" in looked_up.get("/?job=12.0").headers


def test_the_page_shows_an_invalid_id_escaped(looked_up):
    response = looked_up.get("/?job=%3Cb%3E12.0", TOKEN)
    assert response.status_code == 200
    assert "<b>12.0" not in response.text
    assert "expected an id such as 123.0" in response.text
