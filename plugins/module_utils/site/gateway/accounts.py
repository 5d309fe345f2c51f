# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts of a gateway: tables from values of a pilot's attribute to the accounts that it may be charged to.

They are user maps of HTCondor, as those of an HTCondor-CE. Sources: the manual's pages of CLASSAD_USER_MAPDATA_<name>
and userMap(); tests with 23.9.6.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.transforms import (
    ATTRIBUTE_RULE,
    WORD,
    WORD_RULE,
    is_attribute,
)
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

VARIABLE = "glidein_gateway_accounts"
# The attribute by which a pilot chooses one of its accounts.
_CHOICE = "BatchProject"

_VALUE = re.compile(r"^[A-Za-z0-9_.,:/=+@%^ -]+\Z")
_PATTERN = re.compile(r"^/([A-Za-z0-9_.,:=+@%*?|()\[\]{}\\^-]+)/\Z")
_VALUE_RULE = f"{WORD_RULE}, ^ and blanks, or a regular expression between slashes"
# The whole value must match: `$` would also match before a line break at the end.
_WHOLE = r"/\A(?:%s)\z/"


def account_config(problems, accounts):
    """Return lines of HTCondor's configuration with the tables; append errors to `problems`.

    accounts: glidein_gateway_accounts, {attribute: {value: accounts}}.
    """
    if not isinstance(accounts, dict):
        problems.append(invalid(VARIABLE, accounts, "a mapping of job attributes to tables"))
        return []
    lines, names = [], []
    for attribute, table in accounts.items():
        where = f"{VARIABLE}.{attribute}"
        if not is_attribute(attribute) or _name(attribute) in names:
            expected = f"{ATTRIBUTE_RULE}, each only once" if is_attribute(attribute) else ATTRIBUTE_RULE
            problems.append(invalid(VARIABLE, attribute, expected))
        elif not isinstance(table, dict) or not table:
            problems.append(invalid(where, table, "a mapping of values to accounts"))
        else:
            names.append(_name(attribute))
            rows = [_row(problems, where, value, names_of) for value, names_of in table.items()]
            lines += [f"CLASSAD_USER_MAPDATA_{_name(attribute)} @=table", *(f"  {row}" for row in rows), "@table"]
    if not names:
        return []
    listed = f"JOB_ROUTER_CLASSAD_USER_MAP_NAMES = {' '.join(names)}"
    # For condor_job_router_info, which `gateway route` uses.
    return [listed, "TOOL_CLASSAD_USER_MAP_NAMES = $(JOB_ROUTER_CLASSAD_USER_MAP_NAMES)", *lines]


def mapped_account(accounts):
    """Return a ClassAd expression: the pilot's account by the first table that has it, or undefined.

    A pilot may choose one of its accounts; otherwise it is the first one.
    """
    return " ?: ".join(f'userMap("{_name(attribute)}", {attribute}, {_CHOICE})' for attribute in accounts)


def _name(attribute):
    return f"accounts_{attribute.lower()}"


def _row(problems, where, value, accounts):
    listed = [accounts] if isinstance(accounts, str) else accounts
    # A comma separates accounts.
    valid = isinstance(listed, list) and all(
        isinstance(one, str) and WORD.match(one) and "," not in one for one in listed
    )
    if not valid or not listed:
        problems.append(
            invalid(f"{where}.{value}", accounts, f"an account or a list of accounts of {WORD_RULE}, no comma")
        )
        return None
    pattern = _PATTERN.match(value) if isinstance(value, str) else None
    if pattern and _compiles(pattern.group(1)):
        return f"* {_WHOLE % pattern.group(1)} {','.join(listed)}"
    if pattern or not isinstance(value, str) or not _VALUE.match(value):
        problems.append(invalid(where, value, _VALUE_RULE))
        return None
    return f'* "{value}" {",".join(listed)}'


def _compiles(pattern):
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
