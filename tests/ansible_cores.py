# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest and the newest ansible-core of README's table, each in a virtual environment of its own.

As a program, make the environments, so that the tests that use them need not wait.
"""

import sys
from collections import namedtuple

import prepare

# pythons: those of the controller that this ansible-core supports.
Core = namedtuple("Core", "requirement pythons")
OLDEST = Core("ansible-core==2.16.19", ("3.10", "3.11", "3.12"))
NEWEST = Core("ansible-core==2.21.5", ("3.12", "3.13", "3.14"))


def virtual_environment(core):
    """Return the directory of a virtual environment with this ansible-core and the packages that README names.

    Return None if no Python of this machine can run it.
    """
    own = "{}.{}".format(*sys.version_info)
    pythons = {own: None, **prepare.real_pythons()} if own in core.pythons else prepare.real_pythons()
    found = [version for version in (own, *core.pythons) if version in core.pythons and version in pythons]
    if not found:
        return None
    interpreter = None if found[0] == own else (found[0], pythons[found[0]])
    directory = prepare.BUILD / f"venv-{core.requirement.replace('==', '-')}"
    prepare.make_venv(directory, [core.requirement, "requests", "htcondor"], "", interpreter)
    return directory


if __name__ == "__main__":
    for each in (OLDEST, NEWEST):
        print(each.requirement, virtual_environment(each) or f"runs on Python {', '.join(each.pythons)} only")
