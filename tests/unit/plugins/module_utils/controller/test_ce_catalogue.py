# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of sites from the ads of CEs and gateways."""

import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.controller.ce_catalogue import build
from ansible_collections.glidein.ops.tests.unit.support.ce_catalogue import CE, GATEWAY, ITEM
from hypothesis import given
from hypothesis import strategies as st

DEFAULTS = {"walltime_s": 86400, "disk_per_core_mb": 5000}
HOSTILE = [
    "{{7*7}}",
    "{{ lookup('pipe', 'id') }}",
    "{%set x=1%}",
    "$(id)",
    "`id`;id",
    "a'b\"c",
    "a\nglidein_home: /evil",
    "\x1b[2J",
    "\u2028",
    "x" * 1000,
    "-oProxyCommand=id",
    "../../etc",
    "",
    " ",
    "\ud800",
]


def _size(cpus, memory_mb):
    return {"cpus": cpus, "memory_mb": memory_mb, "disk_mb": 5000 * cpus, "min_disk_mb": 1000 * cpus}


def filters(**given):
    """Return the filters of the plugin's options."""
    every = {"vo": None, "batch_systems": [], "resources": [], "resource_groups": []}
    return dict(every, min_cpus=1, min_memory_mb=1, min_walltime_s=0, **given)


def built(*ads, **given):
    """Return the result for ads of one collector."""
    records = [{"name": repr(ad.get("Name")), "ad": ad} for ad in ads]
    return build({"central:9619": records}, dict(filters(), **given), DEFAULTS)


def only(*ads, **given):
    """Return (name, variables, groups) of the only host, without warnings."""
    result = built(*ads, **given)
    assert result["warnings"] == []
    ((name, host),) = result["hosts"].items()
    return name, host["variables"], host["groups"]


def entry_of(**attributes):
    """Return the only entry of a CE with this item, changed by the attributes; None removes one."""
    item = {name: value for name, value in dict(ITEM, **attributes).items() if value is not None}
    (entry,) = only(dict(CE, OSG_ResourceCatalog=[item]))[1]["glidein_entries"].values()
    return entry


def test_a_ce_is_a_host_with_its_address_its_groups_and_an_entry():
    name, variables, groups = only(CE)
    assert name == "ce1.example.org"
    assert variables == {
        "glidein_scheduler": "htcondor_ce",
        "glidein_ce": "ce1.example.org:9619",
        "glidein_entries": {
            "sc1": {"walltime": "48h", "node": _size(8, 16000)},
        },
        "ce_resource": "EXAMPLE-CE1",
        "ce_resource_group": "EXAMPLE",
        "ce_batch_systems": ["slurm"],
        "ce_allowed_vos": ["icecube", "osg"],
        "ce_collector": "central:9619",
        "ce_version": "25.0.1",
    }
    assert groups == ["glidein_sites", "ce_catalogue", "ce_group_EXAMPLE", "ce_batch_slurm"]


@pytest.mark.parametrize(
    ("target", "host", "ce", "options"),
    [
        ("ce@ ce:9619", "ce", "ce:9619", {"schedd": "ce@"}),
        ("ce1.example.org ce1.example.org:9620", "ce1.example.org-9620", "ce1.example.org:9620", None),
    ],
    ids=["the schedd has another name than its host", "another port is part of the host's name"],
)
def test_a_ce_has_the_address_of_its_ad(target, host, ce, options):
    name, variables, _groups = only(dict(CE, grid_resource=f"condor {target}"))
    assert (name, variables["glidein_ce"], variables.get("glidein_scheduler_options")) == (host, ce, options)


def test_names_of_groups_have_only_letters_digits_and_underscores():
    groups = only(dict(CE, OSG_ResourceGroup="UC San-Diego", OSG_BatchSystems="Condor, SLURM"))[2]
    assert groups[2:] == ["ce_group_UC_San_Diego", "ce_batch_htcondor", "ce_batch_slurm"]


@pytest.mark.parametrize(
    ("routed", "options"),
    [(True, {"routes": True}), (False, {"batch_system": "slurm"}), (None, {"batch_system": "slurm"})],
)
def test_a_gateway_is_a_host_with_its_options(routed, options):
    name, variables, _groups = only(dict(GATEWAY, GatewayRouted=routed))
    assert name == "gateway-lab"
    assert variables["glidein_scheduler"] == "gateway"
    shared = {"gateway": "gateway-lab@", "collector": "cm.example.org:9618"}
    assert variables["glidein_scheduler_options"] == dict(shared, **options)
    assert "glidein_ce" not in variables


