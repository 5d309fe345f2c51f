# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demand and supply from a file, on login nodes that cannot reach the demand server."""

import json
import os
import stat

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError, StaleInputError

_REMEDY = "The controller writes it with the playbook glidein.ops.push_demand."
# The largest accepted difference between the clocks of two hosts.
_CLOCKS_S = 300


def read_demand_file(path, max_age_s, now_s):
    """Return (demand, supply) as the controller read them from the demand server.

    path: the file that the controller wrote; max_age_s: seconds after which they are too old; now_s: this
    host's time, in epoch seconds. Raises InputError, StaleInputError.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            mode = os.fstat(handle.fileno()).st_mode
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"demand_file: {path} cannot be read: {error}. {_REMEDY}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(
            f"demand_file: {path} is writable for other users; expected write access for its owner only: chmod "
            f"go-w {path}"
        )
    try:
        content = json.loads(text, parse_constant=_not_finite)
        demand, supply = content["demand"], content["supply"]
        ages = {what: _age_s(reading, now_s) for what, reading in (("demand", demand), ("supply", supply))}
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise InputError(f"demand_file: {path} is invalid: {error!r}. {_REMEDY}") from error
    for what, age_s in ages.items():
        if age_s is None:
            raise StaleInputError(
                f"demand_file: {path} has no {what}: the demand server had not read it yet. {_REMEDY}"
            )
        if not -_CLOCKS_S <= age_s <= max_age_s:
            raise StaleInputError(
                f"demand_file: the {what} in {path} is {age_s} s old by this host's clock, at most {max_age_s} s are "
                f"allowed. {_REMEDY}"
            )
    return demand, supply


def _not_finite(name):
    raise ValueError(f"{name} is not a JSON number")


def _age_s(reading, now_s):
    """Return the age of a reading in whole seconds; None if the demand server has not read it yet."""
    return None if reading["as_of"] is None else int(now_s - reading["as_of"])
