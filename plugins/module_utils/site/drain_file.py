# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file drain.json in a site's directory on its login node: the site's drains."""

import json
import os

from ansible_collections.glidein.ops.plugins.module_utils.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.drains import check_drains
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

FILE = "drain.json"


def drain_file(directory):
    """Return the path of a SiteDirectory's file."""
    return os.path.join(directory.path, FILE)


def read_drains(directory):
    """Return the drains of a SiteDirectory; [] without the file.

    Raises InputError for a file that cannot be read: the site may be drained, so nothing must be submitted.
    """
    path = drain_file(directory)
    try:
        with open(path, encoding="utf-8") as handle:
            content = json.load(handle)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. {_remedy(path)}") from error
    try:
        return check_drains("drains", content.get("drains") if isinstance(content, dict) else None)
    except InputError as error:
        raise InputError(f"{path}: {error}. {_remedy(path)}") from error


def write_drains(directory, drains):
    """Write the drains of a SiteDirectory; without any, remove the file."""
    if drains:
        write_atomically(drain_file(directory), json.dumps({"drains": drains}, indent=2, sort_keys=True) + "\n")
    elif os.path.exists(drain_file(directory)):
        os.unlink(drain_file(directory))


def _remedy(path):
    return f"Nothing is submitted at this site. To end its drains, remove {path} on the login node"
