# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file on a compute node for which jobs wait, so that a test decides when they end."""


class FinishFile:
    """A file in the home directory of the glideins' user."""

    def __init__(self, node):
        self.node = node
        self.path = "/home/glidein/finish"
        # An argument of Scientist.submit: the job looks for the file every second.
        self.seconds = f"1; until [ -e {self.path} ]; do sleep 1; done"

    def __enter__(self):
        self.remove()
        return self

    def __exit__(self, *failure):
        self.remove()

    def create(self):
        self.node.check_output(f"touch {self.path}")

    def remove(self):
        self.node.check_output(f"rm -f {self.path}")
