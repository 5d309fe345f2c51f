# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that fetches a file to the controller unless the same file is already there."""

import fcntl
import os
from typing import Any, Dict

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.common.file_tree import sha256_of
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {
        "src": {"type": "str", "required": True},
        "dest": {"type": "path", "required": True},
        "sha256": {"type": "str", "required": True},
    }

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        dest = os.path.abspath(options["dest"])
        result = {"changed": False, "dest": dest}
        if self._task.check_mode:
            return dict(result, changed=not _has(dest, options["sha256"]))
        try:
            os.makedirs(os.path.dirname(dest), mode=0o700, exist_ok=True)
            os.chmod(os.path.dirname(dest), 0o700)
            with os.fdopen(os.open(f"{dest}.lock", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not _has(dest, options["sha256"]):
                    self._fetch(options, dest, task_vars)
                    result["changed"] = True
                os.chmod(dest, 0o600)
        except OSError as error:
            raise GlideinError(f"{error.filename or dest} on the controller: {error.strerror}") from error
        return result

    def _remedy(self, task_vars: Dict[str, Any]) -> str:
        """Return the advice to deploy the host that has the file, which a deployment limited to the site leaves out."""
        site_host = task_vars.get("inventory_hostname")
        hosts = [host for host in dict.fromkeys((self._task.delegate_to, site_host)) if host]
        return f"Run the playbook glidein.ops.deploy without -l, or with -l {','.join(hosts)}."

    def _fetch(self, options: Dict[str, Any], dest: str, task_vars: Dict[str, Any]) -> None:
        fresh = f"{dest}.new"
        task = self._task.copy()
        task.args = {"src": options["src"], "dest": fresh, "flat": True}
        action = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.fetch",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        fetched = action.run(task_vars=task_vars)
        if fetched.get("failed"):
            raise GlideinError(f"{options['src']} cannot be fetched: {fetched.get('msg')}")
        if not _has(fresh, options["sha256"]):
            os.unlink(fresh)
            raise GlideinError(
                f"{options['src']} does not have the SHA-256 {options['sha256']} of the list of tarballs, or changed "
                f"while it was fetched. {self._remedy(task_vars)}"
            )
        os.chmod(fresh, 0o600)
        os.replace(fresh, dest)


def _has(path: str, sha256: str) -> bool:
    """Return whether a file exists and has this SHA-256."""
    return os.path.isfile(path) and sha256_of(path) == sha256
