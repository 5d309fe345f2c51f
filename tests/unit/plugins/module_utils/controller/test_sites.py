# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import select_hosts
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import (
    demand_server_sites,
    inventory_sites,
    read_site,
    results_of_play,
    site_reports,
    sites_of_play,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW, definition, queue, raw_entry, shape
from ansible_collections.glidein.ops.tests.unit.support.unreadable import (
    AnsibleVaultError,
    Encrypted,
    Marker,
    Unreadable,
)

QUEUE = {"site": "lab", "entries": []}
DOWN = {"unreachable": True, "msg": "Task failed: Connection timed out"}
TOKEN = "token-of-lab"  # noqa: S105
TOKEN_OF_A_SITE = "glidein_demand_token"  # noqa: S105


def host(**variables):
    """Return variables of a host whose queue was read."""
    known = {"glidein_scheduler": "slurm", "glidein_collector": "cm", "cycle_queue": {"queue": QUEUE}}
    return dict(known, **variables)


def define(hosts):
    """Return the definitions of the hosts as a list."""
    found = sites_of_play(hosts, list(hosts))[0]
    assert list(found) == list(hosts)
    return list(found.values())


def tokens_of(hosts):
    return sites_of_play(hosts, list(hosts))[1]


def test_the_plan_accepts_a_definition():
    hosts = {
        "h": host(glidein_site="lab", glidein_entries={"main": {}}, glidein_limits={"total": 3}),
        "away": host(cycle_queue=DOWN),
    }
    assert sites_of_play(hosts, ["h", "away"])[0] == {
        "h": definition("lab", entries={"main": {}}, limits={"total": 3}, queue=QUEUE),
        "away": definition("away", entries={}, queue=None, error="Connection timed out"),
    }


def test_only_the_hosts_that_are_named_are_defined():
    hosts = {"h": host(glidein_demand_token=TOKEN), "pulls": host(glidein_demand_token=TOKEN)}
    definitions, tokens = sites_of_play(hosts, ["h"])
    assert (list(definitions), tokens) == (["h"], {"h": TOKEN})


def test_a_site_whose_name_cannot_be_read_has_that_of_its_host():
    assert [site["site"] for site in define({"h": Unreadable("glidein_site", host())})] == ["h"]


def test_only_sites_with_a_valid_token_have_one():
    hosts = {
        "h": host(glidein_site="lab", glidein_demand_token=TOKEN),
        "none": host(),
        "odd": Unreadable(TOKEN_OF_A_SITE, host()),
        "invalid": host(**{TOKEN_OF_A_SITE: "two words"}),
    }
    assert tokens_of(hosts) == {"lab": TOKEN}


def vault_error():
    error = RuntimeError("A vault exception marker was tripped.")
    error.__cause__ = AnsibleVaultError("Decryption failed")
    return error


def token(value):
    return host(**{TOKEN_OF_A_SITE: value})


def unreadable(name, error=None):
    return Unreadable(name, host(), error)


# Variables that only the module glideins reads.
OF_JOBS = ("glidein_condor_config", "glidein_environment", "glidein_modules", "glidein_scratch")
INVALID = "invalid (not shown); expected ASCII"
UNDEFINED = "it refers to an undefined variable: "
NO_ATTRIBUTE = "'dict object' has no attribute 'y'"
ENCRYPTED = "the vault that holds it cannot be decrypted"


@pytest.mark.parametrize(
    "variables, error",
    [
        (token("two words"), f"glidein_demand_token: {INVALID}"),
        (token("broken\n"), f"glidein_demand_token: {INVALID}"),
        (token("   "), f"glidein_demand_token: {INVALID}"),
        (unreadable(TOKEN_OF_A_SITE), "glidein_demand_token: cannot be read (RuntimeError; not shown)"),
        (unreadable(TOKEN_OF_A_SITE, vault_error()), f"glidein_demand_token: {ENCRYPTED}: the vault "),
        (unreadable(TOKEN_OF_A_SITE, RuntimeError("'x' is undefined")), f"glidein_demand_token: {UNDEFINED}'x' is"),
        (unreadable(TOKEN_OF_A_SITE, RuntimeError(NO_ATTRIBUTE)), f"glidein_demand_token: {UNDEFINED}{NO_ATTRIBUTE}"),
        (unreadable("glidein_entries"), "glidein_entries: glidein_entries: 'nothing' is undefined"),
        (unreadable("glidein_entries", RuntimeError("'x' is undefined")), f"glidein_entries: {UNDEFINED}'x' is"),
        (unreadable("glidein_entries", vault_error()), f"glidein_entries: {ENCRYPTED}"),
        (host(glidein_entries={"main": {"account": Encrypted()}}), f"glidein_entries: {ENCRYPTED}"),
        (host(glidein_limits=[1]), "glidein_limits: [1] is invalid; expected a mapping"),
        (host(glidein_limts={"total": 1}), "glidein_limts: unknown variable (did you mean 'glidein_limits'?)"),
        (host(glidein_site=5349), "glidein_site: not text; put it in quotes, because YAML"),
        (unreadable("glidein_revoked"), "glidein_revoked: "),
        (host(glidein_revoked="{{ gone }}"), "glidein_revoked: "),
        (unreadable("glidein_pull"), "glidein_pull: "),
        (unreadable("glidein_credential"), "glidein_credential: "),
        (host(glidein_log_days="soon"), "glidein_log_days: 'soon' is invalid; expected a whole number"),
        (host(glidein_pull="{{ gone }}"), "glidein_pull: "),
        (host(glidein_collector=None), "glidein_collector: missing; expected HOST or HOST:PORT"),
        *((unreadable(name), f"{name}: {name}: 'nothing' is undefined") for name in OF_JOBS),
        (unreadable("glidein_log_s3"), "glidein_log_s3: cannot be read (RuntimeError; not shown)"),
    ],
)
def test_a_site_with_an_invalid_or_unreadable_variable_is_left_as_it_is_and_stops_no_other(variables, error):
    odd, good = define({"odd": variables, "h": host()})
    assert (odd["queue"], odd["entries"]) == (None, {})
    assert odd["error"].startswith(error)
    assert (good["queue"], good["error"]) == (QUEUE, None)


def test_an_unread_queue_is_reported_before_invalid_variables():
    (site,) = define({"h": host(**{TOKEN_OF_A_SITE: "a b"}, cycle_queue=DOWN)})
    assert site["error"].startswith("Connection timed out; glidein_demand_token: invalid (not shown)")
    (site,) = define({"h": host(glidein_limts={"total": 1}, cycle_queue=DOWN)})
    assert site["error"].startswith("Connection timed out; glidein_limts: unknown variable")


def test_a_site_without_a_session_is_the_reason_for_an_unread_queue():
    session = {"live": False, "msg": "login needed since ..."}
    skipped = {"changed": False, "skipped": True}
    (site,) = define({"h": host(cycle_queue=skipped, cycle_session=session)})
    assert site["error"] == "login needed since ..."
    (site,) = define({"h": host(cycle_queue=skipped)})
    assert site["error"] == "its queue was not read"


def test_the_variables_of_a_site_are_read_without_its_queue():
    odd, errors = read_site({"odd": host(glidein_limits=[1])}, "odd", host(glidein_limits=[1], glidein_limts=1))
    assert (odd["queue"], odd["error"]) == (None, "glidein_limits: [1] is invalid; expected a mapping")
    assert [error.split(" (")[0] for error in errors] == ["glidein_limts: unknown variable"]


class Counted(dict):
    """A hostvars mapping that counts its lookups."""

    looked_up = 0

    def __getitem__(self, key):
        self.looked_up += 1
        return super().__getitem__(key)


def test_the_variables_of_a_host_are_put_together_once():
    hosts = Counted(h=host(glidein_demand_token=TOKEN))
    sites, _tokens = sites_of_play(hosts, ["h"])
    assert hosts.looked_up == 1
    results_of_play(hosts, sites)
    assert hosts.looked_up == 2


def test_the_results_of_a_play_are_those_of_its_sites():
    hosts = {"h": host(glidein_demand_token=TOKEN, cycle_glideins={"changed": True}), "b": host(), "other": host()}
    sites = {"h": {"site": "lab"}, "b": {"site": "b"}}
    assert results_of_play(hosts, sites) == ({"h": {"changed": True}, "b": {}}, {"lab": TOKEN})


ITEM = PlanItem("lab", "main", "core", 1, 2, counted=1, running=2, sick=1, cpus=4, registered=2, text="3 jobs")
RUNNING = {"running_since": [[NOW - 60, 2]], "running_glideins": [{"id": "1_2", "wait_s": 340}]}
COUNTED = queue({("main", "core"): dict(RUNNING, queued=1, running=2, sick=1, sick_reasons=["held"])})


def report_of(result=None, error=None, **plan):
    sites = {"h": {"site": "lab", "error": error, "queue": None if error else COUNTED}}
    (found,) = site_reports(sites, {"h": result or {"skipped": True}}, Plan((ITEM,), **plan))
    assert found["site"] == "lab"
    return found["report"]


def result_of(**more):
    return dict({"before": COUNTED, "after": COUNTED, "submitted": [], "cancelled": [], "errors": []}, **more)


def test_the_report_of_a_site_whose_queue_matches_the_plan_has_the_counts_and_the_plan():
    report = report_of()
    assert report.pop("entries") == [
        {"entry": "main", "shape": "core", "present": 3, "wanted": 4, "queued": 1, "running": 2, "sick": 1,
         "sick_reasons": ["held"], "registered": 2, "launched": 0, "cancelled": 0, "reason": "3 jobs", "error": None,
         "cpus": 4, "credential_expires": None, **RUNNING}
    ]  # fmt: skip
    assert report == {"as_of": NOW - 5, "error": None, "orphans": 0, "summaries": None, "unserved": []}


def test_a_report_has_the_actions_and_errors_of_the_login_node():
    key = {"entry": "main", "shape": "core"}
    submitted = [dict(key, count=2, job_id="1"), dict(key, count=3, job_id="2"), dict(key, count=9, job_id=None)]
    cancelled = [dict(key, count=1), {"entry": None, "shape": None, "count": 7}]
    errors = [dict(key, error="unknown outcome."), {"entry": None, "shape": None, "error": "no access"}]
    summaries = {"since": 0, "until": 5, "glideins": []}
    after = dict(queue({("main", "core"): {"queued": 6}}, orphans={"queued": 0, "running": 1}), credential_expires=9)
    result = result_of(after=after, submitted=submitted, cancelled=cancelled, errors=errors, summaries=summaries)
    report = report_of(result)
    (entry,) = report["entries"]
    assert (entry["launched"], entry["cancelled"], entry["queued"]) == (5, 1, 6)
    assert (entry["error"], entry["credential_expires"]) == ("unknown outcome.", 9)
    assert (report["error"], report["orphans"], report["summaries"]) == ("no access", 1, summaries)
    # If the queue could not be read again, the counts are those before.
    assert report_of(dict(result, after=None, failed=True))["entries"][0]["queued"] == 1


def test_a_report_has_as_many_reasons_of_held_glideins_as_the_server_accepts():
    many = {("main", "core"): dict(RUNNING, sick=30, sick_reasons=[f"held at {minute}" for minute in range(30)])}
    (entry,) = report_of(result_of(after=queue(many)))["entries"]
    assert (entry["sick"], len(entry["sick_reasons"])) == (30, 20)


def test_a_report_without_a_plan_or_a_queue_has_the_reason():
    assert report_of(error="Connection timed out") == {"error": "Connection timed out", "unserved": []}
    assert report_of({"failed": True, "msg": "no payload"})["error"] == "no payload"
    assert report_of({"unreachable": True, "msg": "no ssh"})["error"] == "no ssh"
    left_out = [{"site": "lab", "error": "glidein_budget.mnth: unknown key"}, {"site": "x", "error": "other"}]
    assert (
        report_of(errors=left_out)["error"]
        == report_of(result_of(), errors=left_out)["error"]
        == ("glidein_budget.mnth: unknown key")
    )
    (found,) = site_reports({"h": {"site": "lab", "error": None}}, {"h": {"skipped": True}}, Plan(error="no library"))
    assert found["report"] == {"error": "no library"}


def test_a_report_has_the_reasons_for_unserved_jobs_at_this_site():
    rows = [
        {"group": "few", "count": 1, "reason": "for all"},
        {"group": "many", "count": 9, "reason": "for all"},
    ]
    here = {"few": {"other": "of another site"}, "many": {"lab": "x" * 600, "other": "of another site"}}
    reported = report_of(unserved=rows, unserved_at=here)
    assert reported["unserved"] == [
        {"group": "many", "count": 9, "reason": "x" * 500},
        {"group": "few", "count": 1, "reason": "for all"},
    ]


def test_a_report_names_the_largest_groups_that_are_not_served():
    rows = [{"group": f"g{number}", "count": number, "reason": ""} for number in range(80)]
    assert [row["count"] for row in report_of(unserved=rows)["unserved"]] == list(range(79, 29, -1))


# Trusted and revoked sites


def test_sites_have_a_name_and_a_credential():
    hostvars = {
        "a": {"glidein_site": "alpha"},
        "b": {"glidein_credential": "pool_password"},
        "c": {"glidein_site": "gamma", "glidein_revoked": True, "glidein_credential_file": "/token"},
        "d": {"glidein_revoked": True, "glidein_credential": "pool_password"},
        # The last host of a site decides.
        "twin": {"glidein_site": "alpha", "glidein_credential": "pool_password"},
    }
    found = inventory_sites(hostvars, list(hostvars))
    (error,) = found.pop("errors")
    assert error.startswith("d: glidein_credential: 'pool_password' is invalid with glidein_revoked; expected token.")
    assert found == {
        "trusted": [
            {"site": "alpha", "credential": "pool_password", "supplied": False},
            {"site": "b", "credential": "pool_password", "supplied": False},
        ],
        "revoked": [
            {"site": "gamma", "credential": "token", "supplied": True},
            {"site": "d", "credential": "pool_password", "supplied": False},
        ],
        "revoked_hosts": ["c", "d"],
    }


@pytest.mark.parametrize(
    ("value", "revoked"),
    [(True, True), ("yes", True), ("false", False), ("no", False), (None, False), ("", False), ("maybe", True)],
)
def test_text_of_an_inventory_is_read_as_a_boolean(value, revoked):
    found = inventory_sites({"a": {"glidein_revoked": value}}, ["a"])
    assert bool(found["revoked"]) is revoked
    assert bool(found["trusted"]) is not revoked


@pytest.mark.parametrize(
    "variables",
    [
        Unreadable("glidein_revoked", {}),
        {"glidein_revoked": Encrypted()},
        {"glidein_revoked": Marker()},
        # As ansible-core before 2.19 returns it.
        {"glidein_revoked": "{{ gone }}"},
    ],
)
def test_a_variable_that_cannot_be_read_is_named_and_costs_only_its_host(variables):
    hostvars = {"odd": variables, "good": {"glidein_revoked": True}, "other": {}}
    warnings = []
    assert select_hosts(hostvars, list(hostvars), ["glidein_revoked"], warn=warnings.append) == ["good"]
    assert select_hosts(hostvars, list(hostvars), without=["glidein_revoked"], warn=warnings.append) == ["other"]
    assert [text[:21] for text in warnings] == ["odd: glidein_revoked:"] * 2
    # The state of the pool follows from all sites.
    for strict in (select_hosts, inventory_sites):
        with pytest.raises(InputError, match="^odd: glidein_revoked: "):
            strict(hostvars, list(hostvars), *([["glidein_revoked"]] if strict is select_hosts else []))


# The demand server's sites


CORE, NODE = shape(), shape(28, 120000, 100000)


def entry(limits=None, **shapes):
    return raw_entry(shapes=shapes or {"core": CORE}, limits=limits or {})


def limit(limits=None, **entries):
    variables = {"glidein_site": "PSC", "glidein_entries": entries, "glidein_limits": limits or {}}
    return demand_server_sites({"host": variables}, ["host"])["lease_limits"]["PSC"]


@pytest.mark.parametrize(
    "limits, entries, jobs",
    [
        ({}, {"a": entry({"total": 50})}, 50),
        ({}, {"a": entry({"total": 50}, core=CORE, node=NODE)}, 1400),
        ({}, {"a": entry({"total": 50}), "b": entry({"total": 2}, node=NODE)}, 106),
        ({}, {"a": entry({"total": 50, "cores": 100}, node=NODE)}, 100),
        ({"total": 3}, {"a": entry({"total": 50}), "b": entry({"total": 50}, node=NODE)}, 84),
        ({"cores": 40}, {"a": entry({"total": 50}), "b": entry({"total": 50}, node=NODE)}, 40),
        ({}, {"a": entry({"total": 0})}, 0),
        ({}, {"a": entry()}, 100),
    ],
)
def test_the_limits_of_entries_and_site_bound_the_jobs(limits, entries, jobs):
    assert limit(limits, **entries) == jobs


@pytest.mark.parametrize(
    "variables, error",
    [
        ({"glidein_entries": {"a": {"shapes": {"core": CORE}}}}, "one: .*glidein_entries.a.walltime"),
        (Unreadable("glidein_limits", {}), "^one: glidein_limits: "),
    ],
)
def test_invalid_and_unreadable_variables_are_errors_that_name_the_host(variables, error):
    with pytest.raises(InputError, match=error):
        demand_server_sites({"one": variables}, ["one"])


def test_the_demand_server_gets_tokens_and_limits_of_sites_or_an_error_that_names_the_host():
    hosts = {
        "a": {"glidein_site": "A", "glidein_demand_token": "of A", "glidein_entries": {"a": entry({"total": 5})}},
        "b": {"glidein_demand_token": ""},
        "c": {},
        "r": {"glidein_demand_token": "of r", "glidein_revoked": True},
        "former": {"glidein_site": "A", "glidein_revoked": True},
    }
    found = demand_server_sites(hosts, list(hosts))
    assert found == {"tokens": {"A": "of A", "b": ""}, "revoked": ["r"], "lease_limits": {"A": 5}}
    hosts["c"] = Unreadable("glidein_demand_token", {}, AnsibleVaultError("no secrets"))
    with pytest.raises(InputError, match="^c: glidein_demand_token: the vault that holds it cannot be decrypted"):
        demand_server_sites(hosts, list(hosts))
