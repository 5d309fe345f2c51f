#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: ssh_session
short_description: Open, check or close the SSH session of a site that requires a second factor
version_added: 0.1.0
description:
  - With O(state=present), a person logs in once, or stored answers do. This leaves an OpenSSH master connection in the
    background of the controller, which Ansible's ssh connection plugin uses with the C(ansible_ssh_args) of the lookup
    plugin P(glidein.ops.ssh_session_args#lookup). C(docs/two-factor.md) describes sessions.
  - It runs on the controller, for the host of the task, and takes user, port, key and further arguments from the host's
    connection variables as the ssh connection plugin does. Do not delegate it.
extends_documentation_fragment: glidein.ops.attributes
attributes:
  check_mode:
    details: Opens and closes no session, and sends no notification.
options:
  state:
    description:
      - V(present) opens the session unless a command succeeds over it.
      - V(absent) closes it.
      - V(checked) checks whether the session exists, without using the network, and records since when it is lost.
    type: str
    choices: [present, absent, checked]
    default: checked
  arguments:
    description: Further arguments for ssh when it opens the session, such as C(-J bastion.example.org).
    type: str
    default: ''
  prompts:
    description: Rules for the answers to the questions of ssh and the site. The first rule that matches a question
      applies. Without one, the person at the terminal answers.
    type: list
    elements: dict
    default: []
    suboptions:
      match:
        description: Regular expression that is searched in the question; case is ignored.
        type: str
        required: true
      answer:
        description: With V(ask), the person answers. V(secret) answers with O(prompts[].secret), V(totp) with a
          time-based code (RFC 6238) of this seed. The default is V(secret) if O(prompts[].secret) is set, and else
          V(ask).
        type: str
        choices: [ask, secret, totp]
      secret:
        description: The answer, or the seed in base32 or as an C(otpauth://totp/) address. Keep it in a vault.
        type: str
  site:
    description: Name of the site for O(on_loss). Without it, the host's.
    type: str
  on_loss:
    description: With O(state=checked), the notification of a lost session, which is sent once for each loss. If it
      fails or takes longer than five seconds, the module warns, and a check after ten minutes sends it again.
    type: dict
    suboptions:
      command:
        description: Argument list of a command on the controller. It reads a line of text from its standard input, and
          finds E(GLIDEIN_SITE), E(GLIDEIN_HOST) and E(GLIDEIN_LOGIN_NEEDED_SINCE) (epoch seconds) in its environment.
        type: list
        elements: str
      url:
        description: Web address to which C(text), C(site), C(host) and C(login_needed_since) are posted as JSON.
        type: str
requirements:
  - OpenSSH 8.4 or later on the controller
  - pyotp (Python library), for V(totp)
"""

EXAMPLES = r"""
- name: Log in with stored answers, if the site allows them
  glidein.ops.ssh_session:
    state: present
    prompts:
      - match: verification code
        answer: totp
        secret: "{{ vault_site_totp_seed }}"
      - match: password
        secret: "{{ vault_site_password }}"

- name: Check the session, and send a mail when it is lost
  glidein.ops.ssh_session:
    on_loss:
      command: [mail, -s, login needed, operators@example.org]
  register: session
"""

RETURN = r"""
live:
  description: Whether there is a session.
  returned: success
  type: bool
since:
  description: The time since which the session exists or is known to be lost, in epoch seconds; null if unknown.
  returned: success
  type: int
msg:
  description: The state of the session as a sentence, with the remedy if the session is missing.
  returned: success
  type: str
  sample: "session to pilot@login.example.org since 2026-11-21 08:00:00 UTC"
control_path:
  description: Path of the session's socket on the controller.
  returned: success
  type: str
  sample: /home/pilot/.glidein-ops/ssh/3f1c0a9b27d84e65
"""
