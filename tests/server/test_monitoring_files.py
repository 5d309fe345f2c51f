# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of files/monitoring: the dashboard and alert rules use the server's metrics, and Prometheus accepts them."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import jinja2
import msgspec
import pytest
import yaml
from glidein_demand import config
from glidein_demand.pool.schedds import Starts
from prometheus_client.parser import text_string_to_metric_families
from werkzeug.serving import make_server

from conftest import TOKEN, Service, ended_glidein, group, reported_entry, site_report, summaries_of
from running import fetch, free_port

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "files/monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
GROUPS = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"]
RULES = [rule for each in GROUPS for rule in each["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")

# Labels and metrics that Prometheus itself adds for a target.
OF_PROMETHEUS = {"up": set()}
TARGET_LABELS = {"instance", "job"}
WORDS = {
    "absent", "and", "avg", "by", "count", "delta", "group_left", "ignoring", "increase", "last_over_time", "max",
    "min", "min_over_time", "on", "or", "rate", "sum", "time", "unless",
}  # fmt: skip

TOOLS = {
    name: shutil.which(name, path=f"{ROOT}/.build/prometheus/usr/bin:{os.environ.get('PATH', os.defpath)}")
    for name in ("prometheus", "promtool")
}
needs_prometheus = pytest.mark.skipif(
    None in TOOLS.values(),
    reason="needs prometheus and promtool in PATH or .build/prometheus: apt-get install prometheus",
)


@pytest.fixture(scope="module")
def full_service(tmp_path_factory):
    """Return a service with a value of every metric."""
    url = f"sqlite:///{tmp_path_factory.mktemp('metrics')}/state.db"
    service = Service(url=url, metrics={"graphite_server": "127.0.0.1"})
    fill(service)
    yield service
    service.close()


def fill(service):
    now = service.now
    service.read(group(5), group(7, memory_mb=4096))
    entry = reported_entry(credential_expires=now + 86400, running_glideins=[{"id": "1", "wait_s": 60}])
    glidein = ended_glidein(started=now - 90, registered=now - 80, ended=now - 9)
    report = site_report(as_of=now, entries=[entry], summaries=summaries_of(glidein, until=now))
    service.result("report", report, TOKEN)
    wanted = service.result("get_demand", {}, TOKEN)["groups"][0]["id"]
    service.result("lease", {"site": "PSC", "entries": {"RM": {wanted: 3}}}, TOKEN)
    row = {"site": "PSC", "entry": "RM", "shape": "node", "registered": 2, "cpus": 56, "cpus_claimed": 28}
    service.server.pool_state.store_supply(
        {"entries": [{**row, "free": [], "passed_over": []}], "others": 1, "others_free": [], "others_cpus": 8,
         "others_cpus_claimed": 4, "problems": []},
        now,
    )  # fmt: skip
    for at in (now - 60, now):
        report = site_report(as_of=at, entries=[reported_entry(cpus=28, running_since=None)])
        service.server.core_hours.reported(report, at)
        service.server.core_hours.jobs_seen([["PSC", "RM", "node", "alice@pool", "", "", 28]], at)
    service.server.pool_state.store_starts(Starts(now, 4, 780))


def families(service):
    return list(text_string_to_metric_families(service.get("/metrics").text))


def exposed(service):
    """Return {name of a series: its labels}, as Prometheus would read it."""
    found = {}
    for family in families(service):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def used(expression):
    """Return (names of metrics, names of labels) in a PromQL expression. Unknown identifiers count as metrics."""
    rest = re.sub(r"\$\{?\w+\}?", "X", expression)
    names, labels = set(), set()
    for braces in re.findall(r"\{([^}]*)\}", rest):
        for label, value in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"([^\"]*)\"", braces):
            if label == "__name__":
                names.update(value.split("|"))
            else:
                labels.add(label)
    rest = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", rest)
    for listed in re.findall(r"\b(?:by|on|ignoring|without|group_left)\s*\(([^)]*)\)", rest):
        labels.update(listed.replace(",", " ").split())
    rest = re.sub(r"\b(by|on|ignoring|without|group_left)\s*\([^)]*\)", " ", rest)
    names.update(set(re.findall(r"[A-Za-z_:]\w*", rest)) - WORDS)
    return names, labels


