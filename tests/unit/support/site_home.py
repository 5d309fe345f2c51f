# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The home of a login node with a deployed site."""


def make_site_home(home):
    """Create the home of a login node with the site `lab`: version aaaaaaaaaaaa and a credential; return it."""
    version = home / "lab" / "aaaaaaaaaaaa"
    version.mkdir(parents=True)
    (version / "glidein.sh").write_text("exit 0\n")
    (home / "lab" / "credential").write_text("a token\n")
    (home / "lab" / "current").symlink_to("aaaaaaaaaaaa")
    return home
