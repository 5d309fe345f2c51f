# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Jobs that are held because they have exhausted the memory or the disk of the glidein. The ids of such jobs are added to
# condor_config, and the startd holds the jobs by PREEMPT and WANT_HOLD.
#
# Memory: HTCondor notices that the kernel has killed a job's process only where it may make control groups for jobs.
# Elsewhere the job would leave the queue as one that ended by itself with signal 9. So:
#   1. The starter runs job_exit after a job has ended and before it reports that to the access point.
#   2. If the job was killed, and the kernel has counted an out-of-memory kill that belongs to no other job, job_exit writes
#      the job's id into killed/ and waits.
#   3. hold_killed_jobs reads the id.
#
# Disk: if the file system of the scratch directory is full, the daemons cannot write their logs and end. The job would start
# again and again. watch_disk removes the reserve, which makes room for the logs, and holds the jobs that use more disk than
# their slot has.

HOLD_S=60       # how long job_exit waits for the hold; after that the job leaves the queue as it has ended
RESERVE_MB=2    # size of the reserve for the daemons' logs on a full disk
RESERVE_FILES=20 # number of its files, which reserve inodes
DISK_FULL_MB=2  # the disk is full if it has less than this free
DISK_FULL_S=120 # the glidein ends if the disk is full for so long; a job that is held may need most of it to vacate
MEASURE_S=20    # time limit to measure a file system or a directory; a file server or quota server may not respond
DISK_FULL_AT=   # since when the disk is full
DISK_JOBS=' '   # the jobs that were held for that

# oom_kills ROOT: print the number of processes in this process's control group (v1 or v2) that the kernel has killed because
# the memory was exhausted; print nothing if the kernel does not count them. ROOT is empty, except in tests.
oom_kills() {
  {
    cgroup_values "$1" "" memory.events
    cgroup_values "$1" memory memory.oom_control
  } | awk '{ for (i = 1; i < NF; i++) if ($i == "oom_kill" && $(i + 1) ~ /^[0-9]+$/ && !known) { print $(i + 1); known = 1 } }'
}

# condor_series: print the major version of HTCondor. With HTCondor 25.14.1 and an exit hook, the starter removes the job's
# directory before it transfers the output, and the job starts again and again. The hook is used with version 23 only.
condor_series() {
  awk -F '[ .]' '$1 ~ /CondorVersion:$/ { print $2; exit }' "$SCRATCH/tmp/try.out"
}

# config_held_jobs: print the part of condor_config that holds jobs.
config_held_jobs() {
  id='strcat(TARGET.GlobalJobId, "/", string(TARGET.NumShadowStarts))'
  cat <<CONFIG
# Jobs that are held. glidein.sh adds their ids.
GLIDEIN_KILLED_JOBS =
GLIDEIN_DISK_JOBS =
GLIDEIN_HOLD_FOR_DISK = stringListMember($id, "\$(GLIDEIN_DISK_JOBS)", ",") =?= True
PREEMPT = stringListMember($id, "\$(GLIDEIN_KILLED_JOBS)", ",") =?= True || \$(GLIDEIN_HOLD_FOR_DISK)
WANT_HOLD = \$(PREEMPT)
WANT_HOLD_REASON = ifThenElse(\$(GLIDEIN_HOLD_FOR_DISK), \\
  strcat("The disk of the glidein is full, and the job uses more disk than its slot has. ", \\
    "The slot of the job has ", string(MY.Disk / 1024), " MB: request more disk."), \\
  strcat("The kernel killed a process of the job because the memory of the glidein was exhausted. ", \\
    "The slot of the job has ", string(MY.Memory), " MB: request more memory."))
# (the numbers that HTCondor's own policies use for disk and for memory)
WANT_HOLD_SUBCODE = ifThenElse(\$(GLIDEIN_HOLD_FOR_DISK), 104, 102)
CONFIG
  mkdir -p "$SCRATCH/killed" || end_with 13 "the directory $SCRATCH/killed cannot be made"
  counted=$(oom_kills "")
  if [ -z "$counted" ] || [ "$(condor_series)" != 23 ]; then return 0; fi
  job_exit "$counted" >"$SCRATCH/job_exit"
  chmod 700 "$SCRATCH/job_exit"
  cat <<CONFIG
STARTER_JOB_HOOK_KEYWORD = GLIDEIN
GLIDEIN_HOOK_JOB_EXIT = $SCRATCH/job_exit
GLIDEIN_HOOK_JOB_EXIT_TIMEOUT = $((HOLD_S + 10))
CONFIG
}

# job_exit COUNTED: print the program that the starter runs with the job's ad on standard input. COUNTED is the number of
# out-of-memory kills before the first job.
job_exit() {
  cat <<PROGRAM
#!/bin/sh
SCRATCH='$SCRATCH'
counted=$1
PROGRAM
  cat <<'PROGRAM'
. "$SCRATCH/lib/resources.sh"
. "$SCRATCH/lib/held_jobs.sh"
[ "$1" != exit ] || report_killed_job
PROGRAM
}

# report_killed_job: called by job_exit. A shell whose child was killed usually ends with status 137. Each kill belongs to one
# job.
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

# wait_for_hold: wait until the starter, which is the parent of job_exit, has held the job. Until job_exit ends, the slot is
# not free.
wait_for_hold() {
  waited=0
  while [ "$waited" -lt "$HOLD_S" ]; do
    grep -q "(pid:$PPID) Hold all jobs" "$SCRATCH"/log/StarterLog.* 2>/dev/null && return 0
    sleep 1
    waited=$((waited + 1))
  done
}

