# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx with the modules of awx.awx, against a stand-in for AWX's REST API."""

import json
import os
import re
import subprocess
from types import SimpleNamespace

import prepare
import pytest
from awx_api import Api, InvalidError, serving

TOKEN = "token-of-an-administrator"  # noqa: S105
REPOSITORY = "https://git.example.org/pool/glideins.git"
PLAYBOOKS = ("cycle.yml", "deploy.yml", "status.yml", "login_needed.yml")
SECRETS = ("c2VjcmV0LWtleQ==", "secret-vault", "secret-token", "secret-password", "SECRETSEED")
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRETS[0]}\n-----END OPENSSH PRIVATE KEY-----\n"
VARIABLES = {
    "awx_project_url": REPOSITORY,
    "awx_project_key": KEY,
    "awx_execution_environment": "registry.example.org/glidein-ee:1",
    "awx_ssh_key": KEY,
    "awx_vault_password": SECRETS[1],
    "awx_demand_tokens": {"slurm": SECRETS[2]},
    "awx_login_answers": {"slurm": {"password": SECRETS[3], "totp_seed": SECRETS[4]}},
}


@pytest.fixture(scope="module")
def collections():
    prepare.awx_collection()
    return f"{prepare.COLLECTIONS}{os.pathsep}{prepare.AWX_COLLECTIONS}"


@pytest.fixture
def api():
    api = Api(TOKEN, {REPOSITORY: PLAYBOOKS}, ["default", "two-factor"])
    with serving(api) as url:
        api.url = url
        yield api


