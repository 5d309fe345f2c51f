# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.sites import (
    demand_tokens,
    read_site,
    results_of_play,
    site_reports,
    sites_of_play,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.tests.unit.support.unreadable import (
    AnsibleVaultError,
    Encrypted,
    Unreadable,
)

QUEUE = {"site": "lab", "entries": []}
DOWN = {"unreachable": True, "msg": "Task failed: Connection timed out"}
TOKEN = "token-of-lab"  # noqa: S105
TOKEN_OF_A_SITE = "glidein_demand_token"  # noqa: S105


def host(**variables):
    """Return variables of a host whose queue was read."""
    return dict({"glidein_scheduler": "slurm", "cycle_queue": {"queue": QUEUE}}, **variables)


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
        "h": {
            "site": "lab",
            "scheduler": "slurm",
            "scheduler_options": {},
            "entries": {"main": {}},
            "limits": {"total": 3},
            "budget": {},
            "eagerness": None,
            "queue": QUEUE,
            "error": None,
        },
        "away": {
            "site": "away",
            "scheduler": "slurm",
            "scheduler_options": {},
            "entries": {},
            "limits": {},
            "budget": {},
            "eagerness": None,
            "queue": None,
            "error": "Connection timed out",
        },
    }


def test_only_the_hosts_that_are_named_are_defined():
    hosts = {"h": host(glidein_demand_token=TOKEN), "pulls": host(glidein_demand_token=TOKEN)}
    definitions, tokens = sites_of_play(hosts, ["h"])
    assert (list(definitions), tokens) == (["h"], {"h": TOKEN})


def test_variables_that_cannot_be_read_cost_only_their_site():
    hosts = {"odd": Unreadable("glidein_entries", host()), "list": host(glidein_limits=[1]), "h": host()}
    odd, listed, good = define(hosts)
    assert (odd["site"], odd["queue"], odd["error"]) == ("odd", None, "glidein_entries: 'nothing' is undefined")
    assert listed["error"] == "glidein_limits: [1] is invalid; expected a mapping"
    assert good["error"] is None
    assert [site["site"] for site in define({"h": Unreadable("glidein_site", host())})] == ["h"]


def test_only_sites_with_a_token_have_one():
    hosts = {
        "h": host(glidein_site="lab", glidein_demand_token=TOKEN),
        "none": host(),
        "odd": Unreadable(TOKEN_OF_A_SITE, host()),
    }
    assert tokens_of(hosts) == {"lab": TOKEN}


@pytest.mark.parametrize(
    "variables, words",
    [
        (host(**{TOKEN_OF_A_SITE: "two words"}), "invalid (not shown); expected ASCII"),
        (host(**{TOKEN_OF_A_SITE: "{{ nothing }}"}), "invalid (not shown); expected ASCII"),
        (host(**{TOKEN_OF_A_SITE: "broken\n"}), "invalid (not shown); expected ASCII"),
        (host(**{TOKEN_OF_A_SITE: "   "}), "invalid (not shown); expected ASCII"),
        (Unreadable(TOKEN_OF_A_SITE, host()), "cannot be read (RuntimeError; not shown)"),
    ],
)
def test_a_site_with_an_invalid_token_is_unchanged_and_others_continue(variables, words):
    hosts = {"odd": variables, "h": host(glidein_demand_token=TOKEN)}
    odd, good = define(hosts)
    assert odd["queue"] is None
    assert odd["error"].startswith(f"glidein_demand_token: {words}")
    assert (good["queue"], good["error"]) == (QUEUE, None)
    assert tokens_of(hosts) == {"h": TOKEN}


def vault_error():
    error = RuntimeError("A vault exception marker was tripped.")
    error.__cause__ = AnsibleVaultError("Decryption failed")
    return error


def test_a_token_in_an_undecryptable_vault_is_reported():
    (site,) = define({"h": Unreadable(TOKEN_OF_A_SITE, host(), vault_error())})
    assert site["error"].startswith("glidein_demand_token: the vault that holds it cannot be decrypted: the vault ")
    (site,) = define({"h": Unreadable("glidein_entries", host(), vault_error())})
    assert site["error"].startswith("glidein_entries: the vault that holds it cannot be decrypted")