# is_job_id TEXT: true for a GlobalJobId, a slash, and the number of times that the job was started. The text becomes part of
# condor_config.
is_job_id() {
  case $1 in
  *[!A-Za-z0-9_.#@:/-]* | /* | */) return 1 ;;
  */*) ;;
  *) return 1 ;;
  esac
}

# hold_killed_jobs: hold the jobs that job_exit has reported.
hold_killed_jobs() {
  for found in "$SCRATCH"/killed/*/job; do
    [ -f "$found" ] || continue
    job=$(head -n 1 "$found") || return 0
    if is_job_id "$job"; then
      hold_job GLIDEIN_KILLED_JOBS "$job" || return 0 # on a full disk, the next round tries again
      log "the kernel killed a process of job $job because the memory was exhausted: the job is held"
    fi
    rm -f "$found"
  done
}

# hold_job LIST ID: add a job to a list in condor_config. The startd reads it again and acts within five seconds.
hold_job() {
  # shellcheck disable=SC2016 # HTCondor's macro
  { printf '%s = $(%s),%s\n' "$1" "$1" "$2" >>"$SCRATCH/condor_config"; } 2>/dev/null || return 1
  kill -s HUP "$MASTER_PID" 2>/dev/null # the master passes it on
}

# make_reserve: allocate the room and the files that watch_disk frees. If it cannot be made, the glidein runs without it.
# Return 1 if there are not twice as many files: those of the reserve alone are no room for jobs.
make_reserve() {
  number=0
  mkdir -p "$SCRATCH/reserve" && dd if=/dev/zero of="$SCRATCH/reserve/room" bs=1048576 count="$RESERVE_MB" &&
    while [ "$number" -lt "$RESERVE_FILES" ]; do
      number=$((number + 1))
      true >"$SCRATCH/reserve/$number" && true >"$SCRATCH/reserve/spare.$number"
    done
  [ -e "$SCRATCH/reserve/spare.$RESERVE_FILES" ] || {
    rm -rf "$SCRATCH/reserve"
    return 1
  }
  rm -f "$SCRATCH"/reserve/spare.*
} 2>/dev/null

# measure_disk: exit with 100 + the MiB that are free, at most 10 of them; with 111 if no file can be made, for want of inodes
# for example; with 99 if df does not show it. (The result is an exit status, because a full disk cannot store a file.)
measure_disk() {
  { true >"$SCRATCH/tmp/probe"; } 2>/dev/null || exit 111
  rm -f "$SCRATCH/tmp/probe"
  free=$(free_mb "$SCRATCH")
  [ -n "$free" ] || exit 99
  [ "$free" -le 10 ] || free=10
  exit $((100 + free))
}

# watch_disk: if the disk is full, hold the jobs that use more of it than their slot has. End the glidein if the disk stays
# full: other users or jobs within their limits have filled it.
watch_disk() {
  run_limited "$MEASURE_S" measure_disk
  free=$(($? - 100))
  room="$free MB free"
  case $free in
  11) free=0 room="no file can be made" ;;
  10 | ?) ;;
  *) return 0 ;;
  esac
  read_now
  if [ -n "$DISK_FULL_AT" ] && [ "$free" -ge $((DISK_FULL_MB + 2 * RESERVE_MB)) ]; then
    room="few files can be made"
    ! run_limited "$MEASURE_S" make_reserve || {
      log "$GLIDEIN_SCRATCH has room again"
      DISK_FULL_AT=
    }
  elif [ -z "$DISK_FULL_AT" ] && [ "$free" -lt "$DISK_FULL_MB" ]; then
    log "$GLIDEIN_SCRATCH is full, $room: jobs that use more disk than their slot has are held"
    rm -rf "$SCRATCH/reserve"
    DISK_FULL_AT=$NOW
  fi
  [ -n "$DISK_FULL_AT" ] || return 0
  hold_large_jobs
  [ $((NOW - DISK_FULL_AT)) -ge "$DISK_FULL_S" ] || return 0
  stop_master "$EMPTY_STOP_S"
  end_with 13 "$GLIDEIN_SCRATCH is full: $room after $((NOW - DISK_FULL_AT)) s"
}

# hold_large_jobs: hold the jobs whose directory is larger than the disk of their slot.
hold_large_jobs() {
  for directory in "$SCRATCH"/execute/dir_*; do
    slot_kb=$(sed -n 's/^Disk = \([0-9][0-9]*\).*/\1/p' "$directory/.machine.ad" 2>/dev/null)
    job=$(awk '$1 == "GlobalJobId" { id = $3 } $1 == "NumShadowStarts" { starts = $3 } END { print id "/" starts }' \
      "$directory/.job.ad" 2>/dev/null | tr -d '"')
    case $DISK_JOBS in *" $job "*) continue ;; esac
    if [ -z "$slot_kb" ] || ! is_job_id "$job"; then continue; fi
    run_limited "$MEASURE_S" is_larger "$directory" "$slot_kb" || continue
    hold_job GLIDEIN_DISK_JOBS "$job" || return 0
    DISK_JOBS="$DISK_JOBS$job "
    log "job $job uses more disk than its slot has, $((slot_kb / 1024)) MB: the job is held"
  done
}

# is_larger DIRECTORY KIB: true if a directory uses more disk.
is_larger() {
  used_kb=$(du -sk "$1" 2>/dev/null | cut -f 1)
  [ "${used_kb:-0}" -gt "$2" ]
}
