# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of hosts that cannot be read."""

import collections.abc


class AnsibleVaultError(Exception):
    """A stand-in for Ansible's error of that name."""


class Unreadable(collections.abc.Mapping):
    """Variables of which one cannot be read, because it refers to an undefined one or is in a vault."""

    def __init__(self, name, variables, error=None):
        self.name = name
        self.error = error
        self.variables = dict(variables, **{name: None})

    def __getitem__(self, key):
        if key == self.name:
            raise self.error or RuntimeError(f"{key}: 'nothing' is undefined")
        return self.variables[key]

    # As Ansible's hostvars: without a look at the value.
    def __contains__(self, key):
        return key in self.variables

    def __iter__(self):
        return iter(self.variables)

    def __len__(self):
        return len(self.variables)


class Encrypted:
    """A stand-in for the text in a vault of ansible-core before 2.19, which is decrypted when it is used."""

    __ENCRYPTED__ = True

    def __str__(self):
        raise AnsibleVaultError("no vault secrets")


class Marker:
    """A stand-in for a variable in a filter of ansible-core 2.19 that refers to an undefined one."""

    def __str__(self):
        raise RuntimeError("'gone' is undefined")
