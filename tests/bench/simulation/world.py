# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a workload with a policy."""

from dataclasses import dataclass

from simulation.engine import Engine
from simulation.luck import luck
from simulation.parameters import CYCLE_S, HOUR, WAITS_S
from simulation.policies.base import Order, Readings
from simulation.pool import Pool
from simulation.server import DemandServer, epoch
from simulation.site import Batch


@dataclass(frozen=True)
class Parameters:
    """The intervals that a policy may use."""

    cycle_s: int = CYCLE_S


class World:
    """The state of one run. `orders`: {entry's key: [(submitted, cancelled) of each cycle]}.

    idle_s: of the glideins of every entry (parameters.IDLE_S); None: as in the policy's own glideins.
    """

    def __init__(self, workload, policy, seed, waits_s=None, idle_s=None):
        self.workload = workload
        self.engine = Engine()
        self.pool = Pool(self.engine)
        idle = policy.idle_s if idle_s is None else lambda _entry: idle_s
        name = f"{seed}/{workload.name}"
        self.batch = Batch(self.engine, self.pool, workload.entries, name, waits_s or WAITS_S, idle)
        self.server = DemandServer(self.engine, self.pool, workload.entries)
        self.orders = {entry.key: [] for entry in workload.entries}
        workload.begin(self.engine, self.pool, luck(seed, workload.name, "jobs"))
        phases = luck(seed, workload.name, "phases")
        for sites in workload.controllers:
            entries = tuple(entry for entry in workload.entries if entry.site in sites)
            decide = policy(Parameters()).decide
            first_s = phases.uniform(0, CYCLE_S) + CYCLE_S  # after the server's first reading

            def cycle(entries=entries, decide=decide):
                self._cycle(entries, decide)

            self.engine.every(CYCLE_S, cycle, first_s=first_s)

    def run(self):
        """Run until the workload's end; return self."""
        self.engine.run(self.workload.hours * HOUR)
        return self

    def _cycle(self, entries, decide):
        now = self.engine.now
        queues = {entry.key: self.batch.queues[entry.key] for entry in entries}
        counts = {key: (len(queue.waiting), len(queue.running)) for key, queue in queues.items()}
        queued_at = {key: [epoch(glidein.queued) for glidein in queue.waiting] for key, queue in queues.items()}
        started_at = {key: [epoch(glidein.started) for glidein in queue.running] for key, queue in queues.items()}
        orders = decide(Readings(epoch(now), entries, counts, queued_at, self.server, started_at))
        reports = {}
        for key, queue in queues.items():
            order = orders.get(key, Order())
            running = list(queue.running)
            self.batch.submit(key, order.submit)
            self.batch.cancel(key, order.cancel)
            self.orders[key].append((order.submit, order.cancel))
            plan = {
                "present": order.present,
                "wanted": order.wanted,
                "queued": counts[key][0] + order.submit - order.cancel,
                "running": counts[key][1],
                "registered": order.registered,
                "launched": order.submit,
                "cancelled": order.cancel,
            }
            reports.setdefault(key[0], {})[key] = (plan, running)
        for site, rows in reports.items():
            self.server.report(site, rows)
