# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that collects what a deployment or a gateway installs on a login node, with all errors.

The task is delegated to the central manager, from which the list of tarballs and the token come.
"""

import base64
import os
from typing import Any, Dict, List, Optional, Tuple

from ansible.errors import AnsibleError
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.gateway import gateway_catalogue, gateway_tarball
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    read_variables,
    settings,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.site_payload import (
    check_token,
    selected_tarballs,
    site_sources,
    tarball_list,
)
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule, TaskVariables

VARIABLES = (
    "glidein_cache_dir",
    "glidein_checks_dir",
    "glidein_credential",
    "glidein_credential_file",
    "glidein_deployment",
    "glidein_job_wrapper",
    "glidein_payload_files",
    "glidein_platforms",
    "glidein_site",
    "glidein_tarball_file",
    "glidein_tarball_url",
)
GATEWAY_VARIABLES = (
    "glidein_cache_dir",
    "glidein_gateway_routes",
    "glidein_gateway_ssh",
    "glidein_gateway_submit_host",
    "glidein_platforms",
    "glidein_site",
)
# The directory of the role tarball on the central manager.
TARBALL_DIR = "/var/lib/glidein-ops"
LISTS = {"token": "tarballs.list", "pool_password": "tarballs-pool-password.list"}


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {
        "credential_only": {"type": "bool", "default": False},
        "gateway": {"type": "bool", "default": False},
        "machine": {"type": "str"},
    }

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        result: Dict[str, Any] = {
            "error": "",
            "missing": [],
            "credential": None,
            "sources": [],
            "fetched": [],
            "cache": None,
            "catalogue": None,
        }
        try:
            if options["gateway"]:
                result.update(self._of_gateway(options, task_vars))
            else:
                result.update(self._collected(options, self._variables(task_vars), task_vars))
        except InputError as error:
            result["error"] = "\n".join(error.problems)
        # The task has no_log: Ansible would hide any other error.
        except (OSError, ValueError) as error:
            result["error"] = str(error)
        return result

    def _collected(self, options: Dict[str, Any], site: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Return what is installed. Raises InputError."""
        manager = _central_manager(task_vars)
        is_token, supplied = site["glidein_credential"] == "token", site["glidein_tarball_file"]
        owner = f"{site['glidein_site']}-supplied" if supplied else manager
        # Deployment and host are in the path because one controller may serve several pools.
        cache = os.path.join(os.path.expanduser(site["glidein_cache_dir"]), f"{site['glidein_deployment']}-{owner}")
        list_path = os.path.join(cache if supplied else TARBALL_DIR, LISTS[site["glidein_credential"]])
        token_path = os.path.join(TARBALL_DIR, "tokens", site["glidein_site"])
        central = {}
        if not supplied and not options["credential_only"]:
            central["glidein_tarball_file"] = list_path
        if is_token and not site["glidein_credential_file"]:
            central["glidein_credential_file"] = token_path
        if central and not manager:
            raise InputError(
                "The group glidein_central_manager of the inventory is empty. Add the pool's central manager to it, or "
                f"set {' and '.join(central)} to files that the pool's administrator has given you."
            )
        contents, missing = self._central_files(list(central.values()), manager, "glidein.ops.deploy", task_vars)
        if missing:
            return {"missing": missing}
        found: Dict[str, Any] = {"cache": cache}
        if token_path in contents:
            found["credential"] = check_token(contents[token_path], f"{token_path} on {manager}")
        elif is_token:
            path = site["glidein_credential_file"]
            with self._credential_file(path) as decrypted:
                found["credential"] = check_token(_text_of(decrypted), f"glidein_credential_file={path}")
        if not options["credential_only"]:
            text = contents[list_path] if list_path in contents else _supplied_list(list_path, supplied)
            tarballs = selected_tarballs(tarball_list(text), site, list_path)
            found["sources"] = site_sources(site, tarballs, cache, task_vars.get("inventory_dir"))
            fetched = [] if supplied or site["glidein_tarball_url"] else tarballs
            found["fetched"] = [dict(one, src=os.path.join(TARBALL_DIR, one["file"])) for one in fetched]
        return found

    def _of_gateway(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Return what the role gateway installs. Raises InputError."""
        variables = TaskVariables(self._templar, task_vars)
        site = settings(variables, *GATEWAY_VARIABLES)
        manager = _central_manager(task_vars)
        if not manager or not site["glidein_gateway_submit_host"]:
            raise InputError(
                "The group glidein_central_manager of the inventory is empty: a gateway needs the pool's tarball and "
                "token. The access point is the host of the group glidein_demand_server, or "
                "glidein_gateway_submit_host."
            )
        directory = os.path.join(TARBALL_DIR, "gateway")
        list_path = os.path.join(directory, "tarballs.list")
        token_path = os.path.join(directory, "tokens", site["glidein_site"])
        paths = ([] if options["credential_only"] else [list_path]) + (
            [] if site["glidein_gateway_ssh"] else [token_path]
        )
        contents, missing = self._central_files(paths, manager, "glidein.ops.gateway", task_vars)
        found: Dict[str, Any] = {"missing": missing, "credential": contents.get(token_path)}
        if list_path in contents:
            tarball = gateway_tarball(contents[list_path], site["glidein_platforms"], options["machine"])
            found["fetched"] = [dict(tarball, src=os.path.join(directory, tarball["file"]))]
            found["cache"] = os.path.join(os.path.expanduser(site["glidein_cache_dir"]), f"{manager}-gateway")
            host = task_vars["inventory_hostname"]
            entries, scheduler = read_variables(host, variables, "glidein_entries", "glidein_scheduler")
            if entries and scheduler and not site["glidein_gateway_ssh"] and not site["glidein_gateway_routes"]:
                found["catalogue"] = gateway_catalogue(entries)
        return found

    def _variables(self, task_vars: Dict[str, Any]) -> Dict[str, Any]:
        """Return the host's variables with their defaults. Raises InputError."""
        site = settings(TaskVariables(self._templar, task_vars), *VARIABLES)
        if site["glidein_tarball_url"] and site["glidein_credential"] != "token":
            raise InputError(
                f"glidein_tarball_url={site['glidein_tarball_url']} with glidein_credential=pool_password: every "
                "reader of that address would have the pool password. Use glidein_credential=token, or no "
                "glidein_tarball_url."
            )
        return site

    def _central_files(
        self, paths: List[str], manager: Optional[str], playbook: str, task_vars: Dict[str, Any]
    ) -> Tuple[Dict[str, str], List[str]]:
        """Return ({path: content}, missing paths) of files of the central manager, which the playbook makes.

        In check mode before the first run of the playbook, files are missing. Otherwise that raises InputError.
        """
        contents, missing = {}, {}
        for path in paths:
            try:
                read = self._execute_module("ansible.builtin.slurp", module_args={"src": path}, task_vars=task_vars)
            except AnsibleError as error:
                raise InputError(f"{path} cannot be read on {manager}: {error}") from error
            if "content" in read:
                contents[path] = base64.b64decode(read["content"]).decode("utf-8", "replace")
            else:
                missing[path] = read.get("msg") or "unknown error"
        if missing and not self._task.check_mode:
            raise InputError(
                f"{' and '.join(missing)} cannot be read on {manager} ({'; '.join(missing.values())}). Run the "
                f"playbook {playbook} for {manager} too: without -l, or with -l "
                f"{manager},{task_vars['inventory_hostname']}."
            )
        return contents, list(missing)


def _central_manager(task_vars: Dict[str, Any]) -> Optional[str]:
    """Return the pool's central manager, or None."""
    return (task_vars["groups"].get("glidein_central_manager") or [None])[0]


def _supplied_list(path: str, tarball: str) -> str:
    """Return the list of the tarball that was made of the supplied one. Raises InputError."""
    if not os.path.isfile(path):
        raise InputError(
            f"glidein_tarball_file={tarball} has no etc/pool_password: set glidein_credential_file to the file of the "
            "pool password."
        )
    return _text_of(path)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
