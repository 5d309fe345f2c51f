# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import collections.abc

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_hosts import (
    cycle_outcomes,
    cycle_reports,
    cycle_sites,
    cycle_tokens,
    cycle_work,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW

QUEUE = {"site": "lab", "entries": []}
DOWN = {"unreachable": True, "msg": "Connection timed out"}
TOKEN = "token-of-lab"  # noqa: S105
TOKEN_OF_A_SITE = "glidein_demand_token"  # noqa: S105


def host(queue=None, **variables):
    """Variables of a host whose queue was read, or gave another result."""
    return dict({"glidein_scheduler": "slurm", "cycle_queue": queue or {"queue": QUEUE}}, **variables)


class AnsibleVaultError(Exception):
    """Stands for Ansible's error of that name."""


class Unreadable(collections.abc.Mapping):
    """Variables of which one cannot be read: it names another that is not there, or is in a vault."""

    def __init__(self, name, variables, error=None):
        self.name = name
        self.error = error
        self.variables = dict(variables, **{name: None})

    def __getitem__(self, key):
        if key == self.name:
            raise self.error or RuntimeError(f"{key}: 'nothing' is undefined")
        return self.variables[key]

    def __iter__(self):
        return iter(self.variables)

    def __len__(self):
        return len(self.variables)


def test_a_site_is_what_the_plan_takes():
    hosts = {
        "h": host(glidein_site="lab", glidein_entries={"main": {}}, glidein_limits={"total": 3}),
        "away": host(DOWN),
    }
    assert cycle_sites(hosts, ["h", "away"]) == [
        {
            "site": "lab",
            "scheduler": "slurm",
            "scheduler_options": {},
            "entries": {"main": {}},
            "limits": {"total": 3},
            "queue": QUEUE,
            "error": None,
        },
        {
            "site": "away",
            "scheduler": "slurm",
            "scheduler_options": {},
            "entries": {},
            "limits": {},
            "queue": None,
            "error": "Connection timed out",
        },
    ]


def test_hosts_that_were_not_asked_are_left_out():
    hosts = {"h": host(glidein_demand_token=TOKEN), "pulls": {"glidein_scheduler": "slurm"}}
    assert [site["site"] for site in cycle_sites(hosts, ["pulls", "h"])] == ["h"]
    assert [site["site"] for site in cycle_reports(hosts, ["pulls", "h"], {}, {})] == ["h"]


def test_variables_that_cannot_be_read_cost_only_their_site():
    hosts = {"odd": Unreadable("glidein_entries", host()), "list": host(glidein_limits=[1]), "h": host()}
    odd, listed, good = cycle_sites(hosts, list(hosts))
    assert (odd["site"], odd["queue"], odd["error"]) == ("odd", None, "glidein_entries: 'nothing' is undefined")
    assert listed["error"] == "glidein_limits: [1] is not accepted; allowed: a mapping"
    assert good["error"] is None
    assert [site["site"] for site in cycle_sites({"h": Unreadable("glidein_site", host())}, ["h"])] == ["h"]


def test_only_sites_with_a_token_have_one():
    hosts = {
        "h": host(glidein_site="lab", glidein_demand_token=TOKEN),
        "none": host(),
        "odd": Unreadable(TOKEN_OF_A_SITE, host()),
    }
    assert cycle_tokens(hosts, list(hosts)) == {"lab": TOKEN}


@pytest.mark.parametrize(
    "variables, words",
    [
        (host(**{TOKEN_OF_A_SITE: "two words"}), "is not accepted (not shown)"),
        (host(**{TOKEN_OF_A_SITE: "{{ nothing }}"}), "is not accepted (not shown)"),
        (host(**{TOKEN_OF_A_SITE: "broken\n"}), "is not accepted (not shown)"),
        (host(**{TOKEN_OF_A_SITE: "   "}), "is not accepted (not shown)"),
        (Unreadable(TOKEN_OF_A_SITE, host()), "cannot be read (RuntimeError; not shown)"),
    ],
)
def test_a_site_whose_token_is_none_is_left_as_it_is_and_stops_no_other(variables, words):
    hosts = {"odd": variables, "h": host(glidein_demand_token=TOKEN)}
    odd, good = cycle_sites(hosts, list(hosts))
    assert odd["queue"] is None
    assert odd["error"].startswith(f"glidein_demand_token: {words}")
    assert (good["queue"], good["error"]) == (QUEUE, None)
    assert cycle_tokens(hosts, list(hosts)) == {"h": TOKEN}


def vault_error():
    error = RuntimeError("A vault exception marker was tripped.")
    error.__cause__ = AnsibleVaultError("Decryption failed")
    return error


def test_a_token_in_a_vault_that_cannot_be_decrypted_says_so():
    (site,) = cycle_sites({"h": Unreadable(TOKEN_OF_A_SITE, host(), vault_error())}, ["h"])
    assert site["error"].startswith("glidein_demand_token: the vault that holds it cannot be decrypted: the vault ")
    (site,) = cycle_sites({"h": Unreadable("glidein_entries", host(), vault_error())}, ["h"])
    assert site["error"].startswith("glidein_entries: the vault that holds it cannot be decrypted")


def test_a_token_that_refers_to_a_missing_variable_names_it():
    error = RuntimeError("'vault_token' is undefined")
    (site,) = cycle_sites({"h": Unreadable(TOKEN_OF_A_SITE, host(), error)}, ["h"])
    assert site["error"].endswith("it refers to a variable that is not there: 'vault_token' is undefined")


def test_a_site_with_a_misspelt_variable_is_left_as_it_is_and_stops_no_other():
    odd, good = cycle_sites({"h": host(glidein_limts={"total": 1}), "good": host()}, ["h", "good"])
    assert odd["queue"] is None
    words = "glidein_limts: unknown variable (did you mean 'glidein_limits'?)"
    assert odd["error"].startswith(words)
    assert (good["queue"], good["error"]) == (QUEUE, None)
    # Also where its queue cannot be read, and without a plan.
    (told,) = cycle_outcomes({"h": host(DOWN, glidein_limts={"total": 1})}, ["h"], {})
    assert told["error"].startswith(f"Connection timed out; {words}")


@pytest.mark.parametrize(
    "printed",
    [
        # ansible-core 2.19 on Python 3.6, and on 3.7.
        '  File "AnsiballZ_queue_info.py", line 3\n    from __future__ import annotations\n    ^\n'
        "SyntaxError: future feature annotations is not defined",
        "ansible-core requires a minimum of Python version 3.8. Current version: 3.7.16 (default)",
    ],
)
@pytest.mark.parametrize(
    "message",
    [
        "Module result deserialization failed: No start of json char found",
        "MODULE FAILURE\nSee stdout/stderr for the exact error",
    ],
)
def test_a_login_node_whose_python_is_too_old_says_so_and_what_to_do(message, printed):
    failed = {"failed": True, "msg": message, "module_stdout": "", "module_stderr": printed}
    for error in (
        cycle_sites({"h": host(failed)}, ["h"])[0]["error"],
        cycle_outcomes({"h": host(failed)}, ["h"], {})[0]["error"],
    ):
        assert error.startswith("the Python of the login node is too old for ansible-core 2.")
        assert "ansible_python_interpreter" in error


def test_a_login_node_that_returns_no_result_is_quoted():
    failed = {
        "failed": True,
        "msg": "Module result deserialization failed: No start of json char found",
        "module_stdout": "Password expired",
        "module_stderr": "",
    }
    (site,) = cycle_sites({"h": host(failed)}, ["h"])
    assert site["error"] == "the login node did not return a module's result: 'Password expired'"


def test_a_queue_that_was_not_read_is_told_before_a_wrong_token():
    (site,) = cycle_sites({"h": host(DOWN, **{TOKEN_OF_A_SITE: "a b"})}, ["h"])
    assert site["error"] == "Connection timed out"


class Counted(dict):
    """hostvars that counts how often a host's are put together."""

    looked_up = 0

    def __getitem__(self, key):
        self.looked_up += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(
    "use",
    [
        cycle_sites,
        cycle_tokens,
        lambda hosts, names: cycle_reports(hosts, names, {}, {}),
        lambda hosts, names: cycle_work(hosts, names, {}, {}),
        lambda hosts, names: cycle_outcomes(hosts, names, {}),
    ],
)
def test_the_variables_of_a_host_are_put_together_once(use):
    hosts = Counted(h=host(glidein_demand_token=TOKEN))
    use(hosts, ["h"])
    assert hosts.looked_up == 1


def reported(plan=None, plans=None, **variables):
    hosts = {"h": host(glidein_demand_token=TOKEN, **variables)}
    return cycle_reports(hosts, ["h"], plans or {}, plan or {})[0]["report"]


def test_a_report_is_what_was_done_or_why_nothing_was():
    assert reported(cycle_glideins={"report": {"as_of": 1}}) == {"as_of": 1}
    assert reported(queue=DOWN) == {"error": "Connection timed out"}
    session = {"live": False, "msg": "login needed since ..."}
    assert reported(queue={"skipped": True}, cycle_session=session) == {"error": "login needed since ..."}
    assert reported(cycle_glideins={"failed": True, "msg": "no payload"}) == {"error": "no payload"}
    assert reported({"failed": True, "msg": "no library"}, cycle_glideins={"skipped": True}) == {"error": "no library"}
    assert reported() == {"error": "not planned"}


def test_a_report_says_why_jobs_are_not_served_at_this_site():
    rows = [
        {"group": "few", "count": 1, "reason": "for all"},
        {"group": "many", "count": 9, "reason": "for all"},
    ]
    here = {"few": {"lab": "of another site"}, "many": {"h": "x" * 600, "lab": "of another site"}}
    told = reported({"unserved": rows, "unserved_at": here}, cycle_glideins={"report": {"as_of": 1}})["unserved"]
    assert told == [
        {"group": "many", "count": 9, "reason": "x" * 500},
        {"group": "few", "count": 1, "reason": "for all"},
    ]


def test_a_report_names_the_largest_groups_that_are_not_served():
    rows = [{"group": f"g{number}", "count": number, "reason": ""} for number in range(80)]
    told = reported({"unserved": rows})["unserved"]
    assert [row["count"] for row in told] == list(range(79, 29, -1))


FULL = {
    "site": "lab",
    "as_of": NOW,
    "entries": [
        {"entry": "main", "shape": "core", "queued": 1, "running": 2, "sick": 0, "sick_reasons": [],
         "running_glideins": []}
    ],
    "orphans": {"queued": 0, "running": 1},
    "credential_expires": None,
    "files": {"deployed": True, "credential": True, "newest_output": NOW - 500.5, "oldest_log": NOW - 10 * 86400.0},
}  # fmt: skip
PLANS = {"lab": [{"site": "lab", "entry": "main", "shape": "core", "present": 3, "reason": "3 jobs", "registered": 2}]}


def test_a_report_of_a_site_where_nothing_was_to_be_done_is_what_its_queue_says():
    lab = {"queue": {"queue": FULL}, "glidein_site": "lab", "plans": PLANS}
    report = reported(cycle_glideins={"skipped": True}, **lab)
    assert report.pop("entries") == [
        {"entry": "main", "shape": "core", "present": 3, "wanted": None, "queued": 1, "running": 2, "sick": 0,
         "sick_reasons": [], "registered": 2, "launched": 0, "cancelled": 0, "reason": "3 jobs", "error": None,
         "running_glideins": []}
    ]  # fmt: skip
    assert report == {"as_of": NOW, "error": None, "orphans": 1, "summaries": None}
    assert reported(cycle_glideins={"failed": True, "msg": "no payload"}, **lab) == {"error": "no payload"}


def work(queue=None, until=NOW - 500.5, **variables):
    demand = {"supply": {"summaries_until": {"lab": until}}}
    hosts = {"h": host({"queue": dict(FULL, **(queue or {}))}, **dict({"glidein_site": "lab"}, **variables))}
    return cycle_work(hosts, ["h"], PLANS, demand, NOW)


def test_a_site_whose_queue_is_as_planned_has_no_work():
    assert work() == []
    assert cycle_work({"h": host({"queue": FULL}, glidein_site="lab")}, ["h"], PLANS, {"supply": {}}, NOW) == []
    assert cycle_work({"h": host({"queue": FULL}, glidein_site="lab")}, ["h"], {}, {"failed": True}, NOW) == []
    assert cycle_work({"h": host(DOWN, glidein_site="lab")}, ["h"], PLANS, {}, NOW) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"until": NOW - 501},
        {"until": None},
        {"glidein_log_days": 10},
        {"glidein_log_days": "soon"},
        {"queue": {"credential_expires": NOW}},
        {"queue": {"files": dict(FULL["files"], credential=False)}},
        {"queue": {"files": dict(FULL["files"], deployed=False)}},
        {"queue": {"orphans": {"queued": 1, "running": 0}}},
        {"queue": {"entries": []}},
        {"queue": {"entries": [dict(FULL["entries"][0], running=1)]}},
        {"queue": {"entries": [dict(FULL["entries"][0], running=3)]}},
        {"queue": {"entries": [dict(FULL["entries"][0], sick=1)]}},
    ],
)
def test_a_site_has_work_where_anything_is_not_as_it_is_to_be(changes):
    assert work(**changes) == ["lab"]


