# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the inventory plugin ce_collector, without its queries."""

import pytest
import yaml
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.glidein.ops.plugins.inventory import ce_collector
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES
from ansible_collections.glidein.ops.tests.unit.support.ce_catalogue import CE, GATEWAY, ITEM

try:
    from ansible.template import trust_as_template
except ImportError:  # before ansible-core 2.19 all texts are templates

    def trust_as_template(text):
        return text


NODE = {"Name": "node", "CPUs": 8, "Memory": 16000, "WholeNode": True}
# Options of Ansible's fragments are not set.
OPTIONS = yaml.safe_load(ce_collector.DOCUMENTATION)["options"]
DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}


class Catalogue:
    """The plugin, with collectors that answer from `ads`, {collector: [ads], or the reason of its failure}."""

    def __init__(self):
        self.ads = {"central:9619": [dict(CE, OSG_ResourceCatalog=[ITEM, NODE])]}
        self.asked = []
        self.timeouts = set()
        self.stored = {}
        self.warnings = []
        self.inventory = InventoryData()

    def query(self, collectors, timeout_s):
        """Return the answers and failures, as ce_catalogue.query does."""
        self.asked.append(collectors)
        self.timeouts.add(timeout_s)
        records = {
            name: [{"name": repr(ad["Name"]), "ad": ad} for ad in self.ads[name]]
            for name in collectors
            if isinstance(self.ads[name], list)
        }
        return records, {name: self.ads[name] for name in collectors if name not in records}

    def read(self, may_read_cache=True, **options):
        """Return the inventory, read with these options.

        It bypasses Ansible's plugin loader, which would read the options but needs an installed collection.
        """
        options = dict(DEFAULTS, **dict({"collectors": ["central"]}, **options))
        plugin = ce_collector.InventoryModule()
        plugin._load_name = plugin._original_path = "glidein.ops.ce_collector"
        plugin.display = type("Display", (), {"warning": staticmethod(self.warnings.append)})()
        plugin._read_config_data = lambda unused: options
        plugin.get_option = options.get
        plugin.get_cache_key = lambda path: f"key of {path}"
        plugin._cache = self.stored
        plugin.parse(self.inventory, DataLoader(), "/etc/osg.ce_collector.yml", may_read_cache)
        return self.inventory


@pytest.fixture
def catalogue(monkeypatch):
    found = Catalogue()
    monkeypatch.setattr(ce_collector, "query", found.query)
    return found


def variables_of(inventory, host):
    """Return the variables that the plugin has set."""
    own = inventory.get_host(host).vars
    return {name: value for name, value in own.items() if not name.startswith("inventory_")}


def test_only_files_with_the_plugins_name_are_read(tmp_path):
    for name in ("ce_collector.yml", "osg.ce_collector.yaml", "hosts.yml"):
        (tmp_path / name).write_text("plugin: glidein.ops.ce_collector\n", encoding="utf-8")
    plugin = ce_collector.InventoryModule()
    assert plugin.verify_file(str(tmp_path / "ce_collector.yml"))
    assert plugin.verify_file(str(tmp_path / "osg.ce_collector.yaml"))
    assert not plugin.verify_file(str(tmp_path / "hosts.yml"))


def test_a_ce_is_a_host_of_its_groups_with_its_variables(catalogue):
    inventory = catalogue.read()
    groups = {group.name for group in inventory.get_host("ce1.example.org").get_groups()}
    assert groups - {"all"} == {"glidein_sites", "ce_catalogue", "ce_group_EXAMPLE", "ce_batch_slurm"}
    variables = variables_of(inventory, "ce1.example.org")
    assert variables["glidein_ce"] == "ce1.example.org:9619"
    assert list(variables["glidein_entries"]) == ["sc1", "node"]
    assert {name for name in variables if name.startswith("glidein_")} <= set(VARIABLES)
    assert catalogue.warnings == []
    assert catalogue.timeouts == {30}
    assert catalogue.stored == {}  # without the option `cache`


def test_warnings_about_ads_can_be_turned_off(catalogue):
    catalogue.ads["central:9619"] = [dict(CE, OSG_Resource="{{7*7}}")]
    catalogue.read()
    (warning,) = catalogue.warnings
    assert "the ad 'ce1.example.org': OSG_Resource: '{{7*7}}' is invalid" in warning
    catalogue.warnings.clear()
    catalogue.read(show_warnings=False)
    assert catalogue.warnings == []


def test_filters_are_the_options_of_the_plugin(catalogue):
    for options in ({"vo": "cms", "min_walltime": "49h"}, {"batch_systems": ["pbs"]}, {"min_cpus": 9}):
        inventory = catalogue.read(**options)
        host = inventory.get_host("ce1.example.org")
        # The second item is for all VOs, and has no walltime.
        assert host is None or list(host.vars["glidein_entries"]) == ["node"]
        inventory.hosts.clear()


def test_defaults_of_entries_are_options(catalogue):
    entry = variables_of(catalogue.read(walltime="90m", disk_per_core_mb=1), "ce1.example.org")["glidein_entries"]
    assert (entry["node"]["walltime"], entry["node"]["shapes"]["pilot"]["disk_mb"]) == ("90m", 8)


def test_constructed_groups_and_variables_use_the_variables_of_the_ce(catalogue):
    inventory = catalogue.read(
        compose={
            "ansible_host": trust_as_template("'ap.example.org'"),
            "site": trust_as_template("ce_resource | lower"),
        },
        groups={"large": trust_as_template("glidein_entries.sc1.node.cpus >= 8")},
        keyed_groups=[{"key": trust_as_template("ce_allowed_vos"), "prefix": "vo"}],
    )
    variables = variables_of(inventory, "ce1.example.org")
    assert (variables["ansible_host"], variables["site"]) == ("ap.example.org", "example-ce1")
    groups = {group.name for group in inventory.get_host("ce1.example.org").get_groups()}
    assert "large" in groups


