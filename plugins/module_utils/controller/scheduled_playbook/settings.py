# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the scheduled playbooks of a controller: a JSON file that the role controller writes."""

import json

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

_KEYS = {
    "name": str,  # of the controller, for the metrics
    "state_dir": str,  # outcomes, logs and checkouts of the inventory
    "lock": str,  # file that a run locks shared while it uses the installed version
    "inventory_dir": (str, type(None)),  # without a repository, the directory of the inventory
    "inventory_sources": list,  # paths in it for -i; [] for those in ansible.cfg, otherwise the directory itself
    "repository": (dict, type(None)),  # url, version, directory, max_age_s
    "vault_password_file": (str, type(None)),
    "environment": dict,  # further variables of ansible-playbook
    "metrics_dir": (str, type(None)),
    "log_bytes": int,  # size at which a log file is rotated
    "playbooks": dict,  # name: {"playbook", "arguments", "time_limit_s"}
}


def load(path):
    """Return the settings in a file. Raises InputError."""
    try:
        with open(path, encoding="utf-8") as handle:
            settings = json.load(handle)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. Run glidein.ops.controller again.") from error
    for key, types in _KEYS.items():
        if not isinstance(settings, dict) or not isinstance(settings.get(key), types):
            raise InputError(f"{path}: {key!r} is missing or invalid. Run glidein.ops.controller again.")
    return settings
