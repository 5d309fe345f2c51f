#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: queue_info
short_description: Count a site's glideins in its batch queue
version_added: 0.1.0
description:
  - Counts the glideins of a deployment in the batch queue, by entry and shape, as the batch system reports them.
    Invalid output of the batch system is an error, never a count of zero.
extends_documentation_fragment:
  - glidein.ops.attributes.info
  - glidein.ops.site
seealso:
  - module: glidein.ops.site_drain
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Count the glideins in the queue
  glidein.ops.queue_info:
  register: counted

- name: Show the number of queued glideins
  ansible.builtin.debug:
    msg: "{{ counted.queue.entries | sum(attribute='queued') }}"
"""

RETURN = r"""
queue:
  description: The site's glideins. Times are in epoch seconds.
  returned: success
  type: dict
  contains:
    site:
      description: Name of the site.
      type: str
    as_of:
      description: Time at which the queue was read.
      type: int
    user:
      description: The user whose jobs were counted.
      type: str
    entries:
      description:
        - The counts for every configured C(entry) and C(shape), the smallest shape of an entry first. C(job_name) is
          the name of the batch jobs.
        - Glideins are C(queued), C(running), C(completing) (the batch system is cleaning up after them), or C(sick)
          (held, suspended, or unable to ever start, as the batch system reports), with C(sick_reasons).
          C(never_starts) of the sick ones can never start and have the request that a new one would have.
        - C(oldest_queued_s) is the time that the oldest queued glidein has waited, in seconds, or null.
        - C(queued_since) has the submission times of the queued glideins, with the number of glideins at each time;
          C(running_since) has the start times of the running ones, if they are known. If there are more than 50 times,
          those within a step of some minutes are replaced by the newest of the step.
        - C(running_glideins) have C(id), the id of the batch system (C(GLIDEIN_BatchId) in the machine ad), and
          C(wait_s), the seconds between submission and start, null if unknown. C(running_glideins) is null if there
          are more than 2000. If a site has more than 10000, those of the largest entries are null, too.
      type: list
      elements: dict
      sample:
        - {entry: main, shape: core, job_name: g3f2a9-0c11d2e4, queued: 2, running: 3, completing: 0, sick: 1,
           never_starts: 0, sick_reasons: [JobHeldUser], oldest_queued_s: 95, queued_since: [[1795211178, 2]],
           running_since: [[1795211013, 3]],
           running_glideins: [{id: "123_1", wait_s: 340}, {id: "123_2", wait_s: 351}, {id: "123_3", wait_s: 351}]}
    orphans:
      description: Glideins that this site submitted for an entry or shape that is no longer configured.
      type: dict
      sample: {queued: 0, running: 0}
    others:
      description: Glideins of this deployment that this site has no record of, such as those of another site that
        shares the account.
      type: dict
      sample: {queued: 0, running: 0}
    unknown_states:
      description: A sentence for each state of this site's glideins that the collection does not know. Such glideins
        are counted as C(queued), and are cancelled only together with running ones.
      type: list
      elements: str
    drains:
      description: The drains of M(glidein.ops.site_drain). C(entry) is null for the whole site.
      type: list
      elements: dict
      sample: [{entry: main, since: 1795211273, by: alice, reason: maintenance}]
    access:
      description: The state of the credentials with which the batch system's commands work, such as the token of a CE.
        C(due) is true if M(glidein.ops.glideins) must renew them, C(valid) is false if they cannot be used. C(problems)
        are sentences for the operator.
      type: dict
      sample: {due: false, valid: true, problems: []}
    htcondor:
      description: HTCondor's version and platform in each tarball of the payload, each pair once.
      type: list
      elements: list
      sample: [[23.9.6, x86_64_AlmaLinux9]]
    versions:
      description: The versions of the payload on the login node. C(in_use) is true if a glidein may need the version,
        C(current) if the next glidein gets it.
      type: dict
      sample: {0a1b2c3d4e5f: {in_use: true, current: true}}
    credential_expires:
      description: Expiry time of the site's token; null without a token or without an expiry time.
      type: int
      sample: 1797803273
    files:
      description: C(deployed) is true if a version for the next glidein exists, C(credential) if the credential file
        exists. C(newest_output) is the last time at which a batch job wrote to its output, C(oldest_log) the last write
        to the oldest log that M(glidein.ops.glideins) may remove; both are null without a log.
      type: dict
      sample: {deployed: true, credential: true, newest_output: 1795211273.5, oldest_log: 1795200000.0}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import SiteQueue, site_argument_spec


def main():
    module = AnsibleModule(argument_spec=site_argument_spec(), supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: "):
        site_queue = SiteQueue(module.params)
        queue = dict(site_queue.read()[1], files=site_queue.files())
    module.exit_json(changed=False, queue=queue)


if __name__ == "__main__":
    main()
