# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a deployment installs on a login node: the payload, the operator's files, the list of tarballs.

Controller only.
"""

import os
import re
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

# Directory in the payload and in a glidein's scratch directory.
FILES = "files"
JOB_WRAPPER = "job_wrapper"
# In files/ of the collection.
PAYLOAD = os.path.join(os.path.abspath(__file__).rsplit(os.sep, 4)[0], "files", "glidein")
_FIELDS = ("name", "arch", "glibc", "htcondor", "platform", "sha256", "file")
_TOKEN = re.compile(r"^[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+\Z")
# HTCondor's lists of files to transfer, and shell scripts of operators, take these names without quotes.
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._+-]*\Z")


def tarball_list(text: str) -> List[Dict[str, str]]:
    """Return the tarballs of a list of the role tarball: mappings of the fields of each line, and `line`.

    Raises InputError if a line has another number of fields.
    """
    tarballs = []
    for line in text.splitlines():
        values = line.split()
        if len(values) != len(_FIELDS):
            raise InputError(f"list of tarballs: invalid line {line!r}; expected the fields {' '.join(_FIELDS)}")
        tarballs.append(dict(zip(_FIELDS, values), line=line))
    return tarballs


def selected_tarballs(tarballs: List[Dict[str, str]], site: Dict[str, Any], path: str) -> List[Dict[str, str]]:
    """Return the tarballs that the site's nodes need. Raises InputError if one is missing.

    tarballs: of tarball_list; site: its variables; path: of the list.
    """
    wanted, names = site["glidein_platforms"], [tarball["name"] for tarball in tarballs]
    if not names or set(wanted) - set(names):
        supplied = "glidein_tarball_file: do not set glidein_platforms"
        origin = supplied if site["glidein_tarball_file"] else "glidein_tarballs"
        raise InputError(f"glidein_platforms={wanted}: {path} has {', '.join(names)}. They come from {origin}.")
    return [tarball for tarball in tarballs if not wanted or tarball["name"] in wanted]


def check_token(text: str, origin: str) -> str:
    """Return a token as it is installed. Raises InputError if it is not an IDTOKEN. origin: its file, for the error."""
    token = text.rstrip()
    if not _TOKEN.match(token):
        raise InputError(
            f"{origin} is not an IDTOKEN: expected one line of three parts with dots between "
            "them, as condor_token_create prints it. For a pool password, set glidein_credential=pool_password."
        )
    return f"{token}\n"


def site_sources(
    site: Dict[str, Any], tarballs: List[Dict[str, str]], cache: str, inventory_dir: Optional[str]
) -> List[Dict[str, Any]]:
    """Return the `sources` of the module file_tree for a version of the payload. Raises InputError.

    site: its variables; tarballs: of selected_tarballs, which lie in the directory cache on the controller.
    """
    url = site["glidein_tarball_url"]
    # The glidein reads the same lines, after the address if it fetches the tarball.
    lines = ([f"from {url}"] if url else []) + [tarball["line"] for tarball in tarballs]
    sources = [
        {"src": os.path.join(PAYLOAD, "glidein.sh"), "dest": "glidein.sh", "mode": "0700"},
        {"src": os.path.join(PAYLOAD, "lib"), "dest": "lib"},
        {"src": os.path.join(PAYLOAD, "checks"), "dest": "checks"},
        {"content": "".join(f"{line}\n" for line in lines), "dest": "tarballs.list"},
        *payload_sources(site["glidein_payload_files"], site["glidein_job_wrapper"], inventory_dir),
    ]
    if site["glidein_checks_dir"]:
        # After the supplied ones: a check of the operator replaces that of the same name.
        directory = _checks_directory(site["glidein_checks_dir"], inventory_dir)
        sources.append({"src": directory, "dest": "checks", "mode": "0700", "recurse": False})
    if not url:
        checksums = {tarball["file"]: tarball["sha256"] for tarball in tarballs}
        sources.append({"src": cache, "dest": "tarballs", "checksums": checksums})
    return sources


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
            sources.append({"src": path, "dest": f"{FILES}/{name}", "mode": "keep_executable", "exclude": []})
        names.setdefault(name, path)
    if wrapper:
        path = _path(problems, "glidein_job_wrapper", wrapper, inventory_dir)
        if path is not None:
            problems += _wrapper_problems(path)
            sources.append({"src": path, "dest": JOB_WRAPPER, "mode": "0700"})
    if problems:
        raise InputError(problems)
    return sources


def _checks_directory(given: Any, inventory_dir: Optional[str]) -> str:
    """Return the path of the operator's checks. Raises InputError."""
    problems: List[str] = []
    path = _path(problems, "glidein_checks_dir", given, inventory_dir)
    if path is None or not os.path.isdir(path):
        raise InputError(problems or f"glidein_checks_dir: {path} is not a directory of the controller")
    return path


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
    if not os.access(path, os.R_OK):
        return [f"glidein_job_wrapper: {path} cannot be read on the controller"]
    with open(path, "rb") as handle:
        begin = handle.read(4)
    if not begin.startswith((b"#!/", b"#! ", b"\x7fELF")):
        return [
            f"glidein_job_wrapper: {path} is not a program: a script begins with a line such as #!/bin/sh, which names "
            "its interpreter on the compute nodes"
        ]
    return []
