# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guard: what the plan makes of its own decision before anybody acts on it, one rule after the other.

The ramp (ramp.py) comes before, as a limit, so that jobs go elsewhere at once. Its input, too, is the server's history.
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import patience, readings
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limit import Rooms


def guard_plan(sites, targets, limits, ceilings, hold, guard, now_s, doubts=None):
    """Change what is planned for the targets; say why in `said` of each.

    sites: for make_plan; limits: of the deployment; ceilings: of ramp.ceilings; hold: readings.Hold or None; guard: of
    plan_options; doubts: of missing.doubts. Returns {group id: jobs} for which glideins were planned that are not
    ordered after all.
    """
    known = [target for target in targets if target.counts]
    cut = {}
    for target in known:
        if doubts and target.site in doubts:
            # The jobs stay reserved for the glideins that the queue does not show, lest others order for them.
            target.planned = min(target.planned, target.counts["queued"])
            target.said.append(doubts[target.site])
    # What waits at an entry that fails is not worth keeping.
    worthy = [target for target in known if not _fails(target, ceilings)]
    for target in worthy if hold else ():
        _set(target, readings.held(target, hold), hold.text, cut)
    for target in worthy:
        queued = patience.kept(target, guard, now_s)
        text = f"{queued - target.planned} that serve no job are kept for up to {guard['patience_s']} s"
        _set(target, queued, text, cut)
    if any(target.held for target in known):
        _stay_within_limits(sites, targets, known, limits, ceilings, cut)
    return cut


def _fails(target, ceilings):
    ceiling = ceilings.get(target.key[:2])
    return bool(ceiling and ceiling.failing)


def _set(target, queued, why, cut):
    """Let `queued` glideins of a target be planned instead of what is."""
    if queued > target.planned:
        target.held += queued - target.planned
        target.said.append(why)
    elif queued < target.planned:
        _cut_serves(target, queued, cut)
        target.said.append(why)
    target.planned = queued


def _cut_serves(target, queued, cut):
    """Take the jobs away from a target that its lost glideins were meant for."""
    serving = max(0, queued - target.kept_overdue)
    for key in sorted(target.waits):
        jobs, each = target.waits[key]
        left = min(jobs * serving // (target.planned - target.kept_overdue), serving * each)
        target.waits[key] = [left, each]
        target.serves[key] -= jobs - left
        cut[key] = cut.get(key, 0) + jobs - left


def _stay_within_limits(sites, targets, known, limits, ceilings, cut):
    """Order less where what is kept takes the room that the plan had counted on."""
    for target in known:
        target.kept = min(target.planned, target.counts["queued"])
        target.ordered = 0
    rooms = Rooms(sites, targets, limits, ceilings)
    for target in known:
        if target.added > 0:
            room = rooms.left(target)
            number = target.added if room is None else min(target.added, room)
            if number < target.added:
                name = f"{rooms.name(target)} reached"
                _set(target, target.counts["queued"] + number, name, cut)
            rooms.take(target, number)