# --- entries


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"MaxWallTime": None}, {"walltime": "24h"}),
        ({"MaxWallTime": 0}, {"walltime": "24h"}),
        ({"Transform": {"set_BatchQueue": "cpu"}}, {"queue": "cpu"}),
        (
            {"CPUs": None, "WholeNode": True, "EstimatedCPUs": 16},
            {"shapes": {"pilot": dict(_size(16, 16000), whole_node=True)}},
        ),
        (
            {"Transform": {"set_VOTag": "cpu", "set_Sharing": True, "set_BatchProject": "abc"}},
            {"directives": ["+sharing = true", '+votag = "cpu"'], "account": "abc"},
        ),
    ],
)
def test_an_entry_has_what_its_item_says(attributes, expected):
    entry = entry_of(**attributes)
    assert {name: entry[name] for name in expected} == expected


def test_an_item_that_sets_the_size_is_a_single_shape_whose_pilot_has_that_size():
    entry = entry_of(Transform={"set_xcount": 1, "set_maxMemory": 2000, "set_queue": "cpu"})
    # 68 MB are the glidein's own.
    assert entry["shapes"] == {"pilot": _size(1, 1932)}
    assert entry["queue"] == "cpu"
    site = normalise_site("glidein", "site", {"sc1": entry})
    assert site["entries"]["sc1"]["shapes"]["pilot"]["asked_memory_mb"] == 2000


def test_items_for_pilots_replace_the_others_and_have_their_size():
    pilot = {"Name": "Main pilot", "IsPilotEntry": True, "CPUs": 4, "Memory": 8000, "GPUs": 2, "MaxPilots": 50}
    variables = only(dict(CE, OSG_ResourceCatalog=[ITEM, dict(pilot, Queue="gpu")]))[1]
    assert variables["glidein_entries"] == {
        "Main-pilot": {
            "walltime": "24h",
            "queue": "gpu",
            "accept": {"gpus": {"min": 1}},
            "limits": {"total": 50},
            "shapes": {"pilot": dict(_size(4, 7920), gpus=2)},
        }
    }
    assert variables["ce_allowed_vos"] == []


@pytest.mark.parametrize(
    ("estimated", "size", "gaps"),
    [
        (
            {"EstimatedCPUs": 48},
            {"cpus": 48, "memory_mb": 96000},
            ["Memory: missing; 96000 MB are assumed (2000 for each CPU)"],
        ),
        (
            {},
            {"cpus": 1, "memory_mb": 2000},
            ["CPUs: missing; 1 is assumed", "Memory: missing; 2000 MB are assumed (2000 for each CPU)"],
        ),
    ],
)
def test_a_whole_node_pilot_without_its_size_is_an_entry_with_a_gap(estimated, size, gaps):
    item = {"Name": "pilot", "IsPilotEntry": True, "WholeNode": True, **estimated}
    result = built(dict(CE, OSG_ResourceCatalog=[item]))
    entry = result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]["pilot"]
    assert {name: entry["shapes"]["pilot"][name] for name in ("cpus", "memory_mb", "whole_node")} == dict(
        size, whole_node=True
    )
    assert result["warnings"] == [f"central:9619: the ad 'ce1.example.org': pilot: {gap}" for gap in gaps]


def test_names_of_attributes_are_in_any_case_and_whole_numbers_may_have_a_fraction_of_zero():
    item = {"name": "a", "Cpus": 2, "MEMORY": 4000.0, "maxwalltime": 60, "transform": {"SET_Remote_Queue": "long"}}
    entries = only(dict(CE, OSG_ResourceCatalog=[item]))[1]["glidein_entries"]
    assert entries == {"a": {"walltime": "1h", "queue": "long", "node": _size(2, 4000)}}


def test_an_item_without_a_name_is_named_by_its_size():
    items = [{"CPUs": 8, "Memory": 65536}, {"CPUs": 8, "Memory": 65536, "GPUs": 1}]
    assert set(only(dict(CE, OSG_ResourceCatalog=items))[1]["glidein_entries"]) == {"8c-65536m", "8c-65536m-1g"}