@pytest.mark.parametrize(
    "changes",
    [
        {"glidein_credential": "pool_password", "queue": {"files": dict(FULL["files"], credential=False)}},
        {"glidein_credential": "pool_password", "queue": {"credential_expires": NOW}},
        {"queue": {"files": dict(FULL["files"], newest_output=None, oldest_log=None)}, "until": None},
        {"glidein_log_days": 0},
        {"queue": {"orphans": {"queued": 0, "running": 5}}},
    ],
)
def test_a_site_has_no_work_for_what_is_as_it_may_be(changes):
    assert work(**changes) == []


def test_an_outcome_is_what_the_summary_takes():
    hosts = {"h": host(glidein_site="lab", cycle_glideins={"changed": True}), "away": host(DOWN)}
    reported = {"failed": True, "msg": "lab: HTTP 401", "errors": [{"site": "lab", "error": "HTTP 401"}]}
    assert cycle_outcomes(hosts, list(hosts), reported) == [
        {"host": "h", "site": "lab", "error": None, "queue": QUEUE, "matched": {"changed": True},
         "report_error": "HTTP 401"},
        {"host": "away", "site": "away", "error": "Connection timed out", "queue": None, "matched": {},
         "report_error": None},
    ]  # fmt: skip


def test_a_report_that_could_not_begin_failed_for_all_and_one_that_was_skipped_for_none():
    hosts = {"h": host()}
    assert cycle_outcomes(hosts, ["h"], {"failed": True, "msg": "no library"})[0]["report_error"] == "no library"
    assert cycle_outcomes(hosts, ["h"], {"changed": False, "skipped": True})[0]["report_error"] is None
