# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders that the server's tests share."""

from __future__ import annotations

import json

import classad2
import pytest
from glidein_demand import config
from glidein_demand.demand import group_id
from glidein_demand.state import State
from glidein_demand.web import create_app

NOW = 1_795_211_273
TOKEN = "correct-horse-battery-staple"


def settings(**changes):
    """Settings with defaults, changed by section: settings(server={"port": 1})."""
    return config.parse(changes)


def job_row(expressions="", **values):
    """A real ad as the schedd's GroupBy gives it: `expressions` in ClassAd syntax, then plain values."""
    base = "RequestCpus = 1; RequestMemory = 2048; RequestDisk = 1024000; JobStatus = 1; JobUniverse = 5;"
    ad = classad2.ClassAd(f"[{base} {expressions}]")
    ad.update({"JobCount": 1, "JobIds": "1.0", "User": "alice@pool", **values})
    return ad


def group(count=1, users=None, first_job="1.0", **changes):
    """A demand group as the reader makes it."""
    asked = {
        "cpus": 1, "memory_mb": 2048, "disk_mb": 1000, "gpus": 0,
        "requirements": None, "attributes": {}, "max_runtime_s": None, **changes,
    }  # fmt: skip
    users = {"alice@pool": count} if users is None else users
    return {"id": group_id(asked), "count": count, **asked, "first_job": first_job, "users": users}


def slot(name="slot1@glidein_1@node1", **changes):
    """An evaluated slot ad of a glidein: partitionable, 4 cores, all of them free."""
    return {
        "Name": name, "Machine": "node1", "is_glidein": True, "GLIDEIN_Site": "A", "GLIDEIN_Entry": "q",
        "GLIDEIN_Shape": "s", "SlotType": "Partitionable", "State": "Unclaimed", "Cpus": 4, "TotalSlotCpus": 4,
        "Memory": 8000, "Disk": 10240000, "GPUs": 0, "DaemonStartTime": NOW - 60, **changes,
    }  # fmt: skip


def site_report(**changes):
    entry = {"entry": "RM", "shape": "node", "present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2,
             "launched": 1, "cancelled": 0, "reason": "28 idle jobs", "error": None}  # fmt: skip
    return {"site": "PSC", "as_of": NOW, "error": None, "entries": [entry], "orphans": 0, **changes}


def new_state(now=NOW, **changes):
    """A state whose clock stands still."""
    return State(clock=lambda: now, **changes)


class Service:
    """The application under test, with the moves that tests make."""

    def __init__(self, token=TOKEN, **sections):
        self.settings = settings(**sections)
        self.now = NOW
        self.state = State(self.settings.max_age_seconds, self.settings.max_sites, clock=lambda: self.now)
        self.app = create_app(self.state, self.settings, token, clock=lambda: self.now)
        self.client = self.app.test_client()

    def post(self, body, token=None, content_type="application/json", authorization=None):
        authorization = authorization or (f"Bearer {token}" if token else None)
        headers = {"Authorization": authorization} if authorization else {}
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        return self.client.post("/jsonrpc", data=data, content_type=content_type, headers=headers)

    def call(self, method, params=None, token=None):
        request = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params, "id": 1}
        return self.post(request, token)

    def result(self, method, params=None, token=None):
        response = self.call(method, params, token)
        assert response.status_code == 200, response.text
        return response.json["result"]

    def error(self, method, params=None, token=None):
        response = self.call(method, params, token)
        assert response.status_code == 400, response.text
        return response.json["error"]

    def page(self):
        response = self.client.get("/")
        assert response.status_code == 200
        return response.text


@pytest.fixture
def service():
    return Service()