def test_an_expression_of_transform_is_named_and_not_set():
    item = dict(ITEM, Transform={"set_VOTag": None, "copy_a": "b", "set_x": 'a"b'})
    result = built(dict(CE, OSG_ResourceCatalog=[item]))
    assert "directives" not in result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]["sc1"]
    where = "central:9619: the ad 'ce1.example.org'"
    assert result["warnings"] == [f"{where}: sc1: Transform: glideins do not set copy_a, set_votag, set_x"]


def test_vos_in_use_have_quotes_and_capitals():
    variables = only(dict(CE, OSG_ResourceCatalog=[dict(ITEM, AllowedVOs=['"OSG"', "/cms"])]))[1]
    assert variables["ce_allowed_vos"] == ["/cms", "osg"]


# --- several ads


def test_the_newest_ad_of_a_ce_is_used_also_if_its_schedd_was_renamed():
    old = dict(CE, LastHeardFrom=10, OSG_Resource="OLD")
    new = dict(CE, LastHeardFrom=20, OSG_Resource="NEW", grid_resource="condor ce1@ ce1.example.org:9619")
    for ads in ((old, new), (new, old)):
        assert only(*ads)[1]["ce_resource"] == "NEW"


def test_a_ce_of_two_collectors_is_one_host_and_hosts_are_in_the_order_of_their_names():
    records = [{"name": "'ce'", "ad": CE}]
    more = [{"name": "'ce'", "ad": dict(CE, grid_resource=f"condor {name} {name}")} for name in ("b", "a")]
    result = build({"one:9619": records, "two:9619": records + more}, filters(), DEFAULTS)
    assert list(result["hosts"]) == ["a", "b", "ce1.example.org"]
    assert result["hosts"]["ce1.example.org"]["variables"]["ce_collector"] == "one:9619"


def test_a_ce_with_the_name_of_a_gateway_does_not_replace_it():
    fake = dict(CE, Name="fake", grid_resource="condor gateway-lab gateway-lab")
    result = built(GATEWAY, fake)
    assert result["hosts"]["gateway-lab"]["variables"]["glidein_scheduler"] == "gateway"
    assert result["warnings"] == [
        "central:9619: the ad 'fake': another ad has the host gateway-lab already; the ad is skipped"
    ]


# --- filters


@pytest.mark.parametrize(
    ("name", "fitting", "other"),
    [
        ("vo", "IceCube", "cms"),
        ("batch_systems", ["SLURM"], ["htcondor"]),
        ("resources", ["EXAMPLE-CE1"], ["EXAMPLE"]),
        ("resource_groups", ["EXAMPLE"], ["OTHER"]),
        ("min_cpus", 8, 9),
        ("min_memory_mb", 16000, 16001),
        ("min_walltime_s", 172800, 172801),
    ],
)
def test_filters(name, fitting, other):
    assert only(CE, **{name: fitting})
    assert built(CE, **{name: other}) == {"hosts": {}, "warnings": []}


def test_entries_without_vos_or_walltime_fit_every_filter():
    item = {"CPUs": 8, "Memory": 16000}
    assert only(dict(CE, OSG_ResourceCatalog=[item]), vo="cms", min_walltime_s=10**7)[0] == "ce1.example.org"


def test_only_the_fitting_entries_remain():
    items = [ITEM, dict(ITEM, Name="small", CPUs=1)]
    assert list(only(dict(CE, OSG_ResourceCatalog=items), min_cpus=8)[1]["glidein_entries"]) == ["sc1"]


def test_pilots_without_names_and_sizes_are_two_entries_that_every_filter_of_sizes_lets_pass():
    items = [{"IsPilotEntry": True, "WholeNode": True, "Queue": queue} for queue in ("a", "b")]
    result = built(dict(CE, OSG_ResourceCatalog=items), min_cpus=8, min_memory_mb=64000)
    (host,) = result["hosts"].values()
    entries = host["variables"]["glidein_entries"]
    assert {name: entry["queue"] for name, entry in entries.items()} == {"whole-node": "a", "whole-node-2": "b"}


# --- invalid ads


