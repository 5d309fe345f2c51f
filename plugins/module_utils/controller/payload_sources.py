# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's files in the payload: `glidein_payload_files` and `glidein_job_wrapper`."""

import os
import re
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

# Directory in the payload and in a glidein's scratch directory.
FILES = "files"
JOB_WRAPPER = "job_wrapper"
# HTCondor's lists of files to transfer, and shell scripts of operators, take these names without quotes.
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._+-]*\Z")


def payload_sources(files: Any, wrapper: Any, inventory_dir: Optional[str]) -> List[Dict[str, Any]]:
    """Return the `sources` of the module file_tree. Raises InputError with all problems.

    files: paths of files and directories; wrapper: path of a program, or ""; inventory_dir: where relative paths begin,
    or None.
    """
    problems: List[str] = []
    sources: List[Dict[str, Any]] = []
    names: Dict[str, str] = {}
    if not isinstance(files, list):
        raise InputError(invalid("glidein_payload_files", files, "a list of paths on the controller"))
    for number, given in enumerate(files):
        variable = f"glidein_payload_files[{number}]"
        path = _path(problems, variable, given, inventory_dir)
        if path is None:
            continue
        name = os.path.basename(path)
        if not os.path.exists(path):
            problems.append(f"{variable}: {path} does not exist on the controller")
        elif not _NAME.match(name):
            problems.append(invalid(variable, given, "a file name of letters, digits and . _ + - (no blanks)"))
        elif name in names:
            problems.append(f"{variable}: {path} has the same name as {names[name]}; rename one of them")
        elif not os.access(path, os.R_OK):
            problems.append(f"{variable}: {path} cannot be read on the controller")
        else:
            sources.append({"src": path, "dest": f"{FILES}/{name}", "mode": "preserve", "exclude": []})
        names.setdefault(name, path)
    if wrapper:
        path = _path(problems, "glidein_job_wrapper", wrapper, inventory_dir)
        if path is not None:
            problems += _wrapper_problems(path)
            sources.append({"src": path, "dest": JOB_WRAPPER, "mode": "0700"})
    if problems:
        raise InputError(problems)
    return sources


def _path(problems: List[str], variable: str, given: Any, inventory_dir: Optional[str]) -> Optional[str]:
    if not isinstance(given, str) or not given.strip():
        problems.append(invalid(variable, given, "a path on the controller"))
        return None
    path = os.path.expanduser(given)
    if not os.path.isabs(path):
        if not inventory_dir:
            problems.append(invalid(variable, given, "an absolute path, because this inventory has no directory"))
            return None
        path = os.path.join(inventory_dir, path)
    return os.path.normpath(path)


def _wrapper_problems(path: str) -> List[str]:
    """Return why a file cannot be a job wrapper."""
    if not os.path.isfile(path):
        return [f"glidein_job_wrapper: {path} is not a file of the controller"]
    if not os.access(path, os.X_OK):
        return [f"glidein_job_wrapper: {path} is not executable: chmod +x {path}"]
    with open(path, "rb") as handle:
        begin = handle.read(4)
    if not begin.startswith((b"#!/", b"#! ", b"\x7fELF")):
        return [
            f"glidein_job_wrapper: {path} is not a program: a script begins with a line such as #!/bin/sh, which names "
            "its interpreter on the compute nodes"
        ]
    return []
