# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that run on the demand server's host."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  program:
    description:
      - The server's command on this host.
    type: path
    default: /opt/glidein-demand/current/bin/glidein-demand
  config:
    description:
      - The server's configuration file on this host.
    type: path
    default: /etc/glidein-demand/config.toml
"""
