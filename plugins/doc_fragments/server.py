# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that talk to the demand server."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  server_url:
    description: Base address of the demand server, such as V(http://cm.example.org:11001). Redirects are not followed.
    type: str
    required: true
  token:
    description: The server's token. Needed to report, and to see who owns the jobs.
    type: str
  timeout:
    description: Seconds for one call, from the connection to the last byte of the reply.
    type: int
    default: 60
  ca_path:
    description: CA certificates that verify the server's. Without it, those of the requests library are used.
    type: path
  validate_certs:
    description: Whether an C(https) server's certificate is checked.
    type: bool
    default: true
requirements:
  - requests (Python library, on the host where the module runs)
"""
