# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# How the glidein runs: the lines of its log, its endings and signals. All output goes to stdout, the log of the batch job.

END_STATUS=
END_REASON=
STARTED_AT=${GLIDEIN_STARTED_AT:-$(date +%s)} # enter_image sets GLIDEIN_STARTED_AT
unset GLIDEIN_STARTED_AT

# read_now: store the time in epoch seconds in NOW, by the clock as it was at the start and the node's uptime. It does not jump
# when the node's clock is set, so that the glidein retires, ends and stops in time. It starts no process, because a job may
# have filled the user's process limit.
read_now() {
  read -r uptime _ </proc/uptime || return 0
  NOW=$((CLOCK_AT + ${uptime%%.*} - ${STARTED_UPTIME%%.*}))
}
read -r STARTED_UPTIME _ </proc/uptime || STARTED_UPTIME=0
CLOCK_AT=$(date +%s)
NOW=$CLOCK_AT

# seconds_since UPTIME: print the seconds since that uptime of the node, with two decimals.
seconds_since() {
  awk -v since="$1" '{ printf "%.2f", $1 - since }' /proc/uptime
}

# log TEXT...: print one line that begins with the time (UTC). If no process can be started, that is the time of an earlier
# line.
LOGGED_AT=
log() {
  attempt read_date
  printf '%s glidein: %s\n' "${LOGGED_AT:--}" "$*"
}

read_date() {
  LOGGED_AT=$(date -u +%Y-%m-%dT%H:%M:%SZ)
}

# attempt COMMAND...: run a command of this shell, and return its status, or 255 if it has not reached its end. If a process
# cannot be started ("Cannot fork"), dash and busybox exit, except inside `command eval`. (bash retries for 15 s and exits.) In
# busybox, a child process with such an error would return from here and run the rest of the script, so it is killed.
attempt() {
  read -r self _ </proc/self/stat
  set -- "$self" "$@"
  attempted=
  command eval 'run_attempted "$@"; attempted=$?'
  read -r self _ </proc/self/stat
  [ "$self" = "$1" ] || kill -s KILL "$self"
  set -- "${attempted:-255}"
  attempted= # for an attempt that this one is a part of
  return "$1"
}

run_attempted() {
  shift
  "$@"
}

# until_done COMMAND...: attempt a command until it has reached its end, and return its status. If it has not reached its end
# in ten attempts that could start processes, the error is another one: return 255.
ATTEMPTS=0
until_done() {
  ATTEMPTS=0
  while [ "$ATTEMPTS" -lt 10 ]; do
    attempt with_processes "$@"
    done_status=$?
    [ "$done_status" -eq 255 ] || return "$done_status"
    busy_wait
  done
  return 255
}

# with_processes COMMAND...: run a command if several processes can be started; else return 255. (Without a pipe: dash and
# busybox do not close a pipe for which they cannot start a process.)
with_processes() {
  (: & : & : & : & wait) || return 255
  ATTEMPTS=$((ATTEMPTS + 1))
  "$@"
}

# busy_wait: wait for at least a second without starting a process.
busy_wait() {
  read_now
  waits_until=$((NOW + 2))
  while [ "$NOW" -lt "$waits_until" ]; do
    read_now
  done
}

# end_with STATUS REASON...: end the glidein. The EXIT trap cleans up and logs the reason.
end_with() {
  END_STATUS=$1
  shift
  END_REASON=$*
  [ -z "$IN_SUBPROCESS" ] || pass_reason "$END_REASON"
  exit "$END_STATUS"
}

# log_tail FILE LINES: print the last lines of a daemon's log, indented and without tokens.
log_tail() {
  [ -s "$1" ] || return 0
  log "last lines of ${1##*/}:"
  tail -n "$2" "$1" | without_tokens | sed 's/^/    /'
}

# without_tokens: copy standard input to standard output with tokens replaced.
without_tokens() {
  sed 's/eyJ[A-Za-z0-9_=-]*\.[A-Za-z0-9_.=-]*/<token>/g'
}

