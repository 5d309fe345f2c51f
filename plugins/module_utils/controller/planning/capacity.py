# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of the pool: free slots, starting and queued glideins, and the shapes of new ones."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import RESOURCES
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Ad, Condition
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import (
    Counts,
    FreeSlots,
    Key,
    Path,
    Pool,
    Site,
    Supplied,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import JobClass, is_job_attribute
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import (
    OF_TARBALL,
    Resources,
    fits,
    is_outdated,
    jobs_per_slot,
    machine_ad,
    part_of,
    resources_left,
    sampled_ad,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count

# The kinds of slots that a job can be given to: those that exist, in this order, and those of glideins to be ordered.
FREE, STARTING, OVERDUE, QUEUED, NEW = "free", "starting", "overdue", "queued", "new"
EXISTING = (FREE, STARTING, OVERDUE, QUEUED)

# A glidein that has run for longer is not starting any more. A glidein exits if it has not registered 300 s after its
# start (GLIDEIN_REGISTER_S); the same time again is for what comes before, such as unpacking.
REGISTERED_BY_S = 600

# The negotiator passes over a glidein if it leaves the whole glidein empty although jobs are idle that fit. The plan
# orders no further glidein for these jobs if the glideins passed over are at least half of the free ones, at least
# three, and at least a tenth of all; or if they are all. Fewer prove nothing: while the glideins that work are full of
# jobs, the one on a broken node is the only free one.
PASSED_OVER_OF_FREE = 2
PASSED_OVER_LEAST = 3
PASSED_OVER_OF_ALL = 10


# By `eagerness` of the entry: a glidein that has not started gives its first jobs one part in so many of itself. Jobs
# that come in the meantime find room in the others.
PARTS = (1, 2, 2, 4)


class Slots(NamedTuple):
    """A number of equal slots."""

    resources: Resources  # what is left of each
    number: int
    used: bool  # whether this plan has given them jobs
    until: Optional[int]  # epoch seconds by which jobs have to end; None: they last for any job that fits
    parts: int = 1  # a slot that is not used yet gives its first jobs only one of so many parts of itself


class EntryShape(NamedTuple):
    """One shape of one entry: its configuration, and its glideins in the batch queue and in the collector."""

    key: Key
    entry: Dict[str, Any]  # of normalise_site
    size: Resources  # of a whole glidein
    counts: Optional[Counts]  # None if the queue is not known
    supply: Supplied
    ad: Ad  # the machine ad that its glideins will have
    queued: int  # queued glideins that the plan counts on
    starting: int  # glideins that run and are expected to register
    late: int  # glideins that run and have not registered in time
    passed_over_groups: Dict[str, float]  # groups that the negotiator passed over here: {group id: until}
    overdue: int = 0  # queued glideins that have waited for more than overdue_s
    overdue_s: int = 0
    withdrawn: Optional[str] = None  # why queued glideins are withdrawn before jobs are given out
    outdated: bool = False  # of machine.is_outdated for the sample

    @property
    def path(self) -> Path:
        """Return (site, entry)."""
        return self.key[:2]

    def unknown(self, condition: Condition, job: Ad) -> Set[str]:
        """Return the machine's attributes that a condition of a job ad reaches and that no source knows.

        The first glidein of the entry that registers shows them. Only glideins with GPUs show properties of GPUs.
        """
        names = condition.target | (condition.bare - set(job))
        gpus = (self.ad.get("availablegpus") or [{}])[0]
        of_gpus = "requiregpus" in condition.my | condition.bare or any(map(_is_of_gpus, names))
        if self.supply.sample and (gpus or not self.size[3] or not of_gpus):
            return set(names & OF_TARBALL - set(self.ad)) if self.outdated else set()
        missing = {name for name in names if name not in self.ad and name not in gpus and not is_job_attribute(name)}
        return missing if self.size[3] else {name for name in missing if not _is_of_gpus(name)}

    @property
    def is_present(self) -> bool:
        """Return whether a glidein has started, or is in the queue and will not start."""
        return bool(self.registered or self.starting or self.late or (self.counts and self.counts.sick))

    @property
    def registered(self) -> int:
        """Return the number of glideins that the collector knows."""
        return self.supply.registered

    @property
    def never_starts(self) -> Optional[str]:
        """Return why no glidein is ordered while a queued one cannot start, as text, or None.

        Another glidein of the same request could not start either.
        """
        if not self.counts or not self.counts.never_starts:
            return None
        reason = next(iter(self.counts.sick_reasons), "")
        glideins = count(self.counts.never_starts, "queued glidein")
        text = f"{'/'.join(self.key)} gets no new glidein while {glideins} cannot start"
        return f"{text} ({reason})" if reason else text

    def jobs_each(self, request: Resources) -> int:
        """Return how many jobs with this request a glidein that has not started gets: see part_of."""
        return jobs_per_slot(part_of(self.size, request, self.parts), request)

    @property
    def parts(self) -> int:
        """Return the number of parts of which a glidein that has not started gives jobs one: see part_of."""
        return PARTS[self.entry["eagerness"]]

    @property
    def drained(self) -> Optional[str]:
        """Return the drain of the entry or site as text, or None. Nothing is ordered there."""
        return self.counts.drained if self.counts else None

    def slots(self, queued: int) -> Dict[str, List[Slots]]:
        """Return {kind: slots that exist} if so many glideins are queued; the newest are cancelled first."""
        overdue = min(self.overdue, queued)
        numbers = ((STARTING, self.starting, 1), (OVERDUE, overdue, 1), (QUEUED, queued - overdue, self.parts))
        found = {kind: [Slots(self.size, n, False, None, parts)] if n > 0 else [] for kind, n, parts in numbers}
        found[FREE] = _free(self.supply.free)
        return found

    def passed_over_for(self, request: Resources) -> Optional[Tuple[int, int]]:
        """Return (glideins passed over, glideins free) for jobs with this request, both whole ones that fit it.

        Return None if too few were passed over to conclude anything about another glidein.
        """
        passed = self._whole(self.supply.passed_over, request)
        if not passed:
            return None
        free = passed + self._whole(self.supply.free, request)
        # Starting glideins count, too: a single glidein on a broken node proves nothing about them.
        working = self.registered - self.supply.retired + self.starting
        least = min(working, max(PASSED_OVER_LEAST, -(-working // PASSED_OVER_OF_ALL)))
        return (passed, free) if passed >= least and passed * PASSED_OVER_OF_FREE >= free else None

    def _whole(self, slots: Sequence[FreeSlots], request: Resources) -> int:
        return sum(number for left, number, _until in slots if left[:2] == self.size[:2] and fits(left, request))


class OtherMachines(NamedTuple):
    """Free slots that belong to no entry of this plan's sites; they take jobs all the same.

    Their site is not in this plan, their entry or shape has left the configuration, or they are no glideins.
    """

    ad: Optional[Ad]  # None if it is unknown
    free: Sequence[FreeSlots]
    key: Optional[Key] = None
    # What an EntryShape has; no entry has this path.
    path: Path = ("", "")
    entry: None = None
    size: None = None
    passed_over_groups: Dict[str, float] = {}

    def unknown(self, _condition: Condition, _job: Ad) -> Set[str]:
        """Return the unknown attributes of the machine: none, because a sample has all."""
        return set()

    def slots(self, _queued: int) -> Dict[str, List[Slots]]:
        """Return {kind: slots that exist}."""
        return {FREE: _free(self.free), STARTING: [], OVERDUE: [], QUEUED: []}


Capacity = Union[EntryShape, OtherMachines]


def entry_shapes(pool: Pool, now_s: float) -> Tuple[EntryShape, ...]:
    """Return the EntryShape of all sites, in the order of preference.

    Entries come by priority, then shapes from small to large, those with GPUs last.
    """
    samples = {key[:2]: supply.sample for key, supply in sorted(pool.supplied.items()) if supply.sample}
    shapes = [
        _entry_shape(site, entry, name, pool, samples.get((site.name, entry["name"]), {}), now_s)
        for site in pool.sites
        for entry in site.config["entries"].values()
        for name in entry["shapes"]
    ]
    return tuple(sorted(shapes, key=_preference))


def withdraw_drained(shapes: Tuple[EntryShape, ...]) -> Tuple[EntryShape, ...]:
    """Return the shapes; those of drained entries are without queued glideins, which are withdrawn."""
    return tuple(
        shape._replace(queued=0, overdue=0, withdrawn=shape.drained) if shape.drained else shape for shape in shapes
    )


def other_machines(pool: Pool, shapes: Tuple[EntryShape, ...]) -> Tuple[OtherMachines, ...]:
    """Return an OtherMachines for each supply that belongs to no shape, and one for machines that are no glideins."""
    ours = {shape.key for shape in shapes}
    found = [
        OtherMachines(sampled_ad(row.sample) if row.sample else None, row.free, key)
        for key, row in sorted(pool.supplied.items())
        if key not in ours and row.free
    ]
    return tuple(found + ([OtherMachines(None, pool.others_free)] if pool.others_free else []))


def by_size(size: Resources) -> Resources:
    """Return the sort key of a size: GPUs come first, because they are the most expensive resource."""
    cpus, memory, disk, gpus = size
    return (gpus, cpus, memory, disk)


def has_room(slots: List[Slots], request: Resources) -> bool:
    """Return whether a slot may have room for a job with this request: whether it has the cores and the memory.

    In most calls of a large plan, no slot has, and no more than this is computed for them.
    """
    cpus, memory_mb, _disk_mb, _gpus = request
    for one in slots:  # noqa: SIM110 - a loop needs half the time of any()
        if one.resources[0] >= cpus and one.resources[1] >= memory_mb:
            return True
    return False


def fill(slots: List[Slots], job_class: JobClass, jobs: int) -> Tuple[int, List[Slots]]:
    """Give slots at most so many jobs of a class; return (jobs that got a slot, the slots after that).

    Slots that were used before are filled first, then those with the least resources left.
    """
    request = job_class.request
    placed = 0
    after = []
    for one in sorted(slots, key=_tightest_first) if len(slots) > 1 else slots:
        resources = part_of(one.resources, request, one.parts) if one.parts > 1 else one.resources
        each = jobs_per_slot(resources, request) if placed < jobs and _lasts(one, job_class) else 0
        if not each:
            after.append(one)
            continue
        number = min(jobs - placed, each * one.number)
        placed += number
        full, rest = divmod(number, each)
        for filled, per_slot in ((full, each), (1 if rest else 0, rest)):
            if filled:
                left = resources_left(resources, request, per_slot)
                if left[0]:
                    after.append(Slots(left, filled, True, one.until))
        unused = one.number - full - (1 if rest else 0)
        if unused:
            after.append(one._replace(number=unused))
    return placed, (_merged(after) if placed else slots)


def _entry_shape(site: Site, entry: Dict[str, Any], name: str, pool: Pool, sample: Ad, now_s: float) -> EntryShape:
    """Return an EntryShape. sample: that of any shape of the entry."""
    key = (site.name, entry["name"], name)
    supply = pool.supplied.get(key, Supplied())
    supply = supply._replace(sample=supply.sample or sample)
    counts = site.counts.get((entry["name"], name))
    # Glideins that run and are not registered. Those that were too old when the collector was read are late.
    running = counts.running if counts else 0
    absent = max(0, running - supply.registered)
    ages = counts.running_ages if counts else ()
    old = sum(number for age_s, number in ages if age_s - pool.supply_age_s > REGISTERED_BY_S)
    starting = min(absent, max(0, running - old))
    return EntryShape(
        key=key,
        entry=entry,
        size=tuple(entry["shapes"][name][resource] for resource in RESOURCES),
        counts=counts,
        supply=supply,
        ad=machine_ad(site.config, entry, name, supply.sample, now_s, site.htcondor),
        queued=counts.queued if counts else 0,
        starting=starting,
        late=absent - starting,
        passed_over_groups={group: until for group, until in supply.passed_over_groups.items() if now_s < until},
        outdated=is_outdated(supply.sample, site.htcondor),
    )


def _is_of_gpus(name: str) -> bool:
    return name.startswith(("availablegpus", "cuda", "gpus"))


def _preference(shape: EntryShape) -> Tuple[Any, ...]:
    return (-shape.entry["priority"], *shape.path, *by_size(shape.size), shape.key[2])


def _free(slots: Sequence[FreeSlots]) -> List[Slots]:
    return [Slots(left, number, False, until) for left, number, until in slots]


def _lasts(slots: Slots, job_class: JobClass) -> bool:
    """Return whether START would let a job of the class begin now: the job ends before the glidein does."""
    return job_class.until is None or slots.until is None or job_class.until < slots.until


def _tightest_first(slots: Slots) -> Tuple[bool, Resources, bool, float]:
    return (not slots.used, slots.resources, slots.until is None, slots.until or 0)


def _merged(slots: List[Slots]) -> List[Slots]:
    """Return slots with equal ones as one."""
    if len(slots) < 2:
        return slots
    numbers: Dict[Tuple[Any, ...], int] = {}
    for one in slots:
        key = (one.resources, one.used, one.until, one.parts)
        numbers[key] = numbers.get(key, 0) + one.number
    return [Slots(resources, number, used, until, parts) for (resources, used, until, parts), number in numbers.items()]
