# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the address and the arguments of a login, from the options of Ansible's connection plugin."""

import re

import pytest
from ansible_collections.glidein.ops.plugins.action.ssh_session import ActionModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError


class Connection:
    """The part of Ansible's connection plugin that the action plugin uses."""

    transport = "ssh"

    def __init__(self, **options):
        self.options = {"ssh_args": "-o ControlPath=/run/s/0123456789abcdef", "ssh_executable": "ssh", **options}

    def has_option(self, name):
        return name in self.options

    def get_option(self, name):
        return self.options.get(name)


def login(arguments, **options):
    action = ActionModule.__new__(ActionModule)
    action.options, action.host, action._connection = {"arguments": arguments}, "login1", Connection(**options)
    return action._login()


@pytest.mark.parametrize(
    "arguments, options, expected",
    [
        ("", {}, []),
        # glidein_ssh_session_args without a value in the inventory
        (None, {}, []),
        ("-J bastion", {"ssh_common_args": "-F /my/config", "ssh_extra_args": "-v", "private_key_file": "/my/key"},
         ["-J", "bastion", "-F", "/my/config", "-v", "-i", "/my/key"]),
    ],
)  # fmt: skip
def test_the_arguments_of_a_login_are_those_of_the_site_and_of_the_connection(arguments, options, expected):
    found = login(arguments, **options)
    assert (found.host, found.control_path, found.arguments) == ("login1", "/run/s/0123456789abcdef", expected)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ssh_common_args": "-v -Jbastion"}, "ansible_ssh_common_args: -J is invalid for a site with a session"),
        ({"host": "-oProxyCommand=x"}, "ansible_host: '-oProxyCommand=x' is invalid; expected a name or an address"),
    ],
)
def test_an_address_or_argument_that_a_session_cannot_have_is_refused(options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        login("", **options)