# Signals of batch systems: TERM (scancel, qdel), HUP and INT (a terminal), USR1 and USR2 (warnings before a kill), XCPU (Grid
# Engine at s_cpu, LSF at CPULIMIT), QUIT (LSF at SWAPLIMIT). Of the kernel: PIPE (the output has no reader), XFSZ (the output
# is larger than the limit of a file's size).
SIGNALS="HUP INT QUIT PIPE USR1 USR2 TERM XCPU XFSZ"
SIGNAL=
SIGNAL_STATUS=
catch_signals() {
  trap finish EXIT
  for each in HUP:129 INT:130 QUIT:131 USR1:138 USR2:140 PIPE:141 TERM:143 XCPU:152 XFSZ:153; do
    # shellcheck disable=SC2064 # expanded now
    trap "on_signal ${each%:*} ${each#*:}" "${each%:*}"
  done
}

# on_signal NAME STATUS: before condor_master is started, a signal ends the script. After that, watch_master stops it first.
on_signal() {
  [ -n "$SIGNAL" ] || {
    SIGNAL=$1
    SIGNAL_STATUS=$2
  }
  [ -n "${MASTER_PID:-}" ] || end_with "$SIGNAL_STATUS" "of signal $SIGNAL"
  INTERRUPTED=yes
  stop_pausing
}

# pause SECONDS: sleep until a signal arrives. A signal since the last pause ends the pause, too. Return 1 if no process can be
# started.
PAUSE_PID=
INTERRUPTED=
pause() {
  paused=0
  attempt start_pausing "$1"
  if [ -z "$PAUSE_PID" ]; then
    busy_wait
    paused=1
  elif [ -z "$INTERRUPTED" ]; then
    wait "$PAUSE_PID" 2>/dev/null
  fi
  stop_pausing
  INTERRUPTED=
  return "$paused"
}

start_pausing() {
  sleep "$1" >/dev/null 2>&1 &
  PAUSE_PID=$!
}

stop_pausing() {
  [ -z "$PAUSE_PID" ] || kill "$PAUSE_PID" 2>/dev/null
  PAUSE_PID=
}

# finish: the EXIT trap. It removes everything that this glidein has on the node.
finish() {
  END_EXIT=$?
  # Not in a child process: bash may run this trap in a child if a signal arrives at the moment of the fork.
  { read -r self _ </proc/self/stat; } 2>/dev/null || self=$$
  [ "$self" = "$$" ] || exit "$END_EXIT"
  # shellcheck disable=SC2086 # a list of signals
  trap '' $SIGNALS
  trap - EXIT
  [ -n "$END_STATUS" ] || {
    END_STATUS=${SIGNAL_STATUS:-$END_EXIT}
    END_REASON="of ${SIGNAL:+signal }${SIGNAL:-an error in the script itself}"
    stop_master "$EMPTY_STOP_S"
  }
  SIGNAL= # it no longer shortens run_limited
  until_done clean_up
  log_end "$END_STATUS" "$END_REASON"
  exit "$END_STATUS"
}

# log_end STATUS REASON: log the last line.
log_end() {
  read_now
  log "ended because $2 (exit status $1, after $((NOW - STARTED_AT)) s)"
}

# clean_up: stop what this script has started, and leave the node. It may be called again.
clean_up() {
  stop_pausing
  stop_limited
  stop_shipping
  stop_guard
  leave_node "$END_STATUS" "${SETTINGS_VALID:+$END_REASON}"
}

# leave_node STATUS REASON: kill the processes of the glidein, save its logs, write its summary, and remove its scratch
# directory. Each has a time limit, so that the summary is written even if a file system does not respond. Without a REASON,
# there are no logs and no summary.
leave_node() {
  [ -z "$SCRATCH" ] || run_limited 20 until_done kill_leftovers
  if [ -n "$SCRATCH" ] && [ -n "$2" ]; then
    run_limited 30 save_logs || log "the daemons' logs could not be copied within 30 s"
    [ -z "${GLIDEIN_LOG_S3-}" ] || run_limited 10 upload_logs || log "the daemons' logs could not be uploaded within 10 s"
    count_jobs
  fi
  [ -z "$2" ] || write_summary "$1" "$2"
  [ -z "$SCRATCH${GLIDEIN_IMAGE_CACHE-}" ] || run_limited 60 until_done remove_scratch ||
    log "could not remove all of $SCRATCH"
}
