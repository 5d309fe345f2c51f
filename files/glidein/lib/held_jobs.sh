# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The disk. If the file system of the scratch directory is full, the daemons cannot write their logs and end, and the jobs would
# start again and again. watch_disk removes the reserve, which makes room for the logs, and holds the jobs that use more disk
# than their slot has. Their ids are added to condor_config. (HTCondor's policy Hold_If_Disk_Exceeded measures too late.)

RESERVE_MB=2    # size of the reserve for the daemons' logs on a full disk
RESERVE_FILES=20 # number of its files, which reserve inodes
DISK_FULL_MB=2  # the disk is full if it has less than this free
DISK_FULL_S=120 # the glidein ends if the disk is full for so long; a job that is held may need most of it to vacate
MEASURE_S=20    # time limit to measure a file system or a directory; a file server or quota server may not respond
DISK_FULL_AT=   # since when the disk is full
DISK_JOBS=' '   # the jobs that were held for that

# config_holds: print the part of condor_config that holds jobs.
config_holds() {
  cat <<CONFIG
# Jobs that are held because the disk is full. glidein.sh adds their ids.
GLIDEIN_DISK_JOBS =
GLIDEIN_HOLD_FOR_DISK = (stringListMember(strcat(TARGET.GlobalJobId, "/", string(TARGET.NumShadowStarts)), \\
  "\$(GLIDEIN_DISK_JOBS)", ",") =?= True)
PREEMPT = \$(GLIDEIN_HOLD_FOR_DISK)
WANT_HOLD = \$(GLIDEIN_HOLD_FOR_DISK)
WANT_HOLD_REASON = strcat("The disk of the glidein is full, and the job uses more disk than its slot has. ", \\
  "The slot of the job has ", string(MY.Disk / 1024), " MB: request more disk.")
# (the number that HTCondor's own policy uses)
WANT_HOLD_SUBCODE = 104
# A job that uses more memory than its slot has is held because "memory usage exceeded request_memory", with subcode 102.
use POLICY : Hold_If_Memory_Exceeded
CONFIG
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
    # The startd reads the list again and acts within five seconds. On a full disk, the next round tries again.
    # shellcheck disable=SC2016 # HTCondor's macro
    { printf 'GLIDEIN_DISK_JOBS = $(GLIDEIN_DISK_JOBS),%s\n' "$job" >>"$SCRATCH/condor_config"; } 2>/dev/null || return 0
    kill -s HUP "$MASTER_PID" 2>/dev/null # the master passes it on
    DISK_JOBS="$DISK_JOBS$job "
    log "job $job uses more disk than its slot has, $((slot_kb / 1024)) MB: the job is held"
  done
}

# is_larger DIRECTORY KIB: true if a directory uses more disk.
is_larger() {
  used_kb=$(du -sk "$1" 2>/dev/null | cut -f 1)
  [ "${used_kb:-0}" -gt "$2" ]
}
