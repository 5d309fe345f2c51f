# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that grouping by AutoClusterId equals grouping by Requirements, also if the schedd's queue changes meanwhile.

`Queue` answers as the schedd does (condor_schedd.V6/autocluster.cpp), on real ads with real constraints.
"""

import classad2
import pytest
from glidein_demand.pool import autoclusters, jobs
from hypothesis import given
from hypothesis import strategies as st

SIGNIFICANT = ("RequestCpus", "RequestMemory", "Requirements")
COLUMNS = jobs.projection("", [], [])
IDLE = jobs.constraint("")


def job(cluster, cpus=1, wants="X", negotiated=True, **values):
    """Return a job's whole ad; `negotiated`: the schedd has given it an autocluster."""
    ad = classad2.ClassAd(
        "[JobStatus = 1; JobUniverse = 5; RequestMemory = 1000 * RequestCpus; RequestDisk = 1024;"
        " Requirements = TARGET.Cpus >= RequestCpus && TARGET.Site == MY.WantSite]"
    )
    ad.update({"ClusterId": cluster, "ProcId": 0, "RequestCpus": cpus, "WantSite": wants, "User": "a@p", **values})
    ad["Negotiated"] = negotiated
    return ad


class Queue:
    """A schedd's job queue. `meanwhile` is called once, after the first grouping."""

    def __init__(self, ads, meanwhile=None):
        self.ads = list(ads)
        self.meanwhile = meanwhile
        self.significant = SIGNIFICANT
        self.asked = []
        self.number()

    def number(self, first=1):
        """Assign autocluster numbers, as a negotiation does."""
        self.signatures = {}
        for ad in self.ads:
            if ad["Negotiated"]:
                text = self._signature(ad, self.significant)
                ad["AutoClusterId"] = self.signatures.setdefault(text, first + len(self.signatures))
                ad["AutoClusterAttrs"] = ",".join(self.significant)

    def _signature(self, ad, names):
        """Return the values of `names` and of attributes that they refer to in the job, as the schedd collects them."""
        found = {name.lower(): name for name in names}
        for name in names:
            if isinstance(ad.get(name), classad2.ExprTree):
                refs = [*ad.internalRefs(ad[name]), *(ref[3:] for ref in ad.externalRefs(ad[name]) if ref[:3] == "MY.")]
                found.update((ref.lower(), ref) for ref in refs)
        return "; ".join(f"{name} = {ad.lookup(name)}" for name in sorted(found.values()) if name in ad)

    def first(self, constraint, projection):
        self.asked.append("first")
        tree = classad2.ExprTree(constraint)
        return next((classad2.ClassAd(str(ad)) for ad in self.ads if tree.eval(ad) is True), None)

    def grouped(self, constraint, projection):
        self.asked.append("requirements" if "Requirements" in projection else "autocluster")
        self.columns = projection
        tree = classad2.ExprTree(constraint)
        groups = {}
        for ad in self.ads:
            if tree.eval(ad) is True:
                groups.setdefault(self._signature(ad, projection), []).append(ad)
        rows = []
        for number, (text, ads) in enumerate(groups.items()):
            row = classad2.ClassAd(f"[{text}]")
            row.update({"Id": number, "JobCount": len(ads), "JobIds": f"{min(ad['ClusterId'] for ad in ads)}.0"})
            if tree.eval(row) is True:
                rows.append(row)
        if self.meanwhile:
            self.meanwhile, meanwhile = None, self.meanwhile
            meanwhile(self)
        return rows + rows[-1:]  # the last one twice, as on a slow connection

    def autoclusters(self):
        for text, number in self.signatures.items():
            ad = classad2.ClassAd(f"[{text}]")
            ad.update({"AutoClusterId": number, "JobCount": 99, "JobIds": "9.9"})
            yield ad


def demand(rows):
    return jobs.demand_groups(rows)


def read(queue):
    return demand(autoclusters.rows(queue, IDLE, COLUMNS))


def by_requirements(queue):
    return demand(autoclusters.unique(queue.grouped(IDLE, [*COLUMNS, "Requirements"])))


