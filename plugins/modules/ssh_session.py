#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: ssh_session
short_description: Open, check or close the SSH session of a site that requires a second factor
version_added: 0.1.0
description:
  - Many login nodes ask for a password and a one-time code. A person logs in once with O(state=present), which leaves
    an OpenSSH master connection (ControlMaster) in the background of the controller. Ansible's ordinary ssh connection
    plugin uses it, with the C(ansible_ssh_args) of the lookup plugin P(glidein.ops.ssh_session_args#lookup), until it
    ends.
  - It runs on the controller, for the host of the task, and takes user, port, key and further arguments from the host's
    connection variables as the ssh connection plugin does. Do not delegate it.
  - A rule of O(prompts) answers each question of ssh or the site. Without a rule, the person at the terminal answers
    it. The terminal shows the site's own text and hides the answer. The login ends if no rule and no person can answer,
    or if a question is repeated that only rules with a stored answer match.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_glidein
attributes:
  check_mode:
    support: full
    details: Opens and closes no session, and sends no notification.
  diff_mode:
    support: none
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
    description:
      - Further arguments for ssh when it opens the session, such as C(-J bastion.example.org).
    type: str
    default: ''
  prompts:
    description:
      - Rules for the answers. The first rule that matches a question applies. Without one, the person at the terminal
        answers.
      - A stored answer is given once for each rule and host, because further wrong answers could lock the account. If a
        site asks for password and code with the same text, write two rules for it, in this order.
      - A new host key is always a person's decision, and a request for a new password ends the login.
    type: list
    elements: dict
    default: []
    suboptions:
      match:
        description:
          - Regular expression that is searched in the question; case is ignored. OpenSSH begins the questions of
            a site with C((user@host\)).
        type: str
        required: true
      answer:
        description:
          - With V(ask), the person answers. V(secret) answers with O(prompts[].secret) itself. V(totp) answers with a
            time-based code (RFC 6238), for which O(prompts[].secret) is the seed. Each code is used once; if it was
            used, the module waits for the next one.
          - The default is V(secret) if O(prompts[].secret) is set, and else V(ask).
        type: str
        choices: [ask, secret, totp]
      secret:
        description:
          - The answer, or the seed in base32 or as an C(otpauth://totp/) address. Keep it in a vault.
        type: str
  persist:
    description:
      - Seconds that the session lives after its last use.
    type: int
    default: 43200
  timeout:
    description:
      - Seconds for the login, without the time that answers take, and for each answer of a person.
    type: int
    default: 120
  connect_timeout:
    description:
      - Seconds for the connection to be made, and for a command over an existing session.
    type: int
    default: 10
  site:
    description:
      - Name of the site for O(on_loss). Without it, the host's.
    type: str
  on_loss:
    description:
      - With O(state=checked), the notification of a lost session, which is sent once for each loss. If it fails or
        takes longer than five seconds, the module warns, and a check after ten minutes sends it again.
    type: dict
    suboptions:
      command:
        description:
          - Argument list of a command on the controller. It reads a line of text from its standard input, and finds
            E(GLIDEIN_SITE), E(GLIDEIN_HOST) and E(GLIDEIN_LOGIN_NEEDED_SINCE) (epoch seconds) in its environment.
        type: list
        elements: str
      url:
        description:
          - Web address to which C(text), C(site), C(host) and C(login_needed_since) are posted as JSON.
        type: str
requirements:
  - OpenSSH 8.4 or later on the controller
  - pyotp (Python library), for V(totp)
seealso:
  - plugin: glidein.ops.ssh_session_args
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Log in with the answers of the person at the terminal
  glidein.ops.ssh_session:
    state: present

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
    state: checked
    on_loss:
      command: [mail, -s, login needed, operators@example.org]
  register: session
"""

RETURN = r"""
live:
  description: Whether there is a session.
  returned: success
  type: bool
  sample: true
since:
  description: The time since which the session exists or is known to be lost, in epoch seconds; null if unknown.
  returned: success
  type: int
  sample: 1795248000
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
