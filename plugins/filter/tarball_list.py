# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: tarball_list
short_description: Parse a list of tarballs
version_added: 0.1.0
author:
  - the glidein.ops authors (@glidein-ops)
description:
  - Parses the text of C(tarballs.list), as M(glidein.ops.tarball) writes it.
options:
  _input:
    description:
      - The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the platforms
  ansible.builtin.debug:
    msg: "{{ listed.content | b64decode | glidein.ops.tarball_list | map(attribute='name') }}"
"""

RETURN = r"""
_value:
  description:
    - For each tarball C(name) of the platform, C(arch), C(glibc), C(htcondor), C(sha256), C(file), and C(line): it is
      the line of the list.
  type: list
  elements: dict
"""

from ansible.errors import AnsibleFilterError

FIELDS = ("name", "arch", "glibc", "htcondor", "sha256", "file")


def tarball_list(text):
    """Return a mapping of FIELDS and "line" for each line of tarballs.list. Raises AnsibleFilterError."""
    return [_tarball(line) for line in text.splitlines()]


def _tarball(line):
    values = line.split()
    if len(values) != len(FIELDS):
        raise AnsibleFilterError(f"tarballs.list: {line!r} is invalid; expected {' '.join(FIELDS).upper()}")
    return dict(zip(FIELDS, values), line=line)


class FilterModule:
    """The filter of this file's name."""

    def filters(self):
        return {"tarball_list": tarball_list}