JOBS = st.lists(
    st.builds(
        job,
        st.integers(1, 99), st.integers(1, 3), st.sampled_from("XY"), st.booleans(),
        JobStatus=st.sampled_from([1, 1, 1, 2, 5]), User=st.sampled_from(["a@p", "b@p"]),
    ),
    max_size=15,
)  # fmt: skip


@given(JOBS)
def test_both_ways_give_the_same_demand(ads):
    queue = Queue(ads)
    assert read(queue) == by_requirements(queue)


def test_requirements_are_not_requested_when_all_jobs_have_an_autocluster():
    queue = Queue([job(1), job(2, 2), job(3, wants="Y")])
    assert sum(group["count"] for group in read(queue)[0]) == 3
    assert "requirements" not in queue.asked


def test_significant_attributes_are_not_grouped_by_unless_the_constraint_needs_them():
    queue = Queue([job(1), job(2, 2)])
    autoclusters.rows(queue, IDLE, COLUMNS)
    assert queue.columns == [
        "RequestDisk", "RequestGPUs", "User", "AccountingGroup", "ConcurrencyLimits", "AutoClusterId",
    ]  # fmt: skip
    constraint = jobs.constraint("RequestCpus > 1")
    (row,) = autoclusters.rows(queue, constraint, COLUMNS, ["requestcpus"])
    assert (row["RequestCpus"], row.eval("RequestMemory")) == (2, 2000)


def test_attributes_that_only_the_checked_job_refers_to_are_grouped_by():
    queue = Queue([job(1), job(2, 2)])
    queue.ads[0]["AutoClusterAttrs"] = "Requirements,RequestCpus,RequestMemory,WantSite"
    autoclusters.rows(queue, IDLE, COLUMNS)
    assert queue.columns == [*COLUMNS, "AutoClusterId"]


def test_a_pool_that_never_had_a_machine_is_grouped_by_requirements_at_once():
    queue = Queue([job(1, negotiated=False), job(2, 2, negotiated=False)])
    assert read(queue) == by_requirements(queue)
    assert queue.asked[:2] == ["first", "requirements"]


def test_without_idle_jobs_no_further_query_runs():
    queue = Queue([job(1, JobStatus=2)])
    assert autoclusters.rows(queue, IDLE, COLUMNS) == []
    assert queue.asked == ["first"]


def test_rows_that_come_twice_count_once():
    """Assert equal counts although Queue.grouped, like the schedd on a slow connection, returns its last row twice."""
    rows = autoclusters.rows(Queue([job(1), job(2, 2)]), IDLE, COLUMNS)
    assert sorted(row["JobIds"] for row in rows) == ["1.0", "2.0"]


def numbers_given_out_anew(queue):
    """Renumber the autoclusters, as when a new machine refers to one more attribute."""
    queue.significant = ("User", *SIGNIFICANT)
    queue.ads.reverse()
    queue.number()


def jobs_sorted_meanwhile(queue):
    for ad in queue.ads:
        ad["Negotiated"] = True
    queue.number()


def restarted(queue):
    """Reset the autocluster numbers, as a restarted schedd does."""
    for ad in queue.ads:
        for name in ("AutoClusterId", "AutoClusterAttrs"):
            if name in ad:
                del ad[name]
    queue.signatures = {}


@pytest.mark.parametrize("meanwhile", [numbers_given_out_anew, jobs_sorted_meanwhile, restarted])
def test_changes_between_two_queries_do_not_mix_groups(meanwhile):
    ads = [job(1), job(2, 2), job(3, wants="Y"), job(4, 3, negotiated=False), job(5, wants="Z")]
    queue = Queue(ads, meanwhile)
    assert read(queue) == by_requirements(queue)


def test_requirements_are_requested_where_they_are_not_significant():
    queue = Queue([job(1), job(2, wants="Y")])
    queue.significant = ("RequestCpus",)
    queue.number()
    assert read(queue) == by_requirements(queue)
    assert len(by_requirements(queue)[0]) == 2
