# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Jobs that the kernel kills because the memory of this batch job is exhausted. HTCondor notices such a kill only where it
# may make control groups for jobs. Elsewhere the job would leave the queue as one that ended by itself with signal 9. So it
# is held here:
#   1. The starter runs job_exit after a job has ended and before it reports that to the access point.
#   2. If the job was killed, and the kernel has counted an out-of-memory kill that belongs to no other job, job_exit writes
#      the job's id into killed/ and waits.
#   3. hold_killed_jobs adds the id to condor_config, and the startd holds the job by PREEMPT and WANT_HOLD.

HOLD_S=60 # how long job_exit waits for the hold. Then the job leaves the queue as it has ended

# oom_kills ROOT: the number of processes that the kernel has killed for want of memory in the control group (v1 or v2) of
# this process; nothing if the kernel does not count them. ROOT is empty, except in tests.
oom_kills() {
  {
    cgroup_values "$1" memory.events
    for directory in $(cgroup_directories "$1" memory | tr ' ' '?'); do
      cat "$directory/memory.oom_control" 2>/dev/null
    done
  } | awk '$1 == "oom_kill" && $2 ~ /^[0-9]+$/ && !known { print $2; known = 1 }'
}

# condor_series: the first number of HTCondor's version. With HTCondor 25.14.1 and any exit hook, the starter removes the job's
# directory before its output is transferred, and the job starts again and again. Only 23 was tried besides.
condor_series() {
  awk -F '[ .]' '$1 ~ /CondorVersion:$/ { print $2; exit }' "$SCRATCH/tmp/try.out"
}

# config_killed_jobs: the part of condor_config that holds them.
config_killed_jobs() {
  mkdir -p "$SCRATCH/killed" || leave 13 "the directory $SCRATCH/killed cannot be made"
  counted=$(oom_kills "")
  if [ -z "$counted" ] || [ "$(condor_series)" != 23 ]; then
    echo "PREEMPT = False"
    return 0
  fi
  job_exit "$counted" >"$SCRATCH/job_exit"
  chmod 700 "$SCRATCH/job_exit"
  cat <<CONFIG
# A job that the kernel has killed for want of memory is held. glidein.sh adds the ids of such jobs.
STARTER_JOB_HOOK_KEYWORD = GLIDEIN
GLIDEIN_HOOK_JOB_EXIT = $SCRATCH/job_exit
GLIDEIN_HOOK_JOB_EXIT_TIMEOUT = $((HOLD_S + 10))
GLIDEIN_KILLED_JOBS =
PREEMPT = stringListMember(strcat(TARGET.GlobalJobId, "/", string(TARGET.NumShadowStarts)), "\$(GLIDEIN_KILLED_JOBS)", ",") =?= True
WANT_HOLD = \$(PREEMPT)
WANT_HOLD_REASON = strcat("The kernel killed a process of the job because the memory of the glidein was exhausted. ", \\
  "The slot of the job has ", string(MY.Memory), " MB: request more memory.")
# (the number that HTCondor uses for memory)
WANT_HOLD_SUBCODE = 102
CONFIG
}

# job_exit COUNTED: the program that the starter runs, with the job's ad on standard input. COUNTED: the out-of-memory kills
# before the first job.
job_exit() {
  cat <<PROGRAM
#!/bin/sh
SCRATCH='$SCRATCH'
counted=$1
PROGRAM
  cat <<'PROGRAM'
. "$SCRATCH/lib/granted.sh"
. "$SCRATCH/lib/memory.sh"
[ "$1" != exit ] || report_killed_job
PROGRAM
}

# report_killed_job: for job_exit. A shell whose child was killed usually ends with status 137. Each kill is of one job.
report_killed_job() {
  job=$(awk '
    $2 != "=" { next }
    $1 == "GlobalJobId" { id = $3 }
    $1 == "NumShadowStarts" { starts = $3 }
    $1 == "ExitBySignal" { by_signal = $3 }
    $1 == "ExitSignal" { signal = $3 }
    $1 == "ExitCode" { code = $3 }
    END { if (by_signal == "true" ? signal == 9 : code == 137) print id "/" starts }' | tr -d '"')
  is_job_id "$job" || return 0
  kills=$(oom_kills "")
  while [ "$counted" -lt "${kills:-0}" ]; do
    counted=$((counted + 1))
    mkdir "$SCRATCH/killed/$counted" 2>/dev/null || continue
    printf '%s\n' "$job" >"$SCRATCH/killed/$counted/new" && mv "$SCRATCH/killed/$counted/new" "$SCRATCH/killed/$counted/job"
    wait_for_hold
    return 0
  done
}

# wait_for_hold: until the starter, which is the parent of job_exit, has held the job. The slot is not free before job_exit
# ends.
wait_for_hold() {
  waited=0
  while [ "$waited" -lt "$HOLD_S" ]; do
    grep -q "(pid:$PPID) Hold all jobs" "$SCRATCH"/log/StarterLog.* 2>/dev/null && return 0
    sleep 1
    waited=$((waited + 1))
  done
}

# is_job_id TEXT: a GlobalJobId, a slash, and the number of times that the job was started. It becomes part of condor_config.
is_job_id() {
  case $1 in
  *[!A-Za-z0-9_.#@:/-]* | /* | */) return 1 ;;
  */*) ;;
  *) return 1 ;;
  esac
}

# hold_killed_jobs: the startd acts on its configuration within five seconds.
hold_killed_jobs() {
  held=
  for found in "$SCRATCH"/killed/*/job; do
    [ -f "$found" ] || continue
    job=$(head -n 1 "$found")
    rm -f "$found"
    is_job_id "$job" || continue
    # shellcheck disable=SC2016 # HTCondor's macro
    printf 'GLIDEIN_KILLED_JOBS = $(GLIDEIN_KILLED_JOBS),%s\n' "$job" >>"$SCRATCH/condor_config" || return 0
    say "the kernel killed a process of job $job for want of memory: the job is held"
    held=yes
  done
  [ -z "$held" ] || kill -s HUP "$MASTER_PID" 2>/dev/null # all daemons read it again
}