@pytest.mark.parametrize(
    ("attribute", "value", "error"),
    [
        ("grid_resource", None, "grid_resource: missing; expected condor SCHEDD HOST:PORT"),
        ("grid_resource", "batch slurm", "grid_resource: 'batch slurm' is invalid; expected condor SCHEDD HOST:PORT"),
        ("grid_resource", "condor ce ce:9619\nx", "grid_resource: 'condor ce ce:9619\\nx' is invalid; expected "),
        ("grid_resource", "condor ce ce:99999", "grid_resource: 'ce:99999' is invalid; expected a port of at most "),
        ("grid_resource", "condor localhost localhost", "grid_resource: 'localhost' is invalid; expected a host's "),
        ("grid_resource", "condor 10.0.0.1 10.0.0.1", "grid_resource: '10.0.0.1' is invalid; expected a host's name"),
        ("OSG_ResourceCatalog", {"CPUs": 1}, "OSG_ResourceCatalog: {'CPUs': 1} is invalid; expected a list of ads"),
        ("OSG_ResourceCatalog", [], "OSG_ResourceCatalog: [] is invalid; expected a list of ads"),
        ("is_glidein", True, "grid_resource: 'ce1.example.org' is invalid; expected the gateway of GLIDEIN_Site"),
        ("AuthenticatedIdentity", "gateway-a@cm", "AuthenticatedIdentity: 'gateway-a' is invalid; expected the gatewa"),
        (
            "gateway",
            {"AuthenticatedIdentity": "gateway-evil@cm"},
            "AuthenticatedIdentity: 'gateway-evil' is inv",
        ),
        ("gateway", {"OSG_BatchSystems": ""}, "OSG_BatchSystems: '' is invalid; expected names of batch systems"),
    ],
)
def test_an_invalid_ad_is_skipped_and_named(attribute, value, error):
    other = dict(CE, grid_resource="condor ce2.example.org ce2.example.org:9619")
    ad = {**GATEWAY, **value} if attribute == "gateway" else dict(CE, **{attribute: value})
    result = built(ad, other)
    assert list(result["hosts"]) == ["ce2.example.org"]
    (warning,) = result["warnings"]
    assert warning.startswith(f"central:9619: the ad {ad['Name']!r}: {error}")
    assert warning.endswith("; the ad is skipped")


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (7, "item: 7 is invalid; expected an ad"),
        (None, "item: None is invalid; expected an ad"),
        (
            dict(ITEM, Transform={"set_Owner": "root"}),
            "glidein_entries.sc1.directives[0]: '+owner = \"root\"' is invalid",
        ),
        (dict(ITEM, IsPilotEntry=True, Memory=50), "glidein_entries.sc1.shapes.pilot.memory_mb: -46 is invalid"),
    ],
)
def test_an_invalid_item_is_skipped_and_named(item, error):
    result = built(dict(CE, OSG_ResourceCatalog=[item, dict(ITEM, Name="good")]))
    assert list(result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]) == ["good"]
    (warning,) = result["warnings"]
    assert warning.startswith(f"central:9619: the ad 'ce1.example.org': item 1 of the catalogue: {error}")
    assert warning.endswith("; the item is skipped")


