# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures and builders that the server's tests share."""

from __future__ import annotations

import json
import shutil

import classad2

# Registers HTCondor's own functions, such as split(), as in a query's process.
import htcondor2  # noqa: F401  # pylint: disable=unused-import
import hypothesis
import pytest
from glidein_demand import config
from glidein_demand.pool.demand import group_id
from glidein_demand.upkeep import Upkeep
from glidein_demand.web.app import EXTENSION, create_app

from databases import NOW, SERVER, clock, database, database_url, empty_database, new_database_url

__all__ = ["clock", "database", "database_url", "empty_database", "new_database_url"]  # fixtures

# A busy machine may be slow at any moment.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

TOKEN = "correct-horse-battery-staple"  # token of the site PSC, whose reports site_report() makes


def pytest_configure(config):
    config.addinivalue_line("markers", "services: needs nginx or Prometheus")


def pytest_collection_modifyitems(config, items):
    """Select the tests of the database if GLIDEIN_TEST_DATABASE is set."""
    if SERVER:
        others = [item for item in items if "database_url" not in item.fixturenames]
        items[:] = [item for item in items if "database_url" in item.fixturenames]
        config.hook.pytest_deselected(items=others)


def settings(**changes):
    """Return default settings, changed by section: settings(server={"port": 1})."""
    return config.parse(changes)


def job_row(expressions="", **values):
    """Return a real ad as the schedd's GroupBy returns it: `expressions` in ClassAd syntax, then plain values."""
    base = "RequestCpus = 1; RequestMemory = 2048; RequestDisk = 1024000; JobStatus = 1; JobUniverse = 5;"
    ad = classad2.ClassAd(f"[{base} {expressions}]")
    ad.update({"JobCount": 1, "JobIds": "1.0", "User": "alice@pool", **values})
    return ad


def factory(**values):
    """Return the ad of a running job factory of HTCondor 23.9: 100 jobs, 5 of them materialized."""
    ad = classad2.ClassAd("[RequestMemory = RequestCpus * 1000; RequestCpus = 2; RequestDisk = 1024]")
    ad.update({
        "ClusterId": 12, "JobUniverse": 5, "User": "alice@pool", "TotalSubmitProcs": 100, "JobFactoryTotalProcs": 100,
        "JobMaterializeNextProcId": 5, "JobFactoryPaused": 0, "JobMaterializeLimit": 100, "JobsPresent": 5, **values,
    })  # fmt: skip
    return ad


def group(count=1, users=None, first_job="1.0", **changes):
    """Return a demand group as jobs.demand_groups makes it."""
    asked = {
        "cpus": 1, "memory_mb": 2048, "disk_mb": 1000, "gpus": 0,
        "requirements": None, "attributes": {}, "max_runtime_s": None, **changes,
    }  # fmt: skip
    users = {"alice@pool": count} if users is None else users
    return {"id": group_id(asked), "count": count, **asked, "first_job": first_job, "users": users}


def demand_answer(groups=(), unreadable=(), limit=None, left=None, attributes=()):
    """Return the result of the query for a schedd's demand (query_handlers.read_demand)."""
    return {
        "groups": list(groups), "unreadable": list(unreadable), "limit": limit, "left": left,
        "attributes": list(attributes),
    }  # fmt: skip


def slot(name="slot1@glidein_1@node1", **changes):
    """Return an evaluated slot ad of a glidein: partitionable, 4 cores, all of them free."""
    return {
        "Name": name, "Machine": "node1", "is_glidein": True, "GLIDEIN_Site": "A", "GLIDEIN_Entry": "q",
        "GLIDEIN_Shape": "s", "SlotType": "Partitionable", "State": "Unclaimed", "Cpus": 4, "TotalSlotCpus": 4,
        "Memory": 8000, "Disk": 10240000, "GPUs": 0, "DaemonStartTime": NOW - 60, **changes,
    }  # fmt: skip


def reported_entry(**changes):
    """Return an entry of a site's report."""
    return {
        "entry": "RM", "shape": "node", "present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2,
        "launched": 1, "cancelled": 0, "reason": "28 idle jobs", "error": None, **changes,
    }  # fmt: skip


def site_report(**changes):
    return {"site": "PSC", "as_of": NOW, "error": None, "entries": [reported_entry()], "orphans": 0, **changes}


def ended_glidein(number=1, **changes):
    """Return the summary of a glidein that ran three jobs in two hours, one of which failed."""
    return {
        "name": f"glidein_{number}", "entry": "RM", "shape": "node", "batch_id": str(number), "started": NOW - 7300,
        "registered": NOW - 7297, "ended": NOW - 100, "jobs": 3, "jobs_failed": 1, "exit_status": 0, "reason": "",
        **changes,
    }  # fmt: skip


def summaries_of(*glideins, since=0, until=NOW):
    """Return the summaries of a report."""
    return {"since": since, "until": until, "glideins": list(glideins)}


def claim(jobs=6, site="PSC", entry="RM", **changes):
    """Return the parameters of a lease on the group that group() makes."""
    return {"site": site, "entries": {entry: {group()["id"]: jobs}}, **changes}


class Service:
    """The application under test with a database of its own, and actions that tests need.

    Its clock stands still at `now`. There are tokens of the sites in `sites`, {name: secret}.
    """

    def __init__(self, sites=None, url="sqlite://", **sections):
        self.now = NOW
        state = {"database": url, **sections.pop("state", {})}
        self.settings = settings(state=state, **sections)
        self.app = create_app(self.settings, lambda: self.now)
        self.server = self.app.extensions[EXTENSION]
        self.upkeep = Upkeep(self.server)
        self.server.tokens.install({"PSC": TOKEN} if sites is None else sites)
        self.client = self.app.test_client()

    def token(self, name, kind="site"):
        """Return a new token of a site or of a reader."""
        return self.server.tokens.create(name, kind)

    def read(self, *groups, schedd="cm", at=None, unreadable=()):
        """Apply a schedd's answer with these groups."""
        self.server.pool_state.store_demand(schedd, demand_answer(groups, unreadable), self.now if at is None else at)

    def post(self, body, token=None, content_type="application/json", authorization=None, headers=None):
        authorization = authorization or (f"Bearer {token}" if token else None)
        headers = {**(headers or {}), **({"Authorization": authorization} if authorization else {})}
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        return self.client.post("/jsonrpc", data=data, content_type=content_type, headers=headers)

    def get(self, path="/", token=None, **headers):
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return self.client.get(path, headers=headers)

    def call(self, method, params=None, token=None, headers=None):
        request = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params, "id": 1}
        return self.post(request, token, headers=headers)

    def result(self, method, params=None, token=None):
        response = self.call(method, params, token)
        assert response.status_code == 200, response.text
        return response.json["result"]

    def error(self, method, params=None, token=None):
        response = self.call(method, params, token)
        assert response.status_code == 400, response.text
        return response.json["error"]

    def page(self, token=None):
        response = self.get("/", token)
        assert response.status_code == 200, response.text
        return response.text

    def close(self):
        self.server.stop()


@pytest.fixture
def new_service(tmp_path, empty_database):
    """Return a function like Service, whose databases are files of this test."""
    made = []

    def make(**options):
        if "url" not in options:
            options["url"] = f"sqlite:///{tmp_path}/state.db"
            if not (tmp_path / "state.db").exists():
                shutil.copy2(empty_database, tmp_path / "state.db")
        made.append(Service(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def service(new_service):
    return new_service()
