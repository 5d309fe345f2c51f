# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The jobs that a glidein has run, and its summary, a line of JSON at its end. The startd writes an ad for each job that has
# left its slot (STARTD_HISTORY). The guard uses these functions, too, with the variables of the state file.

SUMMARY_WRITTEN= # set when the summary was written
JOBS=0           # jobs that have left their slot, whatever their outcome
JOBS_FAILED=0    # of these, jobs that ended by themselves with an error or could not be started
BUSY_CORE_S=0    # core-seconds that jobs had
FAST_FAILURES=0  # consecutive jobs that failed within FAST_FAILURE_S
FAST_FAILURE_S=60 # a job that fails sooner has not computed: its input, its software or the node is at fault
COUNTED_BYTES=0  # bytes of the history file that these numbers include

# count_jobs: count the jobs that the startd has recorded since the last call. A history file that the startd has rotated is
# counted to its end and removed.
count_jobs() {
  for full in "$SCRATCH"/jobs/history.*; do
    [ -f "$full" ] || continue
    count_records "$full" || return 0
    rm -f "$full"
    COUNTED_BYTES=0
  done
  count_records "$SCRATCH/jobs/history"
}

# count_records FILE: count the ads in a file; return false if it cannot be read. An ad has one line for each attribute, sorted
# by name, and ends with a line of asterisks. A job ended by itself if its "ticket of execution" (ToE) says so and belongs to
# this run of the job.
count_records() {
  [ -s "$1" ] || return 0
  there=$(wc -c <"$1") || return 1
  there=$((there - COUNTED_BYTES))
  [ "$there" -gt 0 ] || return 0
  counts=$(tail -c "+$((COUNTED_BYTES + 1))" "$1" 2>/dev/null |
    awk -v there="$there" -v most="$GLIDEIN_CPUS" -v fast="$FAST_FAILURES" -v fast_s="$FAST_FAILURE_S" '
      function forget() { cpus = wanted = wall = ended = code = own_end = 0; signal = ran = 0 }
      BEGIN { forget() }
      { bytes += length($0) + 1 }
      bytes > there { exit } # the startd is still writing this line
      $2 != "=" && $1 != "***" { next }
      $1 == "CpusProvisioned" { cpus = $3 + 0 }
      $1 == "RequestCpus" { wanted = $3 + 0 }
      $1 == "RemoteWallClockTime" { wall = $3 + 0 }
      $1 == "CompletionDate" { ended = $3 + 0 }
      $1 == "ExitCode" { code = $3 + 0 }
      $1 == "ExitBySignal" { signal = ($3 == "true") }
      $1 == "JobPid" { ran = 1 }
      $1 == "ToE" && /Who = "itself"/ && match($0, /When = [0-9]+/) { own_end = substr($0, RSTART + 7, RLENGTH - 7) + 0 }
      $1 == "***" {
        if (cpus < 1) cpus = wanted
        if (cpus < 1) cpus = 1
        if (cpus > most) cpus = most
        if (wall < 0) wall = 0
        jobs++
        busy += cpus * wall
        by_itself = own_end > 0 && own_end >= ended - wall - 2
        if (by_itself && !signal && code == 0) fast = 0
        else if (by_itself || !ran) {
          failed++
          if (wall < fast_s) fast++
        }
        forget()
        counted = bytes
      }
      END { printf "%.0f %.0f %.0f %.0f %.0f\n", counted, jobs, failed, busy, fast }')
  [ -n "$counts" ] || return 1
  read -r more_bytes more_jobs more_failed more_busy FAST_FAILURES <<COUNTS
$counts
COUNTS
  COUNTED_BYTES=$((COUNTED_BYTES + more_bytes))
  JOBS=$((JOBS + more_jobs))
  JOBS_FAILED=$((JOBS_FAILED + more_failed))
  BUSY_CORE_S=$((BUSY_CORE_S + more_busy))
  return 0
}

# write_summary STATUS REASON: write the summary, once.
write_summary() {
  [ -z "$SUMMARY_WRITTEN" ] || return 0
  read_now
  ended=$NOW
  [ "$ended" -ge "$STARTED_AT" ] || ended=$STARTED_AT # the clock was set back
  # shellcheck disable=SC2153 # NAME is of scratch.sh
  log "summary {\"name\":$(json_text "${NAME:-glidein_${GLIDEIN_BATCH_ID}_$STARTED_AT}")," \
    "\"site\":$(json_text "$GLIDEIN_SITE"),\"entry\":$(json_text "$GLIDEIN_ENTRY")," \
    "\"shape\":$(json_text "$GLIDEIN_SHAPE"),\"batch_id\":$(json_text "$GLIDEIN_BATCH_ID")," \
    "\"started\":$STARTED_AT,\"registered\":${REGISTERED_AT:-null},\"ended\":$ended," \
    "\"granted_cpus\":$GLIDEIN_CPUS,\"granted_core_s\":$((GLIDEIN_CPUS * (ended - STARTED_AT)))," \
    "\"busy_core_s\":$BUSY_CORE_S,\"jobs\":$JOBS,\"jobs_failed\":$JOBS_FAILED," \
    "\"exit_status\":$1,\"reason\":$(json_text "$2")}"
  SUMMARY_WRITTEN=yes
}

# json_text TEXT: print the first 300 characters as a JSON string. Characters other than printable ASCII become '?'.
json_text() {
  printf '"%s"' "$(printf '%s' "$1" | tr -c ' -~' '?' | cut -c 1-300 | sed 's/[\\"]/\\&/g')"
}
