# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated world is like. Every number has its source; docs/simulation.md says more.

They were fixed before any policy was compared with another, and are not to be changed because of what a comparison
shows. Where a source is PyGlidein it is commit 68262ed of github.com/WIPACrepo/pyglidein, where it is GlideinWMS it is
commit efdc530 of github.com/glideinWMS/glideinwms.
"""

HOUR = 3600

# --- The pool (HTCondor)
NEGOTIATION_S = 60
"""NEGOTIATOR_INTERVAL's default (HTCondor manual, negotiator configuration)."""

MEMORY_STEP_MB = 128
"""MODIFY_REQUEST_EXPR_REQUESTMEMORY's default: quantize(RequestMemory, {128})."""

SLOT_DISK_MB = 1
"""What a new dynamic slot has of disk beyond the request (measured with HTCondor 23.9.6)."""

PASSED_OVER_CYCLES = 3
"""Negotiation cycles that a free slot must have been left over in (NEGOTIATION_CYCLE_STATS_LENGTH's default)."""

# --- The demand server
REFRESH_S = 300
"""Of this collection's server (pool.refresh_seconds) and of PyGlidein's (server.py, --delay) by default."""

LEASE_S = 1800
"""The `lease` method's default time to live."""

STALE_S = 3 * REFRESH_S
"""From this age the server calls a schedd's jobs stale (pool.stale_seconds)."""

# --- The controllers
CYCLE_S = 300
"""PyGlidein's configurations have 300 (umd) and 600 (aachen.gpu, T2_BE_IIHE); more often than the server refreshes
shows nothing new. One value for all policies: rules are compared, not how often they run."""

MAX_DEMAND_AGE_S = 900
"""`max_demand_age` of the plan module."""

# --- Glideins
IDLE_S = {"pyglidein": (1200, 1200), "glideinwms": (1200, 400)}
"""How long a glidein lives without a job, before the first one and after one: NOCLAIMTIME (glidein_start.sh);
GLIDEIN_Max_Idle and GLIDEIN_Max_Tail (creation/web_base/condor_vars.lst). Glideins of the plan are this collection's,
and have what it does where nobody says otherwise: idle_timeout and idle_after_job of glidein_entries (entries.py)."""

RETIREMENT_S = 600
"""glidein_entries.*.retirement."""

STARTUP_S = (5, 30, 300)
"""From start in the batch system to the first match, least, most frequent and greatest (triangular distribution). 5 s
were measured from sbatch to the end of a job with nothing else on the machine; after 300 s a glidein that has not
registered gives up (GLIDEIN_REGISTER_S). The mode is an assumption: unpacking from a shared file system."""

REGISTER_S = 300
"""A glidein that has not registered by then gives up (GLIDEIN_REGISTER_S)."""

BLACK_HOLE_S = (120, 240)
"""How long a glidein on a node of a black hole lives: less than what the server calls an early end (300 s)."""

# --- Waiting in batch queues
#
# Waits are drawn from what jobs of that many processors waited in a simulated machine of 256 processors with EASY
# backfilling, under the 10,000 jobs of Lublin and Feitelson's workload model (J. Parallel Distrib. Comput. 63 (2003)
# 1105-1122; the file lublin_256.swf, arrivals stretched to the load). Quantiles 0, 0.1, ... 0.9, 0.95 in seconds; the
# highest 5 % are cut off at the last one, so that they do not outlast the simulation.
WAITS_S = {
    "1-4 processors, load 0.8": (0, 0, 0, 0, 0, 0, 525, 5062, 12194, 24742, 36282),
    "5-8 processors, load 0.7": (0, 0, 0, 0, 0, 0, 1640, 5881, 11797, 22962, 36303),
    "9-32 processors, load 0.7": (0, 0, 0, 0, 575, 3536, 7399, 12642, 20621, 33060, 54083),
}
WAIT_QUANTILES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)

WAIT_CORRELATION = 0.72
WAIT_MEMORY_S = 5 * HOUR
"""Jobs of one site that are submitted one after another wait alike. In the same simulation the rank correlation of
their waits was 0.62 to 0.79 within ten minutes, 0.55 after 1.5 h, 0.40 to 0.49 after 3 h and 0.16 to 0.34 after 6 h:
about 0.72 exp(-t / 5 h)."""

SCHEDULER_PASS_S = 60
"""A batch system looks at its queue once in so many seconds (Slurm's sched_interval by default)."""

# --- Jobs
RUNTIME_S = (1 * HOUR, 10 * HOUR)
"""Run times are distributed evenly on a logarithmic scale between these: "Ideal time is 1-10 hours"
(hcc.unl.edu/docs/osg/characteristics_of_an_osg_friendly_job)."""

STATED_S = (2 * HOUR, 5 * HOUR, 10 * HOUR)
"""A job states the smallest of these that it keeps to (AllowedJobDuration). An assumption."""
