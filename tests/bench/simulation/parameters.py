# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters of the simulated world, each with its source. See docs/simulation.md.

They were set before the first comparison of policies. Do not change them because of the result of a comparison.
Sources: PyGlidein is commit 68262ed of github.com/WIPACrepo/pyglidein, GlideinWMS is commit efdc530 of
github.com/glideinWMS/glideinwms.
"""

HOUR = 3600

# --- The pool (HTCondor)
NEGOTIATION_S = 60
"""NEGOTIATOR_INTERVAL's default (HTCondor manual, negotiator configuration)."""

MEMORY_STEP_MB = 128
"""MODIFY_REQUEST_EXPR_REQUESTMEMORY's default: quantize(RequestMemory, {128})."""

SLOT_DISK_MB = 1
"""Disk of a new dynamic slot in addition to the request (measured with HTCondor 23.9.6)."""

PASSED_OVER_CYCLES = 3
"""Negotiation cycles after which a free slot counts as passed over (NEGOTIATION_CYCLE_STATS_LENGTH's default)."""

# --- The demand server
REFRESH_S = 300
"""Of this collection's server (pool.refresh_seconds) and of PyGlidein's (server.py, --delay) by default."""

LEASE_S = 1800
"""The `lease` method's default time to live."""

STALE_S = 3 * REFRESH_S
"""Age from which a schedd's jobs are stale (max_age_seconds of config.py)."""

# --- The controllers
CYCLE_S = 300
"""PyGlidein's configurations have 300 (umd) and 600 (aachen.gpu, T2_BE_IIHE). A shorter time than the server's refresh
has no effect. All policies have the same value, because the comparison is of their rules."""

# --- Glideins
IDLE_S = {"pyglidein": (1200, 1200), "glideinwms": (1200, 400)}
"""Time after which a glidein without a job ends, before its first job and after a job: NOCLAIMTIME (glidein_start.sh);
GLIDEIN_Max_Idle and GLIDEIN_Max_Tail (creation/web_base/condor_vars.lst). Glideins of the plan have the defaults of
idle_timeout and idle_after_job (entries.py)."""

RETIREMENT_S = 600
"""glidein_entries.*.retirement."""

STARTUP_S = (5, 30, 300)
"""Time from the start in the batch system to the first match: least, most frequent and greatest (triangular). 5 s were
measured from sbatch to the end of a job on an idle machine. After 300 s, a glidein that has not registered ends
(GLIDEIN_REGISTER_S). The mode is an assumption: unpacking from a shared file system."""

REGISTER_S = 300
"""Time after which a glidein that has not registered ends (GLIDEIN_REGISTER_S)."""

BLACK_HOLE_S = (120, 240)
"""Time after which a glidein on a node of a black hole ends: less than the server's limit for an early end (300 s)."""

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
"""Time between two passes of the batch system's scheduler (Slurm's sched_interval by default)."""

# --- Jobs
RUNTIME_S = (1 * HOUR, 10 * HOUR)
"""Run times are distributed evenly on a logarithmic scale between these: "Ideal time is 1-10 hours"
(hcc.unl.edu/docs/osg/characteristics_of_an_osg_friendly_job)."""

STATED_S = (2 * HOUR, 5 * HOUR, 10 * HOUR)
"""A job states the smallest of these that is not less than its run time (AllowedJobDuration). An assumption."""
