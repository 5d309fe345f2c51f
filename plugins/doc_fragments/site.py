# Copyright (c) 2026, the glidein.ops authors
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
      - The site's batch system, one of V(slurm), V(pbspro), V(torque), V(sge), V(uge), V(lsf), V(htcondor),
        V(gateway), a schedd on a cluster's login node, or V(htcondor_ce), an HTCondor-CE.
    type: str
    required: true
  scheduler_options:
    description:
      - The commands of the site's batch system. All keys are optional.
      - "C(commands) maps the name of a command to the argument list to run instead, for example
        C({sbatch: [/opt/slurm/bin/sbatch]}). An unknown name is an error that lists the known ones."
      - C(timeout) is the number of seconds after which a command is stopped, by default 60.
      - C(grace) is the number of seconds between the batch system's notice to a job and its kill. The default is that
        of the batch system as installed.
      - C(rerunnable_arrays), only for V(pbspro), allows array jobs, by default V(false). PBS Professional accepts only
        arrays whose tasks it may start again, as C(qrerun) does. Without it, each glidein is a job of its own.
      - "C(count_commands) has C(queued) and C(running), argument lists of commands that each print one number and a
        line break, for sites whose list of jobs is not supported. They run for each entry and shape; C({job_name}),
        C({queue}) and C({user}) in an argument are replaced. Glideins that are counted so cannot be cancelled."
      - Only for V(gateway), C(batch_system) is the cluster's batch system. With C(routes), V(true), which replaces it,
        the routes of the gateway write the requests. C(gateway) is the name of the schedd, by default
        C(gateway-SITE@). C(collector) is the collector that lists it, by default that of the glideins. With C(ssh), a
        host, there is no schedd, and HTCondor submits there by SSH; C(ssh_directory) is the gateway's directory on that
        host, by default C(~/.glidein-gateway/SITE). C(shared_payload) is the directory of a payload on a file system of
        the cluster, which glideins use instead of bringing one along.
      - Only for V(htcondor_ce), C(ce) is the address of the CE, C(HOST) or C(HOST:PORT), C(schedd) the name of its
        schedd, by default C(HOST), C(token_file) the file with the token for the CE, C(token_command) the argument list
        of a command that prints a new one, and C(queue_wait) the longest wait of a glidein in the queue, by default
        three days. The defaults of all but C(schedd) are the host's variables C(glidein_ce), C(glidein_ce_token_file),
        C(glidein_ce_token_command) and C(glidein_queue_wait).
    type: dict
    default: {}
  entries:
    description:
      - "The site's entries: a mapping from the name of an entry to a mapping with the keys below. Any other key is an
        error. A key whose value is null is treated as absent."
      - C(queue) and C(account) are the queue or partition and the account to charge; by default those of the site.
      - C(walltime) (required) is the time limit of a glidein. Here and below a duration is a number of seconds, or text
        such as V(48h), V(90m), V(1d12h) or V(2:30:00).
      - "C(shapes) (required, unless there is C(node)) maps names to sizes of glideins: C(cpus), C(memory_mb) (MiB),
        C(disk_mb) (MiB), C(gpus) (default 0), C(gpu_type), and C(whole_node) (default V(false)), which keeps other
        jobs off the node. Each of the numbers may be a range with C(min) and C(max). It stands for C(min), twice that,
        and so on, up to C(max). Several ranges stand for all combinations, at most 64 sizes, with names such as
        C(NAME-4c-16000m).
        A glidein with less free disk than C(min_disk_mb) ends; it offers what is free (default C(disk_mb), with
        C(whole_node) or C(granted=auto) at most V(1000))."
      - C(node) is the largest possible request of a glidein, with the keys of a shape. It replaces C(shapes) by shapes
        named C(whole), C(half), C(quarter), C(eighth), C(sixteenth), C(thirtysecond) and C(sixtyfourth), down to one
        core and, if it has GPUs, one GPU. With C(whole_node) there is only C(whole).
      - "C(limits) has C(queued) (default 10), C(total) (queued, running and all others in the queue; default 100),
        C(per_cycle) (submitted by one run; default 10), C(cores) and C(gpus) (of all that are in the queue; default
        any number, used only by the plan) and C(array) (tasks of one array job; default any number,
        V(1) for no array jobs)."
      - "C(resources) sets how the batch system is asked for the resources of a shape, by C(memory), C(memory_unit),
        C(disk), C(gpus), C(gpu_type), C(whole_node) and C(parallel_environment). Each batch system has its own values
        and defaults; with V(none) the resource is not requested."
      - C(constraint) restricts the nodes, in the syntax of the batch system.
      - C(memory_per_core_mb) is for sites that allot memory by the core. A shape then has as many cores as its memory
        needs, and all memory of these cores.
      - C(memory_overhead_mb) (default 64 and 4 for each core) is the memory that the glidein itself needs. The batch
        system is asked for so much more than jobs are offered. With C(whole_node), C(node) or C(memory_per_core_mb),
        jobs are offered so much less than is requested.
      - C(accept) has C(min) and C(max) for any of C(cpus), C(memory_mb), C(disk_mb), C(gpus) of jobs that the entry
        is for. Glideins are ordered for such jobs only, and start no others.
      - C(rank) is a ClassAd expression; MY is the machine, TARGET the job. The negotiator prefers for each job the
        slots that rank it highest. Without it glideins rank jobs lower that leave their GPUs or their memory unused.
      - C(cpu_only) and C(gpu_only) (default V(false)) stand for a C(max) of 0 and a C(min) of 1 GPU in C(accept).
      - "C(accept_requirements) is a ClassAd expression that is true for the jobs that glideins are ordered for. MY is
        the machine, TARGET the job, such as V(TARGET.ProjectName == \"icecube\")."
      - C(directives) is a list of further options for the batch script, such as V(-C EGRESS). The
        collection's own options override them.
      - C(environment) adds to that of M(glidein.ops.glideins); C(modules) and C(scratch) replace those of that module.
        In values of C(environment), V($NAME) and V(${NAME}) stand for variables of the batch job; nothing else is
        replaced.
      - "C(attributes) maps ClassAd attributes to the values that the glidein's machine ad carries."
      - C(retirement) is the time before its end in which a glidein accepts no more jobs (default V(10m), or a quarter
        of the walltime if that is shorter). C(idle_timeout) is the time without a job after which it ends (default
        V(20m), V(10m) for shapes with C(whole_node)). C(idle_after_job) is the same for one that has run a job (default
        C(idle_timeout) if that is given, else V(5m)).
      - C(lost_timeout) (default V(20m); 0 for never) is the time without the pool's collector, and without a job, after
        which a glidein ends. C(log_mb) (default 20) is the limit in MiB on its daemons' logs in its scratch directory.
        C(log_interval) replaces O(glidein.ops.glideins#module:log_interval).
      - C(fast_failures) (default 5; 0 for never) is the number of consecutive jobs that failed, each within
        C(fast_failure_time) (default V(60s)), after which a glidein accepts no more.
      - C(checks) maps names of executables that the glidein runs every C(check_period) (default V(10m)) to their
        arguments, or is a list of names. C(require_checks) names those that must have passed before a job starts.
      - C(priority) orders entries; the higher is used first (default 0). C(weight) (default 1) is an entry's share
        among those of its priority if C(glidein_allocation) is V(spread). C(eagerness) overrides C(glidein_eagerness).
    type: dict
    required: true
  limits:
    description:
      - Limits of the whole site, with the keys that C(limits) of an entry has. A missing key means no limit.
    type: dict
    default: {}
  home:
    description:
      - Directory on the login node that has the site's files in a subdirectory of the site's name.
    type: str
    default: ~/.glidein
  log_dir:
    description:
      - Directory for the output of batch jobs and the logs of their glideins, which the compute nodes can write to. By
        default C(log) in the site's directory.
    type: str
"""