def test_every_metric_has_a_help_text(full_service):
    found = families(full_service)
    assert len(found) > 30
    assert [family.name for family in found if not family.documentation.strip()] == []


def test_every_metric_is_in_the_documentation(full_service):
    text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    short = set(re.findall(r"`(?:glidein_(?:demand|site))?(_\w+?)`", re.sub(r"\{[^}`]*\}", "", text)))
    names = set(re.findall(r"glidein_\w+", text))
    suffixes = {re.sub("^glidein_(demand|site)", "", name) for name in names} | short
    own = [name for name in exposed(full_service) if name.startswith("glidein_")]
    assert [name for name in own if re.sub("^glidein_(demand|site)", "", name) not in suffixes] == []


@pytest.mark.parametrize("expression", [*QUERIES, *(rule["expr"] for rule in RULES)])
def test_metrics_and_labels_of_queries_and_rules_exist(expression, all_exposed):
    names, labels = used(expression)
    assert names
    assert sorted(names - set(all_exposed)) == []
    known = TARGET_LABELS.union(*(all_exposed[name] for name in names))
    assert sorted(labels - known) == []


@pytest.fixture(scope="module")
def all_exposed(full_service):
    return {**exposed(full_service), **OF_PROMETHEUS}


def test_the_check_finds_unknown_metrics_and_labels():
    assert used('sum by (site) (rate(glidein_x_total{entry=~"$entry"}[5m])) > 0 unless nonsense') == (
        {"glidein_x_total", "nonsense"},
        {"site", "entry"},
    )


def test_variables_of_the_dashboard_exist(all_exposed):
    assert list(VARIABLES) == ["datasource", "instance", "site", "entry"]
    assert VARIABLES["datasource"]["type"] == "datasource"
    for variable in list(VARIABLES.values())[1:]:
        expression, label = LABEL_VALUES.fullmatch(variable["query"]["query"]).groups()
        names, labels = used(expression)
        assert names <= set(all_exposed)
        assert {label, *labels} <= TARGET_LABELS.union(*(all_exposed[name] for name in names))
    known = {*VARIABLES, *(f"{{{name}}}" for name in VARIABLES)}
    assert set(re.findall(r"\$(\{?[a-z]\w*\}?)", json.dumps(DASHBOARD))) <= known