@pytest.mark.parametrize("error", ["'vault_token' is undefined", "'dict object' has no attribute 'token'"])
def test_a_token_that_refers_to_a_missing_variable_names_it(error):
    (site,) = define({"h": Unreadable(TOKEN_OF_A_SITE, host(), RuntimeError(error))})
    assert site["error"].endswith("it refers to an undefined variable: " + error)


def test_a_site_with_a_misspelt_variable_is_left_as_it_is_and_stops_no_other():
    odd, good = define({"h": host(glidein_limts={"total": 1}), "good": host()})
    assert odd["queue"] is None
    words = "glidein_limts: unknown variable (did you mean 'glidein_limits'?)"
    assert odd["error"].startswith(words)
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
    hosts = {"h": host(glidein_demand_token=TOKEN, cycle_glideins={"report": {}}), "b": host(), "other": host()}
    sites = {"h": {"site": "lab"}, "b": {"site": "b"}}
    assert results_of_play(hosts, sites) == ({"h": {"report": {}}, "b": {}}, {"lab": TOKEN})


def report_of(result=None, error=None, plan=None, lease=None):
    sites = {"h": {"site": "lab", "error": error}}
    (found,) = site_reports(sites, {"h": result or {"skipped": True}}, plan or {}, lease or {})
    assert found["site"] == "lab"
    return found["report"]


def test_a_report_has_the_actions_or_the_reason_for_none():
    assert report_of({"report": {"as_of": 1}}) == {"as_of": 1}
    assert report_of(error="Connection timed out") == {"error": "Connection timed out"}
    assert report_of({"failed": True, "msg": "no payload"}) == {"error": "no payload"}
    assert report_of(plan={"failed": True, "msg": "no library"}) == {"error": "no library"}
    assert report_of(lease={"failed": True, "msg": "invalid ttl"}) == {"error": "invalid ttl"}
    assert report_of() == {"error": "not planned"}


def test_a_report_has_the_reasons_for_unserved_jobs_at_this_site():
    rows = [
        {"group": "few", "count": 1, "reason": "for all"},
        {"group": "many", "count": 9, "reason": "for all"},
    ]
    here = {"few": {"other": "of another site"}, "many": {"lab": "x" * 600, "other": "of another site"}}
    reported = report_of({"report": {"as_of": 1}}, plan={"unserved": rows, "unserved_at": here})
    assert reported["unserved"] == [
        {"group": "many", "count": 9, "reason": "x" * 500},
        {"group": "few", "count": 1, "reason": "for all"},
    ]


def test_a_report_names_the_largest_groups_that_are_not_served():
    rows = [{"group": f"g{number}", "count": number, "reason": ""} for number in range(80)]
    assert [row["count"] for row in report_of(plan={"unserved": rows})["unserved"]] == list(range(79, 29, -1))


@pytest.mark.parametrize("name", ["glidein_revoked", "glidein_pull"])
def test_a_site_that_may_be_revoked_is_left_as_it_is(name):
    *sites, good = define({"raises": Unreadable(name, host()), "raw": host(**{name: "{{ gone }}"}), "h": host()})
    for site in sites:
        assert site["queue"] is None
        assert site["error"].startswith(f"{name}: ")
    assert good["error"] is None


def test_a_part_of_a_variable_that_cannot_be_decrypted_costs_only_its_site():
    odd, good = define({"odd": host(glidein_entries={"main": {"account": Encrypted()}}), "h": host()})
    assert odd["error"].startswith("glidein_entries: the vault that holds it cannot be decrypted")
    assert odd["entries"] == {}
    assert good["error"] is None


def test_the_tokens_of_all_sites_are_returned_or_an_error_that_names_the_host():
    hosts = {"a": host(glidein_site="A", glidein_demand_token=TOKEN), "b": host(glidein_demand_token=""), "c": host()}
    assert demand_tokens(hosts, list(hosts)) == {"A": TOKEN, "b": ""}
    hosts["c"] = Unreadable("glidein_demand_token", host(), AnsibleVaultError("no secrets"))
    with pytest.raises(InputError, match="^c: glidein_demand_token: the vault that holds it cannot be decrypted"):
        demand_tokens(hosts, list(hosts))


def test_a_site_whose_name_yaml_reads_as_a_number_is_left_as_it_is():
    odd, good = define({"odd": host(glidein_site=5349), "h": host()})
    assert odd["error"].startswith("glidein_site: not text; put it in quotes, because YAML")
    assert odd["queue"] is None
    assert good["error"] is None
