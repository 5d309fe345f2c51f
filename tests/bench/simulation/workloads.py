# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads: their sites, jobs and failures.

Sizes and limits of entries are those of PyGlidein's published configurations (configs/ at 68262ed): Cedar's `whole` and
`singleGPU`, UMD's `cpu`, Guillimin's `pass2`, and Bridges' limits around the RM node of its documentation. If a
configuration has no limit of the total, or a high one, the site runs fewer glideins at once (capacity) so that the
simulation stays small.
"""

import math
from dataclasses import dataclass, replace

from simulation.jobs import Kind
from simulation.parameters import HOUR, RUNTIME_S, STATED_S
from simulation.site import BLACK_HOLE, DEAD, SILENT, Entry

SMALL, MEDIUM, LARGE = WAITS = ("1-4 processors, load 0.8", "5-8 processors, load 0.7", "9-32 processors, load 0.7")

CEDAR = Entry("Cedar", "whole", (4, 15200, 16000, 0), 300, 60, 60, 300, SMALL)
UMD = Entry("UMD", "cpu", (8, 32000, 160000, 0), 50, 5, 5, 50, MEDIUM, walltime_h=48)
BRIDGES = Entry("Bridges", "RM", (28, 120000, 8000000, 0), 1000, 10, 10, 20, LARGE, 48, whole_node=True)
GUILLIMIN = Entry("Guillimin", "pass2", (2, 5000, 20000, 0), 900, 500, 100, 300, SMALL)
CEDAR_GPU = Entry("Cedar", "singleGPU", (2, 7600, 8000, 1), 1000, 300, 100, 100, SMALL)

STANDARD = (CEDAR, UMD, BRIDGES)
ONE_CORE = Kind()
CVMFS = "HAS_CVMFS_icecube_opensciencegrid_org"


@dataclass(frozen=True)
class Workload:
    """A workload. controllers: the sites of each; begin(engine, pool, random) schedules the events."""

    name: str
    begin: object
    entries: tuple = STANDARD
    controllers: tuple = (("Bridges", "Cedar", "Guillimin", "UMD"),)
    hours: int = 40


def submit(pool, random, kind, schedd="ap"):
    """Submit one job of a kind, with a random run time."""
    runtime_s = math.exp(random.uniform(math.log(RUNTIME_S[0]), math.log(RUNTIME_S[1])))
    stated_s = next((limit for limit in STATED_S if runtime_s <= limit), STATED_S[-1])
    pool.submit(replace(kind, max_runtime_s=stated_s), min(runtime_s, stated_s), schedd)


def burst(engine, pool, random, hour, count, kinds=((ONE_CORE, 1),), schedd="ap"):
    """Submit `count` jobs at the same time. kinds: [(Kind, weight)]."""

    def all_at_once():
        for kind in random.choices([kind for kind, _weight in kinds], [weight for _kind, weight in kinds], k=count):
            submit(pool, random, kind, schedd)

    engine.at(hour * HOUR, all_at_once)


def stream(engine, pool, random, hours, per_hour, kinds=((ONE_CORE, 1),), schedds=("ap",)):
    """Submit jobs one by one (a Poisson process) between two hours."""

    def one():
        kind = random.choices([kind for kind, _weight in kinds], [weight for _kind, weight in kinds])[0]
        submit(pool, random, kind, random.choice(schedds))

    time_s = hours[0] * HOUR
    while True:
        time_s += random.expovariate(per_hour / HOUR)
        if time_s >= hours[1] * HOUR:
            return
        engine.at(time_s, one)


def _steady(engine, pool, random):
    stream(engine, pool, random, (1, 25), 150)


def _burst(engine, pool, random):
    burst(engine, pool, random, 1, 10_000)


MANY_SHAPES = (
    (Kind(1, 2000), 40),
    (Kind(1, 4000), 15),
    (Kind(1, 8000, 5000), 8),
    (Kind(1, 30000), 2),
    (Kind(2, 4000), 8),
    (Kind(2, 8000, 10000), 6),
    (Kind(4, 8000), 10),
    (Kind(4, 15000), 3),
    (Kind(8, 16000), 5),
    (Kind(8, 30000), 2),
    (Kind(16, 32000), 1),
)


def _many_shapes(engine, pool, random):
    stream(engine, pool, random, (1, 19), 80, MANY_SHAPES)
    burst(engine, pool, random, 5, 800, MANY_SHAPES)


def _gpu_minority(engine, pool, random):
    kinds = ((ONE_CORE, 90), (Kind(1, 4000, gpus=1), 10))
    stream(engine, pool, random, (1, 19), 100, kinds)
    burst(engine, pool, random, 5, 800, kinds)


def _bursts_and_stream(engine, pool, random):
    stream(engine, pool, random, (1, 19), 80)
    burst(engine, pool, random, 5, 800)


def _silent_schedd(engine, pool, random):
    stream(engine, pool, random, (1, 19), 80, schedds=("ap-1", "ap-2"))
    burst(engine, pool, random, 5.9, 800, schedd="ap-2")
    engine.at(6 * HOUR, pool.silent.add, "ap-2")
    engine.at(6 * HOUR + 600, pool.silent.discard, "ap-2")


def _vanishes(engine, pool, random):
    stream(engine, pool, random, (1, 3), 80)
    burst(engine, pool, random, 1, 4000)
    engine.at(3 * HOUR, pool.remove_idle)


def _unmatched(engine, pool, random):
    needing = Kind(requirements=f"TARGET.{CVMFS} =?= true", needs=frozenset({CVMFS}))
    kinds = ((needing, 90), (ONE_CORE, 10))
    stream(engine, pool, random, (1, 19), 100, kinds)
    burst(engine, pool, random, 5, 800, kinds)


def _with(entry, **changes):
    return replace(entry, **changes)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("steady", _steady),
        Workload("burst of 10,000", _burst),
        Workload("many shapes", _many_shapes),
        Workload("GPU minority", _gpu_minority, (*STANDARD, CEDAR_GPU)),
        Workload("dead site", _bursts_and_stream, (*STANDARD, _with(GUILLIMIN, behaviour=DEAD))),
        Workload("black hole", _bursts_and_stream, (*STANDARD, _with(GUILLIMIN, behaviour=BLACK_HOLE))),
        Workload("never registers", _bursts_and_stream, (*STANDARD, _with(GUILLIMIN, behaviour=SILENT))),
        Workload("silent schedd", _silent_schedd),
        Workload("demand vanishes", _vanishes),
        Workload(
            "unmatched slot",
            _unmatched,
            (
                _with(CEDAR, provides=frozenset({CVMFS})),
                _with(UMD, provides=frozenset({CVMFS})),
                _with(BRIDGES, provides=frozenset({CVMFS})),
                GUILLIMIN,
            ),
        ),
        Workload(
            "two controllers",
            _bursts_and_stream,
            (*STANDARD, GUILLIMIN),
            (("Cedar", "UMD"), ("Bridges", "Guillimin")),
        ),
    )
}
"""By name. One site of `unmatched slot` lacks what nine of ten jobs need, and its configuration does not say so."""