def test_the_dashboard_can_be_provisioned():
    assert "__inputs" not in DASHBOARD
    assert DASHBOARD["uid"]
    assert "id" not in DASHBOARD
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert titles == [
        "Demand", "Glideins by site, entry and state", "Waiting time", "Failures and held glideins", "Leases",
        "Age of demand, reports and tokens", "Server",
    ]  # fmt: skip
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert panel["description"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_panels_do_not_overlap():
    taken = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_summary_a_remedy_and_a_section_of_the_documentation(rule):
    page = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    repository = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert len(notes["summary"]) < 90
    assert notes["runbook_url"] == f"{repository}/blob/main/docs/monitoring.md#{rule['alert'].lower()}"
    assert f"\n### {rule['alert']}\n" in page


def test_playbooks_of_the_alerts_exist():
    playbooks = set(re.findall(r"glidein\.ops\.(\w+)", json.dumps(RULES)))
    assert playbooks
    assert [name for name in sorted(playbooks) if not (ROOT / f"playbooks/{name}.yml").is_file()] == []


def test_every_alert_fires_in_a_test_of_the_rules():
    tests = (Path(__file__).parent / "data/alerts_test.yml").read_text(encoding="utf-8")
    assert {rule["alert"] for rule in RULES} == set(re.findall(r'alertname="(\w+)"', tests))


@pytest.mark.services
@needs_prometheus
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", str(MONITORING / "prometheus.yml")],
        ["test", "rules", str(Path(__file__).parent / "data/alerts_test.yml")],
    ],
    ids=["check config", "test rules"],
)
def test_promtool_accepts(arguments):
    result = subprocess.run([TOOLS["promtool"], *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.services
@needs_prometheus
def test_promtool_finds_no_fault_in_the_metrics(full_service):
    text = full_service.get("/metrics").text
    command = [TOOLS["promtool"], "check", "metrics"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")


class Prometheus:
    """A Prometheus with the rules that scrapes a service every second."""

    def __init__(self, folder, service):
        self.port, self.folder = free_port(), folder
        self._web = make_server("127.0.0.1", 0, service.app, threaded=True)
        for name in ("prometheus.yml", "alerts.yml"):
            shutil.copy(MONITORING / name, folder)
        own = folder / "prometheus.yml"
        text = own.read_text(encoding="utf-8").replace("60s", "1s")
        own.write_text(text.replace("cm.example.org:11001", f"127.0.0.1:{self._web.port}"), encoding="utf-8")

    def __enter__(self):
        threading.Thread(target=self._web.serve_forever, daemon=True).start()
        command = [
            TOOLS["prometheus"],
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_error):
        self._process.kill()
        self._process.wait(60)
        self._web.shutdown()

    def ask(self, path, **parameters):
        status, text = fetch(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        assert status == 200, text
        return json.loads(text)["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def wait_for(self, expression):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, AssertionError):
                if self.query(expression):
                    return
            time.sleep(0.2)
        raise AssertionError(f"{expression} had no value for 60 s\n{(self.folder / 'log').read_text()[-2000:]}")


@pytest.mark.services
@needs_prometheus
def test_a_real_prometheus_evaluates_all_queries_and_rules(new_service, tmp_path):
    service = new_service(metrics={"graphite_server": "127.0.0.1"})
    service.now = int(time.time())
    fill(service)
    with Prometheus(tmp_path, service) as prometheus:
        prometheus.wait_for("count_over_time(glidein_demand_idle_jobs[1m]) > 2")
        empty = []
        for expression in QUERIES:
            asked = re.sub(r"\$\w+", ".*", expression)
            if not prometheus.query(asked) and not asked.endswith("> 0"):
                empty.append(asked)
        assert empty == []
        rules = [rule for each in prometheus.ask("rules")["groups"] for rule in each["rules"]]
        assert len(rules) == len(RULES)
        assert [rule for rule in rules if rule["health"] != "ok"] == []
        states = {rule["name"]: rule["state"] for rule in rules}
        assert states["GlideinDemandServerDown"] == "inactive"
        assert states["GlideinTokenExpires"] == "firing"


def test_the_roles_template_makes_settings_of_a_dictionary():
    role = ROOT / "roles/demand_server"
    environment = jinja2.Environment(autoescape=False)  # noqa: S701 - a TOML file
    environment.filters.update(bool=bool, to_json=json.dumps)
    template = environment.from_string((role / "templates/config.toml.j2").read_text(encoding="utf-8"))
    given = {
        "server": {"bind": "*", "port": 11002},
        "pool": {"schedds": ["a", "b"], "vo": None, "token_vos": {"https://one.example/": "cms", "https://two/": "x"}},
    }
    made = msgspec.toml.decode(template.render(__demand_server_all_settings=given))
    assert made == {**given, "pool": {**given["pool"], "vo": ""}}
    config.parse(made)
    wrong = msgspec.toml.decode(template.render(__demand_server_all_settings={"pool": "cm"}))
    with pytest.raises(config.ConfigError, match="pool = 'cm': must be a section"):
        config.parse(wrong)
