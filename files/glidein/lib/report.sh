# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The log lines of a glidein, its endings and its signals. All output goes to stdout, the batch job's log.

END_STATUS=
END_REASON=
SETTINGS_VALID= # set when all settings were checked
STARTED_AT=${GLIDEIN_STARTED_AT:-$(date +%s)} # container_image.sh sets GLIDEIN_STARTED_AT
unset GLIDEIN_STARTED_AT

# read_uptime: store the node's uptime in hundredths of a second in HUNDREDTHS. It measures intervals, because date has whole
# seconds only. It starts no process, because a job may have filled the user's process limit.
read_uptime() {
  if read -r uptime _ 2>/dev/null </proc/uptime; then
    in_hundredths "$uptime"
  else
    HUNDREDTHS=$(date +%s)00
  fi
}

# in_hundredths SECONDS: store a decimal number of seconds in hundredths in HUNDREDTHS. The shell reads a number with a leading
# zero as octal.
in_hundredths() {
  decimals=${1#"${1%%.*}"}
  decimals=${decimals#.}00
  HUNDREDTHS=$((${1%%.*} * 100 + 1${decimals%"${decimals#??}"} - 100))
}
read_uptime
STARTED_CS=$HUNDREDTHS
CLOCK_AT=$(date +%s)

# read_now: store the time in epoch seconds in NOW, by the clock as it was at the start. It does not jump when the node's
# clock is set, so that the glidein retires, ends and stops in time.
read_now() {
  read_uptime
  NOW=$((CLOCK_AT + (HUNDREDTHS - STARTED_CS) / 100))
}

# in_seconds HUNDREDTHS: print them as seconds.
in_seconds() {
  printf '%d.%02d' $(($1 / 100)) $(($1 % 100))
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
  trap 'on_signal HUP 129' HUP
  trap 'on_signal INT 130' INT
  trap 'on_signal QUIT 131' QUIT
  trap 'on_signal USR1 138' USR1
  trap 'on_signal USR2 140' USR2
  trap 'on_signal PIPE 141' PIPE
  trap 'on_signal TERM 143' TERM
  trap 'on_signal XCPU 152' XCPU
  trap 'on_signal XFSZ 153' XFSZ
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
  read_now
  log "ended because $END_REASON (exit status $END_STATUS, after $((NOW - STARTED_AT)) s)"
  exit "$END_STATUS"
}

# clean_up: stop what runs, save the logs, write the summary, remove the scratch directory. It may be called again.
clean_up() {
  stop_pausing
  stop_limited
  stop_shipping
  stop_guard
  # With time limits, so that the summary is written even if a file system does not respond.
  if [ -n "$SCRATCH" ]; then
    run_limited 20 until_done kill_leftovers
    run_limited 30 save_logs || log "the daemons' logs could not be copied within 30 s"
    [ -z "${GLIDEIN_LOG_S3-}" ] || run_limited 10 upload_logs || log "the daemons' logs could not be uploaded within 10 s"
  fi
  if [ -n "$SETTINGS_VALID" ]; then
    [ -z "$MASTER_AT" ] || count_jobs
    read_now
    write_summary "$END_STATUS" "$NOW" "$END_REASON"
  fi
  [ -z "$SCRATCH${GLIDEIN_IMAGE_CACHE-}" ] || run_limited 60 until_done remove_scratch ||
    log "could not remove all of $SCRATCH"
}
