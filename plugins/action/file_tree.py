# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that reads the files on the controller and sends those that the target lacks as one archive."""

import base64
import os
import tempfile
from typing import Any, Dict

from ansible import constants
from ansible_collections.glidein.ops.plugins.module_utils.common.file_tree import (
    collect,
    manifest_of,
    version_of,
    write_archive,
)
from ansible_collections.glidein.ops.plugins.modules import file_tree
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule

# A smaller archive travels with the module's arguments, which saves making and removing a temporary file.
LARGEST_ARGUMENT_BYTES = 1 << 18


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = file_tree.ARGUMENT_SPEC

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        # The target's ~ is expanded there, not here.
        options["path"] = self._task.args["path"]
        files = collect([self._found(source) for source in options["sources"]], options["file_mode"])
        manifest = manifest_of(files)
        sent = {"manifest": manifest}
        if self._task.diff:
            sent["shown"] = sorted(name for name, item in files.items() if item.get("diff"))
        if options["versioned"]:
            sent["version"] = version_of(manifest, options["key"])
        arguments = dict(options, sources=[])
        found = self._module(arguments, sent, task_vars)
        missing = found.pop("missing", [])
        if missing and not self._task.check_mode:
            found = self._send(arguments, sent, {name: files[name] for name in missing}, task_vars)
        before = found.pop("before", {})
        if before:
            path = found["path"]
            found["diff"] = [found["diff"], *(_lines(path, name, before[name], files[name]) for name in before)]
        if not self._task.diff:
            found.pop("diff", None)
        return found

    def _found(self, source: Dict[str, Any]) -> Dict[str, Any]:
        """Return a source with the path of its file as Ansible looks for it: next to the role and the playbook, too."""
        if source["src"] is None or os.path.isabs(source["src"]):
            return source
        return dict(source, src=self._find_needle("files", source["src"]))

    def _send(
        self, arguments: Dict[str, Any], sent: Dict[str, Any], files: Dict[str, Any], task_vars: Dict[str, Any]
    ) -> Dict[str, Any]:
        """Run the module with an archive of the files."""
        with tempfile.NamedTemporaryFile(dir=constants.DEFAULT_LOCAL_TMP, prefix="files-", suffix=".tar") as archive:
            write_archive(files, archive)
            archive.flush()
            if archive.tell() <= LARGEST_ARGUMENT_BYTES:
                archive.seek(0)
                data = base64.b64encode(archive.read()).decode("ascii")
                return self._module(arguments, dict(sent, data=data), task_vars)
            if self._connection._shell.tmpdir is None:
                self._make_tmp_path()
            remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "files.tar")
            self._transfer_file(archive.name, remote)
            self._fixup_perms2((self._connection._shell.tmpdir, remote))
            return self._module(arguments, dict(sent, archive=remote), task_vars)

    def _module(self, arguments: Dict[str, Any], sent: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        arguments = dict(arguments, sent=sent)
        return self._execute_module("glidein.ops.file_tree", module_args=arguments, task_vars=task_vars)


def _lines(path: str, name: str, before: str, item: Dict[str, Any]) -> Dict[str, str]:
    """Return Ansible's diff of a file's content."""
    header = os.path.join(path, name)
    after = item["content"].decode("utf-8")
    return {"before": before, "after": after, "before_header": header, "after_header": header}
