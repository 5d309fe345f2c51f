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
  - Returns the versions of the payload that a queued or running glidein may still need, and the expiry time of the
    site's token.
  - Runs on the site's login node, as the user who submits the glideins. Invalid output of the batch system is
    an error, never a count of zero.
  - Options of the site that are not given are taken from the host's variables C(glidein_...) of the same name.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.info
  - glidein.ops.attributes.actiongroup_site
  - glidein.ops.site
seealso:
  - module: glidein.ops.cycle_plan
  - module: glidein.ops.site_drain
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Count the glideins in the queue
  glidein.ops.queue_info:
    deployment: "{{ glidein_deployment }}"
    site: "{{ glidein_site }}"
    scheduler: slurm
    entries: "{{ glidein_entries }}"
  register: glidein_queue
"""

RETURN = r"""
queue:
  description: The site's glideins.
  returned: success
  type: dict
  contains:
    site:
      description: Name of the site.
      type: str
      sample: lab
    as_of:
      description: Time at which the queue was read, in epoch seconds.
      type: int
      sample: 1795211273
    user:
      description: The user whose jobs were counted.
      type: str
      sample: glidein
    entries:
      description: Counts for every configured entry and shape.
      type: list
      elements: dict
      contains:
        entry:
          description: Name of the entry.
          type: str
          sample: main
        shape:
          description: Name of the shape.
          type: str
          sample: core
        job_name:
          description: Name of the batch jobs, 15 characters.
          type: str
          sample: g3f2a9-0c11d2e4
        queued:
          description: Glideins that wait to start.
          type: int
          sample: 2
        running:
          description: Glideins that have started.
          type: int
          sample: 3
        completing:
          description: Glideins that the batch system is cleaning up after.
          type: int
          sample: 0
        sick:
          description: Glideins that are held or suspended, or that can never start, as the batch system reports.
          type: int
          sample: 1
        never_starts:
          description: Sick glideins that can never start, as the batch system reports, and that have the same request
            as a new one would have.
          type: int
          sample: 0
        sick_reasons:
          description: The batch system's reasons for the sick ones.
          type: list
          elements: str
          sample: [JobHeldUser]
        oldest_queued_s:
          description: Seconds that the oldest queued glidein has waited, or null.
          type: int
          sample: 95
        queued_since:
          description: Submission times of the queued glideins in epoch seconds, with the number of glideins at each
            time; sorted. If there are more than 50 times, those within a step of some minutes are replaced by the
            newest of the step.
          type: list
          elements: list
          sample: [[1795211178, 2]]
        running_since:
          description: Start times of the running glideins, in the same form. Glideins whose start time is unknown are
            not included.
          type: list
          elements: list
          sample: [[1795211013, 3]]
        running_glideins:
          description: The running glideins, with C(id), the id of the batch system (C(GLIDEIN_BatchId) in the machine
            ad), and C(wait_s), the seconds between submission and start, null if unknown. Null if there are more than
            2000. If a site has more than 10000, those of the largest entries are null, too.
          type: list
          elements: dict
          sample: [{id: "123_1", wait_s: 340}, {id: "123_2", wait_s: 351}]
    orphans:
      description: C(queued) and C(running) glideins that this site submitted for an entry or shape that is no longer
        configured.
      type: dict
      sample: {queued: 0, running: 0}
    others:
      description: C(queued) and C(running) glideins of this deployment that this site has no record of, such as those
        of another site that shares the account.
      type: dict
      sample: {queued: 0, running: 0}
    unknown_states:
      description: A sentence for each state of this site's glideins that the collection does not know. Such glideins
        are counted as C(queued), and are cancelled only together with running ones.
      type: list
      elements: str
      sample: []
    drains:
      description:
        - The drains of M(glidein.ops.site_drain), with C(entry) (null for the whole site), C(since) in epoch seconds,
          C(by) and C(reason).
      type: list
      elements: dict
      sample: [{entry: main, since: 1795211273, by: alice, reason: maintenance}]
    access:
      description:
        - The state of the credentials with which the batch system's commands work, such as the token of a CE.
        - C(due) is true if M(glidein.ops.glideins) must renew them, C(valid) is false if they cannot be used.
          C(problems) are sentences for the operator.
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
      description: Expiry time of the site's token in epoch seconds; null without a token, as with a pool password, or
        without an expiry time.
      type: int
      sample: 1797803273
    files:
      description:
        - C(deployed) is true if a version for the next glidein exists, C(credential) if the credential file exists.
        - C(newest_output) is the last time at which a batch job wrote to its output. C(oldest_log) is the last write to
          the oldest log that M(glidein.ops.glideins) may remove. Both are in epoch seconds, null without a log.
      type: dict
      sample: {deployed: true, credential: true, newest_output: 1795211273.5, oldest_log: 1795200000.0}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.site.site_queue import SiteQueue, site_argument_spec


def main():
    module = AnsibleModule(argument_spec=site_argument_spec(), supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: "):
        site_queue = SiteQueue(module.params)
        queue = dict(site_queue.read()[1], files=site_queue.files())
    module.exit_json(changed=False, queue=queue)


if __name__ == "__main__":
    main()
