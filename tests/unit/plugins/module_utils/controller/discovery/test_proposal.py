# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of host_vars/HOST.yml as text, and properties of every proposal. GLIDEIN_WRITE_GOLDEN=1 writes the files."""

import os
import pathlib

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import CLUSTERS, scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import (
    Proposal,
    discovery_summary,
    host_vars_text,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.propose import propose
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.variables_file import VariablesFile
from ansible_collections.glidein.ops.tests.unit.support.facts import (
    MACHINES,
    account,
    environment,
    facts,
    group,
    limits,
    queue,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

yaml = pytest.importorskip("yaml", reason="the controller's Python has PyYAML, which ansible-core needs")

GOLDEN = pathlib.Path(__file__).with_name("golden")
HOST = "login.example.edu"

# -- golden files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
def test_the_file_of_a_machine(name):
    known = MACHINES[name]()
    text = host_vars_text(propose(known), known, HOST)
    path = GOLDEN / f"{name}.yml"
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_the_present_state_of_the_login_node_does_not_change_the_file():
    texts = set()
    for offset_s, free_mb, usable in ((0.1, 50000, 10), (300, 10, 7)):
        known = facts(
            queue("a", group(usable_nodes=usable)),
            environment=environment(clock_offset_s=offset_s, home_free_mb=free_mb),
        )
        texts.add(host_vars_text(propose(known), known, HOST))
    assert len(texts) == 1


def test_long_commands_have_a_line_each():
    commands = {
        name: [f"/opt/software/batch/system/slurm/24.11/bin/{name}"] for name in ("sbatch", "scancel", "squeue")
    }
    known = facts(commands=commands)
    text = host_vars_text(propose(known), known, HOST)
    assert "    sbatch: [/opt/software/batch/system/slurm/24.11/bin/sbatch]\n" in text
    assert yaml.safe_load(text)["glidein_scheduler_options"]["commands"] == commands


def test_the_lines_of_the_file_and_of_the_summary():
    argument = "format=" + ",".join(["account", "partition", "qos"] * 6)
    queues = [queue("a", *(group(cpus, memory_mb=15104) for cpus in range(1, 20))), *map(queue, ("-rf", "..", "=X"))]
    known = facts(*queues, gaps=[{"what": "accounts", "command": f"sacctmgr -nP {argument}", "error": "refused"}])
    proposal = propose(known)
    proposal.notes.append("The login node has " + "15104 MB, " * 50)
    texts = ["\n".join(discovery_summary(HOST, known, proposal, [], "x", [])), host_vars_text(proposal, known, HOST)]
    for text in texts:
        # An argument of a command is not broken, and a number and its unit are on one line.
        assert argument in text
        assert [line for line in text.splitlines() if line.lstrip(" #").startswith(("MB", "cores"))] == []
        assert "\u00a0" not in text
        # A reason is stated once for all queues.
        assert text.count("an entry cannot name it") == 1
    assert "-rf, .., =X: an entry cannot name it" in texts[1]


def probed_file(path):
    """Write the file of a probed machine; return (facts, the probe's reports, VariablesFile)."""
    known = MACHINES["slurm"]()
    seen = {
        "outbound": True,
        "scratch": [{"path": "/nvme", "variable": None, "free_mb": 71000}],
        "memory_mb": 23280,
        "cpus": 2,
        "limits_enforced": {"memory": False, "cpus": None},
        "os": "Debian GNU/Linux 13 (trixie), " + "a long name " * 20,
        "gpus": [],
        "cvmfs": ["icecube.opensciencegrid.org"],
        "attributes": {"Arch": "X86_64"},
        "error": None,
    }
    nodes = dict.fromkeys(["RM", "GPU", "RM-shared"], seen)
    path.write_text(host_vars_text(propose(known, nodes), known, HOST), encoding="utf-8")
    return known, nodes, VariablesFile(str(path))


def test_a_discovery_without_a_probe_keeps_earlier_measurements(tmp_path):
    known, _nodes, file = probed_file(tmp_path / "host.yml")
    assert file.shown() == file.content
    assert "probe: 2 cores, 23280 MB, the free disk;" in file.content
    proposal = propose(known, measured=file.measured())
    assert host_vars_text(proposal, known, HOST) == file.content
    assert proposal.entries["RM"]["shapes"]["node"]["cpus"] == 2
    assert proposal.variables["glidein_scratch"] == "/nvme"


def test_a_probe_replaces_earlier_measurements(tmp_path):
    known, nodes, file = probed_file(tmp_path / "host.yml")
    nodes = dict(nodes, RM=dict(nodes["RM"], cpus=3), GPU={"error": "not started"})
    proposal = propose(known, nodes, measured=file.measured())
    assert proposal.entries["RM"]["shapes"]["node"]["cpus"] == 3
    assert proposal.entries["GPU"]["shapes"]["gpu-v100"]["cpus"] <= 2


def test_a_value_without_the_comment_of_a_probe_is_proposed_anew(tmp_path):
    _known, _nodes, file = probed_file(tmp_path / "host.yml")
    content = file.content.replace("probe:", "by hand")
    (tmp_path / "host.yml").write_text(content, encoding="utf-8")
    assert VariablesFile(str(tmp_path / "host.yml")).measured() == {}


@pytest.mark.parametrize(
    "text", ["", "[", "- a", "glidein_entries: 3  # probe: x", "glidein_entries: {a: 3}", "a: &b *b"]
)
def test_a_file_of_another_form_has_no_measured_values(tmp_path, text):
    (tmp_path / "host.yml").write_text(text)
    assert VariablesFile(str(tmp_path / "host.yml")).measured() == {}


def test_a_variable_that_the_host_has_is_not_requested():
    known = MACHINES["slurm"]()
    asked = {todo.option for todo in propose(known).todo}
    assert "glidein_demand_token" in asked
    assert {todo.option for todo in propose(known, existing={"glidein_demand_token"}).todo} == asked - {
        "glidein_demand_token"
    }


def test_an_answered_question_about_an_entry_is_not_asked_again_and_keeps_its_answer(tmp_path):
    def proposed():
        file = VariablesFile(str(tmp_path / "host.yml"))
        return propose(known, answers=file.answers())

    accounts = [account("physics"), account("chemistry")]
    known = facts(queue("RM", accounts=["physics", "chemistry"], walltime_s=None), accounts=accounts)
    text = host_vars_text(propose(known), known, HOST)
    (tmp_path / "host.yml").write_text(text)
    options = {"glidein_entries.RM.account", "glidein_entries.RM.walltime"}
    assert options <= {todo.option for todo in proposed().todo}
    lines = [line.replace("# account: ", "account: ") for line in text.splitlines() if "TODO" not in line]
    answered = "\n".join(lines).replace("walltime: 24h", "walltime: 36h")
    (tmp_path / "host.yml").write_text(answered)
    again = proposed()
    assert options.isdisjoint({todo.option for todo in again.todo})
    assert (again.entries["RM"]["account"], again.entries["RM"]["walltime"]) == ("physics", "36h")
    # PBS lists no accounts, and the operator has named one without being asked.
    known = facts(queue("RM"), scheduler="pbspro")
    assert proposed().entries["RM"]["account"] == "physics"


# -- every proposal ------------------------------------------------------------------------------------------------

# Facts have many parts and take long to generate.
FEW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

TEXTS = st.text(max_size=40) | st.sampled_from(
    ["{{ lookup('pipe', 'id') }}", "a: b", "# x", "yes", "1e3", "null", "@x"]
)
NAMES = st.sampled_from(["RM", "long.q", "gpu", "a-b_c", "123", "12:30:00", "on", "debug", "x" * 70]) | TEXTS


def number(*few, most=10**7):
    return st.none() | st.sampled_from(few) | st.integers(0, most)


GROUPS = st.builds(
    group,
    cpus=number(1, 2, 64, most=1000),
    memory_mb=number(1000, 64000),
    nodes=number(0, 1, most=5000),
    usable_nodes=number(0, 1, most=5000),
    disk_mb=number(0, 1, 100),
    gpus=st.sampled_from([0, 0, 1, 4, 16]),
    gpu_type=st.none() | NAMES,
    features=st.lists(st.sampled_from(["EGRESS", "internet", "a b", "{{ x }}"]), max_size=2),
)
QUEUES = st.builds(
    lambda name, groups, **changes: queue(name, **{**changes, "node_groups": groups}),
    NAMES,
    st.lists(GROUPS, max_size=3),
    problems=st.sampled_from([[], [], [], ["State=DOWN"]]),
    default=st.booleans(),
    walltime_s=number(60, 3600, 86400, 172800),
    whole_nodes=st.sampled_from([False, True, None]),
    max_queued=number(0, 1, 5),
    max_running=number(0, 1, 5),
    max_cpus=number(0, 64),
    max_gpus=number(0, 4),
    max_cpus_per_job=number(0, 1, 8),
    max_nodes_per_job=number(0, 1, 5),
    max_memory_per_cpu_mb=number(1, 2000),
    accounts=st.none() | st.lists(st.sampled_from(["abc123", "b", "c d"]), max_size=3, unique=True),
    parallel_environments=st.lists(NAMES, max_size=2),
    sources=st.dictionaries(st.sampled_from(["walltime_s", "node_groups", "max_queued"]), TEXTS),
)
ENVIRONMENTS = st.builds(
    environment,
    home_network=st.none() | st.booleans(),
    home_free_mb=number(0),
    modules=st.none() | st.booleans(),
    containers=st.sampled_from([{}, {"apptainer": None}]),
    cvmfs=st.lists(NAMES, max_size=2),
    proxies=st.dictionaries(st.sampled_from(["https_proxy", "no_proxy", "GLIDEIN_X"]), TEXTS | st.just("http://p:1")),
    clock_offset_s=st.none() | st.floats(-1000, 1000),
    connections=st.lists(st.builds(lambda error: {"address": "cm:9618", "error": error}, TEXTS), max_size=2),
    scratch=st.lists(
        st.builds(
            lambda path, variable, network: {"path": path, "variable": variable, "free_mb": 1, "network": network},
            TEXTS,
            st.none() | st.sampled_from(["LOCAL", "TMPDIR", "a b"]),
            st.none() | st.booleans(),
        ),
        max_size=2,
    ),
)
FACTS = st.builds(
    lambda queues, **changes: facts(**{**changes, "queues": queues}),
    st.lists(QUEUES, max_size=4, unique_by=lambda each: each["name"]),
    scheduler=st.sampled_from(CLUSTERS),
    version=st.none() | TEXTS,
    cluster=st.none() | NAMES,
    user=NAMES,
    accounts=st.lists(
        st.builds(
            account,
            st.sampled_from(["abc123", "b", "c d"]),
            problem=st.sampled_from([None, "expired"]),
            max_queued=number(0, 3),
            max_running=number(0, 3),
        ),
        max_size=3,
        unique_by=lambda each: each["name"],
    ),
    limits=st.builds(
        limits,
        max_array=number(1, 3),
        max_queued=number(0, 7),
        max_running=number(0, 7),
        grace_s=number(10),
        memory_enforced=st.none() | st.booleans(),
        memory_unit=st.sampled_from([None, "MB"]),
    ),
    gpu_request=st.sampled_from([None, "gres", "gpu", "ngpus", "a b"]),
    environment=ENVIRONMENTS,
    gaps=st.lists(st.builds(lambda text: {"what": "x", "command": text, "error": text}, TEXTS), max_size=2),
)
REPORTS = st.dictionaries(
    st.sampled_from(["RM", "long.q", "gpu", "123"]),
    st.fixed_dictionaries(
        {
            "outbound": st.none() | st.booleans(),
            "scratch": st.lists(
                st.builds(
                    lambda path, free_mb: {"path": path, "free_mb": free_mb}, TEXTS | st.just("/l"), number(0, 1)
                ),
                max_size=2,
            ),
            "memory_mb": number(1),
            "cpus": number(1, most=100),
            "limits_enforced": st.sampled_from([{"memory": True, "cpus": None}, {"memory": False, "cpus": None}]),
            "os": st.none() | TEXTS,
            "gpus": st.lists(st.builds(lambda name: {"name": name, "memory_mb": None}, TEXTS), max_size=2),
            "cvmfs": st.lists(NAMES, max_size=2),
            "attributes": st.dictionaries(st.sampled_from(["Arch", "X"]), TEXTS),
            "error": st.none() | TEXTS,
        }
    ),
)


def test_a_mapping_that_is_too_long_for_a_line_has_a_line_for_each_key():
    proposal = Proposal()
    resources = {"parallel_environment": "x" * 70, "gpus": "y" * 40}
    proposal.set(("glidein_entries", "q"), {})
    proposal.set(("glidein_entries", "q", "resources"), resources)
    text = host_vars_text(proposal, facts(), HOST)
    assert yaml.safe_load(text) == {"glidein_entries": {"q": {"resources": resources}}}
    assert max(map(len, text.splitlines())) <= 120


@FEW
@given(FACTS, st.none() | REPORTS)
def test_every_file_is_valid_yaml_with_the_proposed_values(known, nodes):
    proposal = propose(known, nodes)
    text = host_vars_text(proposal, known, HOST)
    assert (yaml.safe_load(text) or {}) == proposal.variables
    assert max(map(len, text.splitlines())) <= 120
    # Ansible would evaluate a template in a value.
    assert "{{" not in str(proposal.variables) and "{%" not in str(proposal.variables)


@FEW
@given(FACTS, st.none() | REPORTS)
def test_every_entry_is_valid_or_has_a_question(known, nodes):
    kind = scheduler_class(known["scheduler"])
    proposal = propose(known, nodes)
    for name, entry in proposal.entries.items():
        asked = [todo.path for todo in proposal.todo]
        try:
            site = normalise_site("glidein", "site", {name: entry}, proposal.variables.get("glidein_limits"))
        except InputError as error:
            assert ("glidein_entries", name, "shapes") in asked, error
            assert all(f"{name}.shapes: missing" in problem for problem in error.problems)
        else:
            assert not kind.check_entry(site["entries"][name]) or ("glidein_entries", name) in asked


@FEW
@given(FACTS)
def test_no_shape_is_larger_than_a_node_and_no_limit_above_the_queues(known):
    queues = {each["name"]: each for each in known["queues"]}
    proposal = propose(known)
    for entry in proposal.entries.values():
        one = queues[entry.get("queue", "")]
        usable = [each for each in one["node_groups"] if each["usable_nodes"] != 0]
        for shape in _shapes(entry):
            assert any(
                shape["cpus"] <= each["cpus"]
                and shape["asked_memory_mb"] <= each["memory_mb"]
                and shape["gpus"] <= each["gpus"]
                for each in usable
                if each["cpus"] and each["memory_mb"]
            )
            assert one["max_cpus_per_job"] is None or shape["cpus"] <= one["max_cpus_per_job"]
        for key, ours in (("max_queued", "queued"), ("max_queued", "total"), ("max_running", "total")):
            assert one[key] is None or entry["limits"][ours] <= one[key]
        assert entry["limits"]["per_cycle"] <= entry["limits"]["queued"] <= entry["limits"]["total"]


def _shapes(entry):
    if not {"node", "shapes"} & set(entry):
        return []
    return normalise_site("glidein", "site", {"x": entry})["entries"]["x"]["shapes"].values()


@FEW
@given(FACTS)
def test_every_summary_has_at_most_100_columns(known):
    proposal = propose(known)
    lines = discovery_summary(HOST, known, proposal, ["RM: x " * 30], "host_vars/x was written.", ["cycle"])
    assert max(map(len, lines)) <= 100
    assert all(line.isprintable() for line in lines)


# -- the existing file ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, shown",
    [
        ("---\n# my password: hunter2\nglidein_scheduler: slurm\n", "---\n# (not shown)\nglidein_scheduler: slurm\n"),
        (
            "glidein_demand_token: secret\nvault_x: !vault |\n  $ANSIBLE_VAULT;1.1\nglidein_entries:\n  a: {b: c}\n",
            "glidein_demand_token: (not shown)\nvault_x: (not shown)\nglidein_entries:\n  a: {b: c}\n",
        ),
        (
            "\"glidein_demand_token\": secret\nglidein_environment:\n  'password': secret\n",
            "glidein_demand_token: (not shown)\nglidein_environment:\n# (not shown)\n",
        ),
        (
            "glidein_environment:\n  AWS_SECRET_ACCESS_KEY: abcd\n  API_KEY: |\n    xyz\n\n    xyz\n  TZ: UTC\n"
            '  https_proxy: "http://alice:pw/1@proxy:3128"\n'
            'glidein_scheduler_options:\n  commands: {squeue: [env, "SLURM_JWT=abc", squeue]}\n'
            "glidein_entries:\n  private: {queue: private}\n",
            "glidein_environment:\n# (not shown)\n# (not shown)\n  TZ: UTC\n# (not shown)\n"
            "glidein_scheduler_options:\n# (not shown)\nglidein_entries:\n  private: {queue: private}\n",
        ),
        ("$ANSIBLE_VAULT;1.1;AES256\n6162\n", ""),
    ],
)
def test_an_existing_file_is_shown_without_secrets(tmp_path, content, shown):
    path = tmp_path / "host.yml"
    path.write_text(content)
    assert VariablesFile(str(path)).shown() == shown


@pytest.mark.parametrize(
    "content, kept",
    [
        ("a: 1\n# about b\nb: !vault |\n  62\n\n  61\nc:\n- x\n", "b: !vault |\n  62\n\n  61\nc:\n- x\n"),
        ("---\nnew: 0\n", None),
        ('"quoted key": {\nx: 1\n}\n', '"quoted key": {\nx: 1\n}\n'),
    ],
)
def test_variables_that_a_text_does_not_have_are_appended_as_they_are(tmp_path, content, kept):
    path = tmp_path / "host.yml"
    path.write_text(content)
    text = "---\nnew: 1\na: 2\n"
    expected = f"{text}\n# Variables that discovery does not propose:\n{kept}" if kept else text
    assert VariablesFile(str(path)).with_others(text) == expected
    path.write_text(expected)
    assert VariablesFile(str(path)).with_others(text) == expected


@pytest.mark.parametrize(
    "content",
    ["$ANSIBLE_VAULT;1.1;AES256\n6162\n", "{a: 1, b: 2}", "  b: 1\n", "a: &x 1\nb: *x\n", "b: [", "- b\n"],
)
def test_variables_that_cannot_be_copied_are_null(tmp_path, content):
    path = tmp_path / "host.yml"
    path.write_text(content)
    assert VariablesFile(str(path)).with_others("a: {new: 1}\n") is None


def test_variables_in_another_file_are_not_duplicated(tmp_path):
    (tmp_path / "host").mkdir()
    file = VariablesFile(str(tmp_path / "host.yml"))
    assert file.exists
    with pytest.raises(InputError, match="discover_output"):
        file.write("x")


def test_a_replaced_file_keeps_its_mode(tmp_path):
    path = tmp_path / "host.yml"
    path.write_text("a: 1\n")
    path.chmod(0o640)
    backup = VariablesFile(str(path)).write("b: 2\n")
    assert path.read_text() == "b: 2\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert pathlib.Path(backup).read_text() == "a: 1\n"