def run(api, folder, collections, *arguments, **variables):
    """Run the playbook; return exit status, output, {task: number of changes}, and the requests that change AWX."""
    path = folder / "awx.json"
    path.write_text(json.dumps({**VARIABLES, **variables}), encoding="utf-8")
    api.changes.clear()
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "glidein.ops.awx", "-e", f"@{path}", "-vvv", *arguments],
        env={
            **prepare.environment(),
            "ANSIBLE_COLLECTIONS_PATH": collections,
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "CONTROLLER_HOST": api.url,
            "CONTROLLER_OAUTH_TOKEN": TOKEN,
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    tasks = re.split(r"^TASK \[", done.stdout, flags=re.MULTILINE)[1:]
    changed = {task.split("]")[0].split(" : ")[-1]: len(re.findall("^changed:", task, re.M)) for task in tasks}
    for secret in SECRETS:
        assert secret not in done.stdout
    return SimpleNamespace(
        rc=done.returncode,
        output=done.stdout,
        changed={task: number for task, number in changed.items() if number},
        requests=list(api.changes),
    )


def test_check_mode_first_run_changes_and_repetition(api, tmp_path, collections):
    # Without anything in AWX. The modules of objects that refer to others fail in check mode, which is ignored.
    check = run(api, tmp_path, collections, "--check", awx_login_answers={})
    assert (check.rc, check.requests) == (0, []), check.output
    first = run(api, tmp_path, collections, awx_login_answers={})
    assert first.rc == 0, first.output
    independent = {"Create the organization": 1, "Create the credential types": 2}
    assert check.changed == independent
    assert first.changed == {
        **independent,
        "Store the credentials": 4,
        "Create the execution environment": 1,
        "Create the project": 1,
        "Create the inventory": 1,
        "Create the inventory source": 1,
        "Create the job templates": 4,
        "Create the workflow": 1,
        "Create the schedules": 3,
    }
    assert_secrets(api, "demand tokens", "awx_demand_tokens", VARIABLES["awx_demand_tokens"])
    assert json.loads(api.named("job_templates", "Glidein cycle")["extra_vars"]) == {}

    # A new credential, to which the job templates refer. AWX returns no secret, so all are stored again.
    changes = {
        "awx_demand_tokens": {"slurm": SECRETS[2] + "-2"},
        "awx_update_secrets": True,
        "awx_slices": 3,
        "awx_instance_groups": ["two-factor"],
        "awx_deploy_schedule": "",
    }
    check = run(api, tmp_path, collections, "--check", **changes)
    assert (check.rc, check.requests) == (0, []), check.output
    second = run(api, tmp_path, collections, **changes)
    expected = {"Store the credentials": 5, "Create the job templates": 4, "Create the schedules": 1}
    assert (second.rc, second.changed) == (0, expected), second.output
    assert check.changed == {"Store the credentials": 5, "Create the schedules": 1}
    assert_secrets(api, "demand tokens", "awx_demand_tokens", changes["awx_demand_tokens"])
    assert_secrets(api, "login answers", "awx_login_answers", VARIABLES["awx_login_answers"])
    assert_job_templates(api)
    assert_workflow(api)
    schedules = {item["name"]: item for item in api.objects["schedules"].values()}
    assert sorted(schedules) == ["Glidein cycle", "Glidein login needed"]
    assert schedules["Glidein cycle"]["unified_job_template"] == api.named("job_templates", "Glidein cycle")["id"]

    # Secrets that differ are not stored without awx_update_secrets.
    again = run(api, tmp_path, collections, **{**changes, "awx_demand_tokens": {"slurm": "3"}, "awx_update_secrets": 0})
    assert (again.rc, again.changed, again.requests) == (0, {}, []), again.output


def assert_secrets(api, name, variable, expected):
    """Assert that jobs get the secrets of a credential as a variable."""
    kind = api.named("credential_types", f"Glidein {name}")
    assert kind["injectors"] == {"extra_vars": {f"{variable}_json": "{{ secrets }}"}}
    assert json.loads(api.named("credentials", f"Glidein {name}")["inputs"]["secrets"]) == expected


def assert_job_templates(api):
    """Assert that the job templates refer to what they need, with the second run's settings."""
    project, inventory = api.named("projects", "Glidein"), api.named("inventories", "Glidein")
    assert api.named("inventory_sources", "Glidein")["source_project"] == project["id"]
    for name, playbook in zip(("cycle", "deploy", "status", "login needed"), PLAYBOOKS, strict=True):
        template = api.named("job_templates", f"Glidein {name}")
        assert (template["playbook"], template["allow_simultaneous"]) == (playbook, False)
        assert (template["project"], template["inventory"]) == (project["id"], inventory["id"])
        assert [group["name"] for group in api.related(template, "instance_groups")] == ["two-factor"]
        credentials = sorted(item["name"] for item in api.related(template, "credentials"))
        assert credentials == [f"Glidein {kind}" for kind in ("SSH key", "demand tokens", "login answers", "vault")]
    cycle = api.named("job_templates", "Glidein cycle")
    assert (cycle["job_slice_count"], json.loads(cycle["extra_vars"])) == (3, {"glidein_renew": False})


def assert_workflow(api):
    """Assert that the workflow's nodes follow each other."""
    nodes = {item["identifier"]: item for item in api.objects["workflow_job_template_nodes"].values()}
    following = {
        (name, relation): [node["identifier"] for node in api.related(node, relation)]
        for name, node in nodes.items()
        for relation in ("success_nodes", "failure_nodes", "always_nodes")
    }
    assert {key: value for key, value in following.items() if value} == {
        ("deploy", "success_nodes"): ["cycle"],
        ("deploy", "failure_nodes"): ["login_needed"],
        ("cycle", "always_nodes"): ["login_needed"],
    }


def test_errors_name_their_cause(api, tmp_path, collections):
    missing = run(api, tmp_path, str(prepare.COLLECTIONS))
    assert missing.rc != 0
    assert "`ansible-galaxy collection install awx.awx`" in missing.output
    invalid = run(
        api,
        tmp_path,
        collections,
        awx_project_url="",
        awx_execution_environment="",
        awx_ssh_key="",
        awx_demand_tokens=SECRETS[2],
        awx_login_answers=[SECRETS[3]],
        awx_slices=0,
        awx_cycle_timeout="10m",
        awx_deploy_timeout=-1,
    )
    assert (invalid.rc, invalid.requests) == (2, [])
    assert sorted(set(re.findall(r"Action failed: (awx_\w+: .+?[;.]) ", invalid.output))) == [
        "awx_cycle_timeout: '10m' is invalid;",
        "awx_demand_tokens: is invalid;",
        "awx_deploy_timeout: '-1' is invalid;",
        "awx_execution_environment: is empty;",
        "awx_login_answers: is invalid;",
        "awx_project_url: is empty;",
        "awx_slices: '0' is invalid;",
        "awx_ssh_key: is empty;",
    ]
    key = run(api, tmp_path, collections, awx_ssh_key="not a key")
    assert key.rc != 0
    assert re.search(r"Glidein SSH key: Unable to create credential .*Invalid certificate or key", key.output)


class TestStandIn:
    """The stand-in refuses what AWX refuses."""

    @pytest.mark.parametrize(
        ("endpoint", "values", "field"),
        [
            ("organizations", {}, "name"),
            ("organizations", {"name": 1}, "name"),
            ("organizations", {"name": "a", "colour": "red"}, "colour"),
            ("organizations", {"name": "present"}, "__all__"),
            ("projects", {"name": "a", "organization": 999}, "organization"),
            ("projects", {"name": "a", "scm_type": "git"}, "scm_url"),
            ("projects", {"name": "a", "scm_type": "cvs"}, "scm_type"),
            ("credential_types", {"name": "a", "kind": "ssh"}, "kind"),
            ("credential_types", {"name": "a", "kind": "net", "injectors": {"env": {"A": "{{ b }}"}}}, "injectors"),
            ("credentials", {"name": "a", "credential_type": 2, "inputs": {}}, "__all__"),
            ("schedules", {"name": "a", "rrule": "RRULE:FREQ=DAILY"}, "unified_job_template"),
        ],
    )
    def test_refusal(self, endpoint, values, field):
        api = Api(TOKEN, {})
        api.store("organizations", {"name": "present"})
        with pytest.raises(InvalidError) as error:
            api.validated(endpoint, values)
        assert list(error.value.errors) == [field]

    def test_a_request_without_the_token_is_refused(self):
        status, _value = Api(TOKEN, {}).respond("GET", "/api/v2/organizations/", {}, {})
        assert status == 401
