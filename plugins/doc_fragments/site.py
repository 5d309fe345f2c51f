# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that run on a site's login node."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  deployment:
    description:
      - Name of the deployment. It is hashed into the names of batch jobs, so that several pools can share one account.
      - 1 to 64 letters, digits, dots, dashes or underscores, beginning with a letter or digit.
    type: str
    required: true
  site:
    description:
      - Name of the site; same characters as O(deployment).
    type: str
    required: true
  scheduler:
    description:
      - The site's batch system. V(slurm) is known.
    type: str
    required: true
  scheduler_options:
    description:
      - How to reach the batch system on this site. Two keys, both optional.
      - "C(commands) maps the name of a command to the argument list to run instead, for example
        C({sbatch: [/opt/slurm/bin/sbatch]}). Slurm's are C(sbatch), C(squeue) and C(scancel)."
      - C(timeout) is the number of seconds after which a command is stopped, by default 60.
    type: dict
    default: {}
  entries:
    description:
      - "The site's entries: a mapping from the name of an entry to a mapping with the keys below. Any other key is an
        error."
      - C(queue) and C(account) are the queue or partition and the account to charge; without them the site's defaults.
      - C(walltime) (required) is how long a glidein may last. Here and below a duration is a number of seconds, or text
        such as V(48h), V(90m), V(1d12h) or V(2:30:00).
      - "C(shapes) (required) maps names to sizes of glideins: C(cpus), C(memory_mb) (MiB), C(disk_mb) (MiB), C(gpus)
        (default 0), C(gpu_type), and C(whole_node) (default V(false)), which keeps other jobs off the node. Scratch
        disk is not asked of Slurm, which knows none on most sites; put C(--tmp) in C(directives) where it does."
      - "C(limits) has C(queued) (default 10), C(total) (queued, running and all others in the queue; default 100) and
        C(per_cycle) (submitted by one run; default 10)."
      - C(accept) has C(min) and C(max) for any of C(cpus), C(memory_mb), C(disk_mb), C(gpus) of jobs that the entry is
        for.
      - C(directives) is a list of further options for the batch script, such as V(-C EGRESS). They come after ours.
      - "C(attributes) maps ClassAd attributes to the values that the glidein's machine ad carries."
      - C(retirement) is how long before its end a glidein takes no more jobs (default V(10m), or a quarter of the
        walltime if that is shorter); C(idle_timeout) is how long it waits for a job (default V(20m)).
      - C(priority) orders entries; the higher is used first (default 0).
    type: dict
    required: true
  limits:
    description:
      - Limits of the whole site, with the keys that C(limits) of an entry has. Without a key there is no such limit.
    type: dict
    default: {}
  home:
    description:
      - Directory on the login node that has the site's files in a subdirectory of the site's name.
    type: str
    default: ~/.glidein
"""