@pytest.mark.parametrize(
    ("attribute", "value", "gap"),
    [
        ("OSG_Resource", None, "OSG_Resource: missing; expected "),
        ("OSG_Resource", "{{7*7}}", "OSG_Resource: '{{7*7}}' is invalid; expected "),
        ("OSG_ResourceGroup", "", "OSG_ResourceGroup: '' is invalid; expected "),
        ("OSG_ResourceGroup", 7, "OSG_ResourceGroup: 7 is invalid; expected "),
        ("OSG_BatchSystems", "slurm;id", "OSG_BatchSystems: 'slurm;id' is invalid; expected "),
        ("OSG_BatchSystems", "", "OSG_BatchSystems: '' is invalid; expected "),
        ("LastHeardFrom", "x", "LastHeardFrom: 'x' is invalid; expected a whole number"),
    ],
)
def test_an_attribute_that_only_describes_a_ce_is_optional(attribute, value, gap):
    result = built(dict(CE, **{attribute: value}))
    assert list(result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]) == ["sc1"]
    assert all(_PLAIN.match(text) for text in texts(result["hosts"]))
    (warning,) = result["warnings"]
    assert warning.startswith(f"central:9619: the ad 'ce1.example.org': {gap}")
    assert warning.endswith("; it is ignored")


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        ({"CPUs": 0}, "CPUs: 0 is invalid"),
        ({"CPUs": True}, "CPUs: True is invalid"),
        ({"CPUs": "8"}, "CPUs: '8' is invalid"),
        ({"CPUs": 10**30}, "CPUs: 1" + "0" * 30 + " is invalid"),
        ({"Memory": float("nan")}, "Memory: nan is invalid"),
        ({"Memory": float("inf")}, "Memory: inf is invalid"),
        ({"Memory": 1.5}, "Memory: 1.5 is invalid"),
        ({"MaxWallTime": -1}, "MaxWallTime: -1 is invalid"),
        ({"GPUs": 10**6}, "GPUs: 1000000 is invalid"),
        ({"MaxPilots": 0}, "MaxPilots: 0 is invalid"),
        ({"WholeNode": "no"}, "WholeNode: 'no' is invalid; expected true or false"),
        ({"AllowedVOs": ["{{7*7}}"]}, "AllowedVOs: ['{{7*7}}'] is invalid"),
        ({"AllowedVOs": 7}, "AllowedVOs: 7 is invalid"),
        ({"Transform": [1]}, "Transform: [1] is invalid; expected an ad"),
        ({"Transform": {"set_xcount": 9}}, "set_xcount: 9 is invalid; expected a whole number from 1 to 8"),
        ({"Transform": {"set_queue": "a b"}}, "queue: 'a b' is invalid"),
        ({"Transform": {"set_queue": ""}}, "queue: '' is invalid"),
        ({"Queue": {"a": 1}}, "queue: {'a': 1} is invalid"),
    ],
)
def test_an_invalid_attribute_of_an_item_is_a_gap_of_its_entry(change, gap):
    result = built(dict(CE, OSG_ResourceCatalog=[dict(ITEM, **change)]))
    assert list(result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]) == ["sc1"]
    assert result["warnings"][0].startswith(f"central:9619: the ad 'ce1.example.org': sc1: {gap}")
    assert result["warnings"][0].endswith("; it is ignored")


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != " "] + ["a/b", ".a", 7])
def test_an_item_with_an_invalid_name_is_named_by_its_size(name):
    result = built(dict(CE, OSG_ResourceCatalog=[dict(ITEM, Name=name)]))
    entries = result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]
    assert list(entries) == [f"8c-{ITEM['Memory']}m"]
    (warning,) = result["warnings"]
    assert f": 8c-{ITEM['Memory']}m: Name: " in warning


def test_the_second_item_of_a_name_is_skipped_and_named():
    result = built(dict(CE, OSG_ResourceCatalog=[ITEM, dict(ITEM, CPUs=1)]))
    assert result["hosts"]["ce1.example.org"]["variables"]["glidein_entries"]["sc1"]["node"]["cpus"] == 8
    assert result["warnings"] == [
        "central:9619: the ad 'ce1.example.org': two items of the catalogue have the name sc1; one is skipped"
    ]


def test_an_ad_that_could_not_be_read_is_named():
    record = {"name": "'a'", "error": "it has text that is not UTF-8\x1b"}
    result = build({"central:9619": [record]}, filters(), DEFAULTS)
    assert result["warnings"] == ["central:9619: the ad 'a': it has text that is not UTF-8?; the ad is skipped"]


# --- hostile ads

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(HOSTILE)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
_ITEM_KEYS = ("IsPilotEntry", "WholeNode", "EstimatedCPUs", "GPUs", "MaxPilots", "Queue", *ITEM)
_TRANSFORM_KEYS = ("set_xcount", "set_maxMemory", "set_maxWallTime", "set_queue", "set_BatchProject", "set_X", "copy_X")
_TRANSFORMS = st.dictionaries(st.one_of(st.sampled_from(_TRANSFORM_KEYS), st.text(max_size=8)), _VALUES, max_size=4)
_ITEMS = st.dictionaries(st.sampled_from(_ITEM_KEYS), st.one_of(_VALUES, _TRANSFORMS), max_size=3)
_PLAIN = re.compile(r"^[A-Za-z0-9_ .:@/,+=\"-]*\Z")


def texts(value):
    """Yield all texts of a value, with the keys of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


@given(
    changes=st.dictionaries(st.sampled_from([*CE, "is_glidein", "GLIDEIN_Site"]), _VALUES, max_size=2),
    items=st.lists(_ITEMS, max_size=3),
    ad=st.sampled_from([CE, GATEWAY]),
)
def test_any_ad_is_valid_plain_data_or_is_skipped(changes, items, ad):
    catalogue = [dict(ITEM, **item) for item in items]
    changed = dict(ad, OSG_ResourceCatalog=[*catalogue, *ad["OSG_ResourceCatalog"]])
    changed.update(changes)
    result = built(changed)
    for host in result["hosts"].values():
        normalise_site("glidein", "site", host["variables"]["glidein_entries"])
        assert all(_PLAIN.match(text) for text in texts(host))
    assert all(warning.isprintable() for warning in result["warnings"])
