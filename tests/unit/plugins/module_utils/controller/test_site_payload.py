# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what a deployment installs on a login node."""

import base64

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible_collections.glidein.ops.plugins.action.site_payload import ActionModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.file_tree import collect, manifest_of, version_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.site_payload import (
    payload_sources,
    tarball_list,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry


def made(path, text="x", mode=0o644):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def manifest(found):
    return manifest_of(collect(found, "0600"))


def test_files_below_files_are_private_and_stay_executable(tmp_path):
    (tmp_path / "tools" / ".hidden").mkdir(parents=True)
    made(tmp_path / "tools" / "run", mode=0o755)
    made(tmp_path / "tools" / ".hidden" / "a", mode=0o400)
    found = payload_sources(
        [made(tmp_path / "data"), "tools"], made(tmp_path / "w", "#!/bin/sh\n", 0o755), str(tmp_path)
    )
    assert {name: item["mode"] for name, item in manifest(found).items()} == {
        "files/data": "0600",
        "files/tools/.hidden/a": "0600",
        "files/tools/run": "0700",
        "job_wrapper": "0700",
    }


def test_another_content_or_execution_makes_another_version_and_the_umask_of_a_copy_does_not(tmp_path):
    path = tmp_path / "data"
    versions = set()
    for text, mode in (("a", 0o644), ("b", 0o644), ("b", 0o600), ("b", 0o755), ("b", 0o700)):
        versions.add(version_of(manifest(payload_sources([made(path, text, mode)], "", "")), ""))
    assert len(versions) == 3


def test_without_files_and_wrapper_there_are_no_sources(tmp_path):
    assert payload_sources([], "", str(tmp_path)) == []


@pytest.mark.parametrize(
    ("files", "wrapper", "error"),
    [
        ("data", "", "glidein_payload_files: 'data' is invalid; expected a list of paths"),
        ([3], "", "glidein_payload_files[0]: 3 is invalid; expected a path"),
        (["none"], "", "glidein_payload_files[0]: {0}/none does not exist on the controller"),
        (["a b"], "", "glidein_payload_files[0]: 'a b' is invalid; expected a file name of letters"),
        (["data", "other/data"], "", "glidein_payload_files[1]: {0}/other/data has the same name as {0}/data; rename"),
        ([], "none", "glidein_job_wrapper: {0}/none is not a file of the controller"),
        ([], "other", "glidein_job_wrapper: {0}/other is not a file of the controller"),
        ([], "data", "glidein_job_wrapper: {0}/data is not executable: chmod +x {0}/data"),
        ([], "text", "glidein_job_wrapper: {0}/text is not a program: a script begins with a line such as #!/bin/sh"),
    ],
)
def test_problems_are_named(tmp_path, files, wrapper, error):
    (tmp_path / "other").mkdir()
    for name, mode in (("data", 0o644), ("a b", 0o644), ("other/data", 0o644), ("text", 0o755)):
        made(tmp_path / name, mode=mode)
    with pytest.raises(InputError) as raised:
        payload_sources(files, wrapper, str(tmp_path))
    assert error.format(tmp_path) in str(raised.value)


def test_relative_paths_need_a_directory():
    with pytest.raises(InputError, match="expected an absolute path"):
        payload_sources(["data"], "", "")


def test_a_home_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made(tmp_path / "data")
    assert payload_sources(["~/data"], "", "")[0]["src"] == f"{tmp_path}/data"


NATIVE = "native x86_64 2.41 23.9.6 x86_64_Debian13 0123abcd native.tar.gz"
ARM = "arm aarch64 2.34 23.9.6 aarch64_AlmaLinux9 4567 arm.tar.gz"
TOKEN = "e30.e30.c2ln"  # noqa: S105
WEB = "https://www.example.org/tarballs"


def test_a_list_of_tarballs_is_parsed_by_line():
    assert tarball_list("") == []
    assert tarball_list(f"{NATIVE}\n") == [
        {"name": "native", "arch": "x86_64", "glibc": "2.41", "htcondor": "23.9.6", "platform": "x86_64_Debian13",
         "sha256": "0123abcd", "file": "native.tar.gz", "line": NATIVE}
    ]  # fmt: skip
    with pytest.raises(InputError, match="list of tarballs: invalid line 'native x86_64'; expected the fields"):
        tarball_list("native x86_64\n")


class CentralManager(ActionModule):
    """The action plugin on a central manager that has these files. An error is raised when Ansible reads the file."""

    def __init__(self, files, check_mode):
        self.files = files
        self._loader = DataLoader()
        self._task = type("Task", (), {"check_mode": check_mode, "async_val": 0, "args": {}})
        self._connection = type("Connection", (), {"_shell": type("Shell", (), {"tmpdir": "x"})})
        self._templar = type("Templar", (), {"template": staticmethod(lambda value: value)})

    def _execute_module(self, module_name, module_args, task_vars):
        text = self.files.get(module_args["src"])
        if isinstance(text, Exception):
            raise text
        absent = {"failed": True, "msg": f"File not found: {module_args['src']}"}
        return absent if text is None else {"content": base64.b64encode(text.encode("latin-1")).decode()}


FILES = {
    "/var/lib/glidein-ops/tarballs.list": f"{NATIVE}\n{ARM}\n",
    "/var/lib/glidein-ops/tarballs-pool-password.list": f"{NATIVE}\n",
    "/var/lib/glidein-ops/tokens/lab": f"{TOKEN}\n",
}


def collected(files=None, credential_only=False, check_mode=False, managers=("cm",), **variables):
    """Return what is installed at the site lab."""
    task_vars = task_variables(managers, **variables)
    action = CentralManager(FILES if files is None else files, check_mode)
    return action._collected({"credential_only": credential_only}, action._variables(task_vars), task_vars)


def task_variables(managers=("cm",), **variables):
    return {
        "inventory_hostname": "login",
        "groups": {"glidein_central_manager": list(managers)},
        "hostvars": {"cm": {}},
        "glidein_site": "lab",
        "glidein_cache_dir": "/cache",
        **variables,
    }


def test_token_and_tarballs_come_from_the_central_manager():
    found = collected()
    assert (found["credential"], found["cache"]) == (f"{TOKEN}\n", "/cache/glidein-cm")
    assert [tarball["name"] for tarball in found["fetched"]] == ["native", "arm"]
    assert {"dest": "tarballs.list", "content": f"{NATIVE}\n{ARM}\n"} in found["sources"]
    checksums = {"native.tar.gz": "0123abcd", "arm.tar.gz": "4567"}
    assert found["sources"][-1] == {"src": "/cache/glidein-cm", "dest": "tarballs", "checksums": checksums}
    # The payload of the collection is there.
    assert "glidein.sh" in collect(found["sources"][:3], "0600")


def test_a_site_gets_the_tarballs_of_its_platforms():
    assert [tarball["name"] for tarball in collected(glidein_platforms=["arm"])["fetched"]] == ["arm"]
    with pytest.raises(InputError) as error:
        collected(glidein_platforms=["power"])
    assert str(error.value) == (
        "glidein_platforms=['power']: /var/lib/glidein-ops/tarballs.list has native, arm. They come from "
        "glidein_tarballs."
    )


def test_a_site_with_the_pool_password_has_other_tarballs_and_no_token():
    found = collected(glidein_credential="pool_password")
    assert ([tarball["name"] for tarball in found["fetched"]], found.get("credential")) == (["native"], None)


def test_nodes_fetch_tarballs_from_a_web_server():
    found = collected(glidein_tarball_url=WEB)
    assert found["fetched"] == []
    assert found["sources"][-1] == {"dest": "tarballs.list", "content": f"from {WEB}\n{NATIVE}\n{ARM}\n"}


def test_checks_of_the_operator_come_after_those_of_the_collection(tmp_path):
    (tmp_path / "checks").mkdir()
    sources = collected(inventory_dir=str(tmp_path), glidein_checks_dir="checks")["sources"]
    checks = [source for source in sources if source["dest"] == "checks"]
    assert checks[-1] == {"src": f"{tmp_path}/checks", "dest": "checks", "mode": "0700", "recurse": False}


def test_a_renewal_collects_the_token_only():
    found = collected(files={"/var/lib/glidein-ops/tokens/lab": TOKEN}, credential_only=True)
    assert found == {"credential": f"{TOKEN}\n", "cache": "/cache/glidein-cm"}


def test_files_that_the_central_manager_lacks_are_named_and_not_an_error_in_check_mode():
    with pytest.raises(
        InputError, match=r"tokens/lab cannot be read on cm \(File .*\)\. Run the .* with -l cm,login\."
    ):
        collected(files={})
    assert collected(files={}, check_mode=True)["missing"] == list(FILES)[::2]


def test_token_and_tarball_can_be_files_of_the_controller(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    supplied = {"glidein_credential_file": str(tmp_path / "token"), "glidein_tarball_file": "condor.tar.gz"}
    supplied["glidein_cache_dir"] = str(tmp_path)
    with pytest.raises(InputError, match=r"glidein_tarball_file=condor.tar.gz has no etc/pool_password: set "):
        collected(managers=(), **supplied)
    (tmp_path / "glidein-lab-supplied").mkdir()
    (tmp_path / "glidein-lab-supplied/tarballs.list").write_text(f"{NATIVE}\n")
    found = collected(managers=(), **supplied)
    assert (found["credential"], found["fetched"]) == (f"{TOKEN}\n", [])
    assert found["sources"][-1]["src"] == f"{tmp_path}/glidein-lab-supplied"
    (tmp_path / "token").write_text("no token\n")
    with pytest.raises(InputError, match=r"token is not an IDTOKEN: expected one line of three parts with dots"):
        collected(managers=(), **supplied)


GATEWAY_LIST = "/var/lib/glidein-ops/gateway/tarballs.list"
GATEWAY_TOKEN = "/var/lib/glidein-ops/gateway/tokens/lab"  # noqa: S105
GATEWAY_FILES = {GATEWAY_LIST: f"{NATIVE}\n{ARM}\n", GATEWAY_TOKEN: f"{TOKEN}\n"}
ENTRIES = {"main": raw_entry()}


def of_gateway(files=None, check_mode=False, options=None, **variables):
    """Return what is collected for a gateway of the site lab on an aarch64 login node; files: GATEWAY_FILES if None."""
    found = task_variables(glidein_gateway_submit_host="ap", **variables)
    action = CentralManager(GATEWAY_FILES if files is None else files, check_mode)
    action._task.args = {"gateway": True, "machine": "aarch64", **(options or {})}
    return action.run(None, found)


def test_a_gateway_gets_one_tarball_its_token_and_its_catalogue():
    found = of_gateway(glidein_scheduler="slurm", glidein_entries=ENTRIES)
    assert (found["error"], found["missing"], found["credential"]) == ("", [], f"{TOKEN}\n")
    (tarball,) = found["fetched"]
    assert (tarball["src"], tarball["sha256"]) == ("/var/lib/glidein-ops/gateway/arm.tar.gz", "4567")
    assert found["cache"] == "/cache/cm-gateway"
    assert found["catalogue"].startswith('{ [ Name = "main"; CPUs = 1; ')


def test_a_gateway_without_a_schedd_has_no_token_and_one_with_routes_no_catalogue():
    site = {"glidein_scheduler": "slurm", "glidein_entries": ENTRIES}
    by_ssh = of_gateway(glidein_gateway_ssh=True, **site)
    assert (by_ssh["credential"], by_ssh["catalogue"], len(by_ssh["fetched"])) == (None, None, 1)
    assert of_gateway(glidein_gateway_routes="JOB_ROUTER_ROUTE_NAMES = a", **site)["catalogue"] is None
    assert of_gateway()["catalogue"] is None


def test_a_renewal_of_a_gateway_collects_its_token_only():
    found = of_gateway({GATEWAY_TOKEN: TOKEN}, options={"credential_only": True})
    assert (found["error"], found["credential"], found["fetched"]) == ("", TOKEN, [])


@pytest.mark.parametrize(
    ("files", "variables", "error"),
    [
        ({}, {}, f"{GATEWAY_LIST} and {GATEWAY_TOKEN} cannot be read on cm (File not found: {GATEWAY_LIST}; File not "
                 f"found: {GATEWAY_TOKEN}). Run the playbook glidein.ops.gateway for cm too: without -l"),
        (GATEWAY_FILES, {"managers": ()}, "The group glidein_central_manager of the inventory is empty: a gateway"),
        (GATEWAY_FILES, {"glidein_platforms": ["native", "x"]}, "glidein_platforms: ['native', 'x'] is invalid"),
        (GATEWAY_FILES, {"glidein_platforms": {}}, "glidein_platforms: {} is invalid; expected a list"),
        (GATEWAY_FILES, {"glidein_scheduler": "slurm", "glidein_entries": {"main": {}}}, "glidein_entries.main."),
        ({**GATEWAY_FILES, GATEWAY_LIST: "x"}, {}, "list of tarballs: invalid line 'x'"),
    ],
)  # fmt: skip
def test_every_error_of_a_gateway_is_in_the_result(files, variables, error):
    assert of_gateway(files, **variables)["error"].startswith(error)


def test_files_of_a_gateway_that_the_central_manager_lacks_are_not_an_error_in_check_mode():
    assert of_gateway({}, check_mode=True)["missing"] == list(GATEWAY_FILES)


@pytest.mark.parametrize(
    ("files", "variables", "error"),
    [
        ({}, {"glidein_platforms": [{"name": "arm"}]}, "glidein_platforms: [{'name': 'arm'}] is invalid; expected"),
        ({}, {"glidein_tarball_url": "ftp://x"},
         "glidein_tarball_url: 'ftp://x' is invalid; expected http:// or https://"),
        ({}, {"glidein_tarball_url": WEB, "glidein_credential": "pool_password"},
         f"glidein_tarball_url={WEB} with glidein_credential=pool_password: every reader of that address would have "
         "the pool password"),
        ({}, {"managers": ()}, "The group glidein_central_manager of the inventory is empty. Add the pool's central "
                               "manager to it, or set glidein_tarball_file and glidein_credential_file to files"),
        ({"tarballs.list": "\xff\n"}, {}, "list of tarballs: invalid line '\ufffd'"),
        ({"tokens/lab": ""}, {}, "/var/lib/glidein-ops/tokens/lab on cm is not an IDTOKEN"),
        ({"tokens/lab": "\xff"}, {}, "/var/lib/glidein-ops/tokens/lab on cm is not an IDTOKEN"),
        ({"tarballs.list": OSError(28, "No space left on device")}, {}, "[Errno 28] No space left on device"),
        ({"tokens/lab": AnsibleError("Missing sudo password")}, {},
         "/var/lib/glidein-ops/tokens/lab cannot be read on cm: Missing sudo password"),
        ({"tarballs.list": AnsibleConnectionFailure("Connection refused")}, {},
         "/var/lib/glidein-ops/tarballs.list cannot be read on cm: Connection refused"),
        ({}, {"glidein_checks_dir": __file__}, f"glidein_checks_dir: {__file__} is not a directory of the controller"),
        ({}, {"glidein_checks_dir": "checks"}, "glidein_checks_dir: 'checks' is invalid; expected an absolute path"),
    ],
)  # fmt: skip
def test_every_error_is_in_the_result_because_ansible_would_hide_it(files, variables, error):
    files = {**FILES, **{f"/var/lib/glidein-ops/{path}": text for path, text in files.items()}}
    result = CentralManager(files, False).run(None, task_variables(**variables))
    assert result["error"].startswith(error)