def test_a_host_of_another_source_is_not_changed_unless_it_is_in_the_plugins_group(catalogue):
    catalogue.ads["central:9619"] += [dict(CE, grid_resource="condor g g")]
    catalogue.inventory.add_group("g")
    catalogue.inventory.add_host("ce1.example.org")
    assert variables_of(catalogue.read(), "ce1.example.org") == {}
    assert catalogue.inventory.get_host("g") is None
    assert len(catalogue.warnings) == 2
    assert catalogue.warnings[:1] == [
        "ce1.example.org: another source of the inventory has a host or group of this name; the CE is skipped. To set "
        "variables of this host there, add it to the group ce_catalogue."
    ]
    catalogue.inventory.add_group("ce_catalogue")
    catalogue.inventory.add_child("ce_catalogue", "ce1.example.org")
    assert variables_of(catalogue.read(), "ce1.example.org")["ce_resource"] == "EXAMPLE-CE1"


@pytest.mark.parametrize("text", ["{{ 7*7 }}", "{{ lookup('pipe', 'id') }}", "{% set x = 1 %}"])
def test_variables_are_never_templates(catalogue, monkeypatch, text):
    """Bypass the checks of ads, which let no brace through."""
    site = {"variables": {"ce_resource": text}, "groups": ["glidein_sites"]}
    monkeypatch.setattr(ce_collector, "build", lambda *_arguments: {"hosts": {"ce": site}, "warnings": []})
    value = catalogue.read().get_host("ce").vars["ce_resource"]
    assert Templar(loader=DataLoader(), variables={"x": value}).template(trust_as_template("{{ x }}")) == text


# --- collectors that do not answer, and the cache


def test_collectors_have_a_default_port_and_are_asked_once(catalogue):
    catalogue.ads.update({"central:9618": [GATEWAY]})
    catalogue.read(collectors=["central", "central:9618", "central:9619"])
    assert catalogue.asked == [["central:9619", "central:9618"]]


def test_a_collector_that_does_not_answer_is_named_and_the_others_are_used(catalogue):
    catalogue.ads["other:9619"] = "no answer within 30 s"
    assert catalogue.read(collectors=["other", "central"], show_warnings=False).get_host("ce1.example.org")
    assert catalogue.warnings == [
        "The collector other:9619 did not answer (no answer within 30 s); its CEs are missing in the inventory."
    ]


def test_without_any_answer_the_inventory_is_an_error(catalogue):
    catalogue.ads = {"central:9619": "no answer within 30 s", "other:9619": "refused"}
    with pytest.raises(AnsibleParserError) as error:
        catalogue.read(collectors=["central", "other"])
    assert str(error.value) == (
        "/etc/osg.ce_collector.yml: no collector answered: central:9619: no answer within 30 s; other:9619: refused"
    )


@pytest.fixture
def cached(catalogue):
    """Return a function that reads two collectors with the cache, and returns the names of the hosts.

    Its argument is False after --flush-cache.
    """
    catalogue.ads["other:9619"] = [GATEWAY]

    def names(may_read_cache=True, **options):
        catalogue.inventory = InventoryData()
        inventory = catalogue.read(may_read_cache, collectors=["central", "other"], **dict(options, cache=True))
        return sorted(inventory.hosts)

    return names


def test_a_cached_answer_is_used_without_a_query_also_with_other_filters(catalogue, cached):
    assert cached() == ["ce1.example.org", "gateway-lab"]
    assert cached(resources=["EXAMPLE-CE1"]) == ["ce1.example.org"]
    assert catalogue.asked == [["central:9619", "other:9619"]]


def test_a_collector_that_did_not_answer_is_asked_again(catalogue, cached):
    catalogue.ads["other:9619"] = "no answer"
    assert cached() == ["ce1.example.org"]
    catalogue.ads["other:9619"] = [GATEWAY]
    assert cached() == ["ce1.example.org", "gateway-lab"]
    assert catalogue.asked == [["central:9619", "other:9619"], ["other:9619"]]


def test_a_refused_refresh_keeps_the_cached_answer(catalogue, cached):
    cached()
    catalogue.ads["other:9619"] = "no answer"
    assert cached(False) == ["ce1.example.org", "gateway-lab"]
    assert catalogue.warnings == ["The collector other:9619 did not answer (no answer); its cached answer is used."]
    catalogue.ads["central:9619"] = "no answer"
    assert cached(False) == ["ce1.example.org", "gateway-lab"]


def test_an_invalid_cache_is_not_used(catalogue, cached):
    catalogue.stored["key of /etc/osg.ce_collector.yml"] = ["x"]
    assert cached() == ["ce1.example.org", "gateway-lab"]


def test_errors_of_options_are_reported_together(catalogue):
    with pytest.raises(AnsibleParserError) as error:
        catalogue.read(min_walltime="soon", walltime="1s", timeout=0)
    text = str(error.value)
    for name in ("min_walltime: 'soon' is invalid", "walltime: '1s' is invalid", "timeout: 0 is invalid"):
        assert name in text


@pytest.mark.parametrize("collectors", [["a b"], ["central:99999"], ["-x"], []])
def test_collectors_are_hosts_with_ports(catalogue, collectors):
    with pytest.raises(AnsibleParserError, match="collectors.*expected "):
        catalogue.read(collectors=collectors)
    assert catalogue.asked == []
