# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The division of a partitionable slot: how many jobs it holds, and what they leave of it.

A job matches if its request, as the job states it, is within what is left of the slot. The startd then rounds the
request up: memory to 128 MB (MODIFY_REQUEST_EXPR_REQUESTMEMORY), disk to 1 MiB (MODIFY_REQUEST_EXPR_REQUESTDISK).
If the rounded request is more than what is left, the startd uses the request without rounding
(MUST_MODIFY_REQUEST_EXPRS is false). The disk of a new dynamic slot is 1 MiB larger than the request, even if less is
left. Measured with HTCondor 23.9.6: a slot of 4000 MB runs one job of 4000 MB, three of 1000 MB and two of 1950 MB; a
slot with 8000 MiB of disk runs one job of 8000 MiB, three of 2000 MiB and four of 1999 MiB.

Resources are tuples in the order of RESOURCES. Disk is in whole MiB, so that only memory needs rounding.
"""

MEMORY_STEP_MB = 128
SLOT_DISK_MB = 1


def rounded_request(request):
    """Return a job's request as the startd rounds it."""
    cpus, memory_mb, disk_mb, gpus = request
    return (cpus, -(-memory_mb // MEMORY_STEP_MB) * MEMORY_STEP_MB, disk_mb, gpus)


def fits(left, request):
    """Return whether a slot with the resources `left` matches a job's request."""
    return left[0] >= request[0] and left[1] >= request[1] and left[2] >= request[2] and left[3] >= request[3]


def jobs_per_slot(left, request):
    """Return how many jobs with this request a slot with the resources `left` holds."""
    return sum(_division(left, request)) if fits(left, request) else 0


def part_of(size, request, parts):
    """Return one of `parts` equal parts of a slot, but no less than one job with this request needs of it."""
    return tuple(max(min(all_of_it, one), -(-all_of_it // parts)) for all_of_it, one in zip(size, request))


def resources_left(left, request, jobs):
    """Return the resources that a slot with `left` has after so many jobs, at most `jobs_per_slot`."""
    whole = min(jobs, _division(left, request)[0])
    return _without(_without(left, rounded_request(request), whole), request, jobs - whole)


def _division(left, request):
    """Return (jobs that get the rounded request, further jobs that get the request without rounding)."""
    rounded = rounded_request(request)
    whole = _most(left, rounded)
    if rounded == request or left[1] - whole * rounded[1] < request[1]:
        return whole, 0
    return whole, _most(_without(left, rounded, whole), request)


def _most(left, request):
    cpus, memory_mb, disk_mb, gpus = request
    # The last job needs room for its request alone, not for the additional disk of its slot.
    most = min(left[0] // cpus, left[1] // memory_mb, (left[2] + SLOT_DISK_MB) // (disk_mb + SLOT_DISK_MB))
    return min(most, left[3] // gpus) if gpus else most


def _without(left, request, jobs):
    cpus, memory_mb, disk_mb, gpus = request
    return (
        left[0] - jobs * cpus,
        left[1] - jobs * memory_mb,
        max(0, left[2] - jobs * (disk_mb + SLOT_DISK_MB)),
        left[3] - jobs * gpus,
    )
