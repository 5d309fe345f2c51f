# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import json
import re
from pathlib import Path

import msgspec
import pytest
from glidein_demand import config

from conftest import settings


def test_an_empty_file_gives_the_documented_defaults():
    readme = (Path(__file__).parents[2] / "files/demand_server/README.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| ([a-z]+\.[a-z_]+) \| `?([^`|]+?)`? \|", readme, re.MULTILINE))
    defaults = {
        f"{section}.{name}": value
        for section, values in json.loads(msgspec.json.encode(settings())).items()
        for name, value in values.items()
    }
    assert {name: json.loads(value) for name, value in documented.items()} == defaults


def test_without_the_default_file_every_setting_has_its_default(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "DEFAULT_CONFIG", str(tmp_path / "config.toml"))
    assert config.load(None) == settings()
    with pytest.raises(config.ConfigError, match="config.toml: cannot be read: No such file"):
        config.load(tmp_path / "config.toml")


def test_text_of_a_template_counts_as_a_number():
    made = settings(server={"port": "11003"}).server
    assert made.port == 11003


def test_a_reading_is_stale_after_three_missed_refreshes_but_not_within_a_minute():
    assert settings(pool={"refresh_seconds": 300}).max_age_seconds == 900
    assert settings(pool={"refresh_seconds": 5}).max_age_seconds == 60


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"server": {"port": 70000}}, ["server.port = 70000", "`int` <= 65535"]),
        ({"server": {"port": "a"}}, ["server.port = 'a'", "Expected `int`"]),
        ({"server": {"port": True}}, ["server.port = True", "Expected `int`"]),
        ({"server": {"threads": 0}}, ["server.threads = 0", "`int` >= 1"]),
        ({"server": {"prot": 1}}, ["server.prot", "unknown setting", "did you mean server.port?"]),
        ({"server": 3}, ["server = 3", "[server]"]),
        ({"sever": {}}, ["sever", "unknown section", "did you mean server?"]),
        ({"pool": {"schedds": "cm"}}, ["pool.schedds = 'cm'", "list of schedd names"]),
        ({"pool": {"schedds": ["a b"]}}, ["pool.schedds", "list of schedd names"]),
        ({"pool": {"refresh_seconds": 301}}, ["pool.refresh_seconds = 301", "`int` <= 300"]),
        ({"pool": {"attributes": ["a-b"]}}, ["pool.attributes", "ClassAd attribute names"]),
        ({"pool": {"vo": "a b"}}, ["pool.vo = 'a b'", "name of a VO"]),
        ({"pool": {"token_vos": {"https://a/": ""}}}, ["pool.token_vos", "table of {issuer of tokens = name of a VO}"]),
        ({"pool": {"token_vos": ["cms"]}}, ["pool.token_vos = ['cms']", "table of"]),
        ({"state": {"keep_history_days": 7.5}}, ["state.keep_history_days = 7.5", "Expected `int`"]),
        ({"pool": {"constraint": "a\nb"}}, ["pool.constraint", "ClassAd expression"]),
        ({"metrics": {"graphite_server": "graphite:2003"}}, ["name or address of a host"]),
        ({"metrics": {"graphite_server": "http://graphite"}}, ["name or address of a host"]),
        ({"metrics": {"graphite_server": 2003}}, ["name or address of a host"]),
        ({"metrics": {"graphite_port": 0}}, [">= 1"]),
        *(({"metrics": {"graphite_prefix": prefix}}, ["separated by dots"]) for prefix in ("", "a..b", "a b", "a\n")),
    ],
)
def test_an_error_names_setting_value_and_allowed_values_in_one_line(data, words):
    with pytest.raises(config.ConfigError) as caught:
        config.parse(data)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("host", ["graphite", "graphite.example.org", "127.0.0.1", "2001:db8::1", "::1"])
def test_the_graphite_server_is_a_host(host):
    assert settings(metrics={"graphite_server": host}).metrics.graphite_server == host


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path):
    with pytest.raises(config.ConfigError, match="missing.toml: cannot be read: No such file"):
        config.load(tmp_path / "missing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[server\n")
    with pytest.raises(config.ConfigError, match="broken.toml: not a TOML file"):
        config.load(broken)
