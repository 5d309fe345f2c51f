# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that collects what a deployment installs on a login node, with all errors of its variables.

The task is delegated to the central manager, from which the list of tarballs and the token come.
"""

import base64
import os
from typing import Any, Dict

from ansible.errors import AnsibleError
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    read_variables,
    settings,
    why_unreadable,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.site_payload import (
    check_token,
    selected_tarballs,
    site_sources,
    tarball_list,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
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
LISTS = {"token": "tarballs.list", "pool_password": "tarballs-pool-password.list"}


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {"credential_only": {"type": "bool", "default": False}}

    def _run(self, options, task_vars):
        result: Dict[str, Any] = {
            "error": "",
            "missing": [],
            "credential": None,
            "sources": [],
            "fetched": [],
            "cache": None,
        }
        try:
            result.update(self._collected(options, self._variables(task_vars), task_vars))
        except InputError as error:
            result["error"] = "\n".join(error.problems)
        # The task has no_log: Ansible would hide any other error.
        except (OSError, ValueError) as error:
            result["error"] = str(error)
        return result

    def _collected(self, options, site, task_vars):
        """Return what is installed. Raises InputError."""
        managers = task_vars["groups"].get("glidein_central_manager") or [None]
        is_token, supplied = site["glidein_credential"] == "token", site["glidein_tarball_file"]
        owner = f"{site['glidein_site']}-supplied" if supplied else managers[0]
        # Deployment and host are in the path because one controller may serve several pools.
        cache = os.path.join(os.path.expanduser(site["glidein_cache_dir"]), f"{site['glidein_deployment']}-{owner}")
        # The variable of the role tarball.
        of_manager = task_vars["hostvars"][managers[0]] if managers[0] else {}
        tarball_dir = read_variables(managers[0], of_manager, "tarball_dir")[0] or "/var/lib/glidein-ops"
        list_path = os.path.join(cache if supplied else tarball_dir, LISTS[site["glidein_credential"]])
        token_path = os.path.join(tarball_dir, "tokens", site["glidein_site"])
        central = {}
        if not supplied and not options["credential_only"]:
            central["glidein_tarball_file"] = list_path
        if is_token and not site["glidein_credential_file"]:
            central["glidein_credential_file"] = token_path
        contents = self._central_files(central, managers[0], task_vars)
        missing = [path for path in central.values() if path not in contents]
        if missing:
            # In check mode before the first deployment.
            return {"missing": missing}
        found: Dict[str, Any] = {"cache": cache}
        if token_path in contents:
            found["credential"] = check_token(contents[token_path], f"{token_path} on {managers[0]}")
        elif is_token:
            found["credential"] = self._supplied_token(site["glidein_credential_file"])
        if not options["credential_only"]:
            text = contents[list_path] if list_path in contents else _supplied_list(list_path, supplied)
            tarballs = selected_tarballs(tarball_list(text), site, list_path)
            found["sources"] = site_sources(site, tarballs, cache, task_vars.get("inventory_dir"))
            fetched = [] if supplied or site["glidein_tarball_url"] else tarballs
            found["fetched"] = [dict(one, src=os.path.join(tarball_dir, one["file"])) for one in fetched]
        return found

    def _variables(self, task_vars):
        """Return the host's variables with their defaults. Raises InputError."""
        site = settings(TaskVariables(self._templar, task_vars), *VARIABLES)
        if site["glidein_tarball_url"] and site["glidein_credential"] != "token":
            raise InputError(
                f"glidein_tarball_url={site['glidein_tarball_url']} with glidein_credential=pool_password: every "
                "reader of that address would have the pool password. Use glidein_credential=token, or no "
                "glidein_tarball_url."
            )
        return site

    def _central_files(self, paths, manager, task_vars):
        """Return {path: content} of files of the central manager. Raises InputError if one is missing.

        paths: {variable that names a file of the controller instead: path}.
        """
        if paths and not manager:
            raise InputError(
                "The group glidein_central_manager of the inventory is empty. Add the pool's central manager to it, or "
                f"set {' and '.join(paths)} to files that the pool's administrator has given you."
            )
        contents = {}
        for path in paths.values():
            read = self._execute_module("ansible.builtin.slurp", module_args={"src": path}, task_vars=task_vars)
            if "content" in read:
                contents[path] = base64.b64decode(read["content"]).decode("utf-8", "replace")
        missing = [path for path in paths.values() if path not in contents]
        if missing and not self._task.check_mode:
            raise InputError(
                f"{' and '.join(missing)} cannot be read on {manager}. Run the playbook glidein.ops.deploy for "
                f"{manager} too: without -l, or with -l {manager},{task_vars['inventory_hostname']}."
            )
        return contents

    def _supplied_token(self, path):
        """Return the token in a file of the controller, which Ansible Vault may have encrypted. Raises InputError."""
        try:
            decrypted = self._loader.get_real_file(os.path.expanduser(path))
        except AnsibleError as error:
            raise InputError(f"glidein_credential_file={path}: {why_unreadable(error, str(error))}") from error
        try:
            with open(decrypted, encoding="utf-8", errors="replace") as file:
                return check_token(file.read(), f"glidein_credential_file={path}")
        finally:
            self._loader.cleanup_tmp_file(decrypted)


def _supplied_list(path, tarball):
    """Return the list of the tarball that was made of the supplied one. Raises InputError."""
    if not os.path.isfile(path):
        raise InputError(
            f"glidein_tarball_file={tarball} has no etc/pool_password: set glidein_credential_file to the file of the "
            "pool password."
        )
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
