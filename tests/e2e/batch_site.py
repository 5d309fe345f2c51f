# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of inventories/lab-batch, with the playbooks and modules that its tests run for it alone."""

import json
import re
import subprocess

import prepare
import yaml
from conftest import BATCH_INVENTORY, INVENTORY, ROOT, playbook, wait_for

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
            command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False, env=prepare.environment()
        )
        assert done.returncode == 0, done
        return done.stdout

    def make_present(self, count):
        """Run the module glideins for a plan of `count` small glideins."""
        plan = [{"entry": self.entry, "shape": "small", "present": count, "reason": "test"}]
        now = "{{ now(utc=true).timestamp() | int }}"
        return self.module("glideins", collector="{{ glidein_collector }}", plan_as_of=now, plan=plan)

    def cycle_again(self):
        """Run a second cycle, which submits nothing; return the counts that status then shows."""
        again = self.play("cycle")
        assert "(job " not in again.summary
        return self.counted(self.play("status"))

    def queue_three_and_cancel_one(self, alice, server, listed):
        """Queue three glideins at a site where nothing starts, then cancel the newest of them.

        listed: a function that returns {batch id: state}. Return the states before the cancellation.
        """
        alice.submit(count=3)
        server.wait_for_jobs(3)
        self.play("cycle")
        first = listed()
        assert self.counted(self.play("status"))[:2] == [3, 0]
        # The module is run directly, because the plan does not withdraw queued glideins at once.
        assert f"{self.site} | CHANGED" in self.make_present(2)
        assert set(listed()) == set(sorted(first)[:2])
        assert f"{self.site} | SUCCESS" in self.make_present(2)
        return list(first.values())

    def run_until_retired_and_until_idle(self, login, alice, server):
        """Run one job for each of two entries; one glidein retires, the other ends after waiting for a second job."""
        variables = yaml.safe_load((BATCH_INVENTORY / "host_vars" / f"{self.site}.yml").read_text(encoding="utf-8"))
        known = variables["glidein_entries"][self.entry]
        usual = {**known, "shapes": {"small": known["shapes"]["small"]}}
        entries = {
            "retires": {**usual, "walltime": "100s", "retirement": "60s", "idle_timeout": "10m"},
            "idles": {**usual, "idle_timeout": "10m", "idle_after_job": "10s"},
        }
        login.check_output("touch ~/mark")
        for name in entries:
            alice.submit(requirements=f'TARGET.GLIDEIN_Entry == "{name}"')
        server.wait_for_jobs(len(entries))
        cycle = self.play("cycle", "-e", json.dumps({"glidein_entries": entries}))
        ended = (
            f"find ~/.glidein/{self.site}/log -name '*.out' -newer ~/mark -exec grep -h 'ended because' {{}} +; true"
        )
        both = wait_for("two ends", lambda: _if_two(login.check_output(ended).splitlines()), 150)
        for reason in ("it has retired and has no job left (exit status 0", "no job ran for 10 s (exit status 0"):
            assert [line for line in both if reason in line], (both, cycle)


def grid_glideins(access_point):
    """Return {id: JobStatus} of the glideins on an access point that sends them to a gateway."""
    found = access_point.check_output(
        "condor_q -constraint 'GlideinJobName isnt undefined' -af ClusterId ProcId JobStatus"
    ).split()
    return {f"{cluster}.{process}": int(state) for cluster, process, state in zip(*[iter(found)] * 3, strict=True)}


def _if_two(lines):
    return lines if len(lines) == 2 else None
