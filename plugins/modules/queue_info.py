#!/usr/bin/python
# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: queue_info
short_description: Count a site's glideins in its batch queue
version_added: 0.1.0
description:
  - Counts the glideins of a deployment in the batch queue, by entry and shape, as the batch system itself tells.
  - Says which versions of the payload a queued or running glidein may still need, and when the site's token ends.
  - Runs on the site's login node, as the user who submits the glideins. Output of the batch system that cannot be read
    is an error, never a count of zero.
  - Options of the site that are not given are taken from the host's variables C(glidein_...) of the same name.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_site
  - glidein.ops.site
attributes:
  check_mode:
    support: full
    details: The module only reads.
  diff_mode:
    support: N/A
    details: The module only reads.
seealso:
  - module: glidein.ops.plan
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
      description: When the queue was read, in epoch seconds.
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
          description: Glideins that are held or suspended, or that the batch system says can never start.
          type: int
          sample: 1
        never_starts:
          description: Those of the sick ones of which the batch system says that they can never start, and that ask for
            what a new one would ask for.
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
          description: When the queued glideins were submitted, in epoch seconds, and how many at each time; sorted. Of
            more than 50 times, those within steps of some minutes count as the newest of their step.
          type: list
          elements: list
          sample: [[1795211178, 2]]
        running_since:
          description: When the running glideins started, in the same form. Those of which the batch system does not
            tell are not in it.
          type: list
          elements: list
          sample: [[1795211013, 3]]
        running_glideins:
          description: The running glideins, with C(id) (that of the batch system, which is C(GLIDEIN_BatchId) in the
            machine ad) and C(wait_s), the seconds between submission and start, null when the batch system does not
            tell. Null when there are more than 2000. Of a site with more than 10000, those with the most are null, too.
          type: list
          elements: dict
          sample: [{id: "123_1", wait_s: 340}, {id: "123_2", wait_s: 351}]
    orphans:
      description: C(queued) and C(running) glideins that this site submitted for an entry or shape that is no more.
      type: dict
      sample: {queued: 0, running: 0}
    others:
      description: C(queued) and C(running) glideins of this deployment that this site has no record of, such as those
        of another site that shares the account.
      type: dict
      sample: {queued: 0, running: 0}
    versions:
      description: The versions of the payload on the login node; C(in_use) when a glidein may need it, C(current) when
        it is the one that the next glidein gets.
      type: dict
      sample: {0a1b2c3d4e5f: {in_use: true, current: true}}
    credential_expires:
      description: When the site's token ends, in epoch seconds; null when there is none, as with a pool password, or
        when it does not say.
      type: int
      sample: 1797803273
    files:
      description:
        - C(deployed), whether there is a version that the next glidein can get; C(credential), whether there is a
          credential file.
        - C(newest_output), when a batch job last wrote to its output, and C(oldest_log), when the oldest log that
          M(glidein.ops.glideins) may remove was written to, both in epoch seconds, null where there is none.
      type: dict
      sample: {deployed: true, credential: true, newest_output: 1795211273.5, oldest_log: 1795200000.0}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.site.site_options import SiteQueue, site_argument_spec


def main():
    module = AnsibleModule(argument_spec=site_argument_spec(), supports_check_mode=True)
    try:
        site_queue = SiteQueue(module.params)
        queue = dict(site_queue.read()[1], files=site_queue.files())
    except GlideinError as error:
        module.fail_json(msg=f"Site {module.params['site']}: {error}", **error.details())
    module.exit_json(changed=False, queue=queue)


if __name__ == "__main__":
    main()
