# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of inventories/lab-batch, with the playbooks and modules that its tests run for it alone."""

import json
import re
import subprocess

import prepare
from conftest import BATCH_INVENTORY, INVENTORY, ROOT, playbook
from site_deployment import deploy_sites

INVENTORIES = (INVENTORY, BATCH_INVENTORY)


class BatchSite:
    """A site. site: its host's name in the inventories; entry: the entry whose shape `small` the tests use."""

    def __init__(self, site, scheduler, entry, inventories=INVENTORIES):
        self.site = site
        self.scheduler = scheduler
        self.entry = entry
        self.inventories = inventories

    def play(self, name, *arguments, limit=None):
        """Run a playbook for the site, or for another limit; assert that it succeeds."""
        done = playbook(name, "-l", limit or self.site, *arguments, inventory=self.inventories)
        assert done.rc == 0, done
        return done

    def deploy(self, *arguments):
        """Deploy the site to the lab's pool."""
        deploy_sites(self.inventories, self.site, arguments=arguments)

    def counted(self, shown):
        """Return the counts that the playbook `status` shows for the shape, by column."""
        row = re.search(rf"^{self.site} +{self.entry} +small +(.*)$", shown.summary, re.MULTILINE)
        assert row, shown
        return [int(number) for number in re.findall(r"\d+", row.group(1).split("(")[0])]

    def module(self, name, **options):
        """Run a module of the collection for the site; return what Ansible printed."""
        options.update(
            deployment="{{ glidein_deployment }}",
            site=self.site,
            scheduler=self.scheduler,
            scheduler_options="{{ glidein_scheduler_options | default({}) }}",
            entries="{{ glidein_entries }}",
        )
        inventories = [part for path in self.inventories for part in ("-i", str(path))]
        command = ["ansible", self.site, *inventories, "-m", f"glidein.ops.{name}", "-a", json.dumps(options)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False, env=prepare.environment()
        )
        assert done.returncode == 0, done
        return done.stdout

    def make_present(self, count):
        """Run the module glideins for a plan of `count` small glideins."""
        plan = [{"entry": self.entry, "shape": "small", "present": count, "reason": "test"}]
        now = "{{ now(utc=true).timestamp() | int }}"
        return self.module("glideins", collector="{{ glidein_collector }}", plan_as_of=now, plan=plan)

    def count_queued_and_cancel_one(self, alice, server, listed):
        """Queue three glideins at a site where nothing starts, then cancel the newest of them.

        listed: a function that returns {batch id: state}. Return this before and after the cancellation.
        """
        alice.submit(count=3)
        server.wait_for_jobs(3)
        self.play("cycle")
        first = listed()
        assert self.counted(self.play("status"))[:3] == [3, 0, 0]
        # The module is run directly, because the plan does not withdraw queued glideins at once.
        assert f"{self.site} | CHANGED" in self.make_present(2)
        left = listed()
        assert set(left) == set(sorted(first)[:2])
        return first, left


def grid_glideins(access_point):
    """Return {id: JobStatus} of the glideins on an access point that sends them to a gateway."""
    found = access_point.check_output(
        "condor_q -constraint 'GlideinJobName isnt undefined' -af ClusterId ProcId JobStatus"
    ).split()
    return {f"{cluster}.{process}": int(state) for cluster, process, state in zip(*[iter(found)] * 3, strict=True)}
