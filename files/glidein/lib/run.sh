# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# How the glidein runs: the lines of its log, its endings and signals, and time limits. All output goes to stdout, the log of
# the batch job. A file server, a name server or a driver may not respond. What needs one runs in a process of its own, for a
# limited time. The script handles signals while it waits for that process. (The program `timeout` would delay the signals.)

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
  leave_node "$END_STATUS" "" "${SETTINGS_VALID:+$END_REASON}"
}

# leave_node STATUS ENDED REASON: kill the processes of the glidein, save its logs, write its summary, and remove its scratch
# directory. Each has a time limit, so that the summary is written even if a file system does not respond. ENDED is in epoch
# seconds; empty: now. Without a REASON, there are no logs and no summary.
leave_node() {
  [ -z "$SCRATCH" ] || run_limited 20 until_done kill_leftovers
  if [ -n "$SCRATCH" ] && [ -n "$3" ]; then
    run_limited 30 save_logs || log "the daemons' logs could not be copied within 30 s"
    [ -z "${GLIDEIN_LOG_S3-}" ] || run_limited 10 upload_logs || log "the daemons' logs could not be uploaded within 10 s"
    count_jobs
  fi
  read_now
  [ -z "$3" ] || write_summary "$1" "${2:-$NOW}" "$3"
  [ -z "$SCRATCH${GLIDEIN_IMAGE_CACHE-}" ] || run_limited 60 until_done remove_scratch ||
    log "could not remove all of $SCRATCH"
}

# --- Time limits

LIMITED_RUNNING= # set while such a process may exist
TIMED_OUT=       # set when its time limit was reached
IN_SUBPROCESS=   # set in such a process

# run_limited SECONDS COMMAND...: run a command and return its status. If the time limit is reached, or a signal that ends
# the glidein arrives, kill the command and its child processes and return 124. It is not waited for after that, because a
# process that hangs in the kernel cannot be killed. After such a signal, return 124 without running the command.
run_limited() {
  [ -z "$SIGNAL" ] || return 124
  limit_s=$1
  shift
  TIMED_OUT=
  trap 'TIMED_OUT=yes' ALRM
  read -r self _ </proc/self/stat
  LIMITED_RUNNING=yes
  ("$@") &
  worker=$!
  send_alarm "$limit_s" "$self" >/dev/null 2>&1 &
  watchdog=$!
  ended=124
  while [ -z "$TIMED_OUT$SIGNAL" ]; do
    wait "$worker" 2>/dev/null
    ended=$?
    kill -0 "$worker" 2>/dev/null || break
  done
  # (KILL, because the new process may not have set its handlers for other signals yet.)
  kill -s KILL "$watchdog" 2>/dev/null
  wait "$watchdog" 2>/dev/null
  if kill -0 "$worker" 2>/dev/null; then
    # (2>/dev/null, because bash prints a message about the killed process.)
    {
      kill_tree "$worker"
      sleep 1
      [ "$(start_of "$worker")" != 0 ] || wait "$worker"
    } 2>/dev/null
    ended=124
  fi
  LIMITED_RUNNING=
  # If ALRM arrives when the command has just ended, its status is lost.
  [ -z "$TIMED_OUT" ] || ended=124
  return "$ended"
}

# start_of PID: print the start time of a process; 0 if it does not exist or is a zombie. (The name of a process may contain
# blanks and brackets. The fields are counted after the last bracket.) It starts no process, because a process that cannot be
# started would count as a process that does not exist.
start_of() {
  stat=
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null
  # shellcheck disable=SC2086 # fields
  set -- ${stat##*) }
  case ${1:-X} in
  [ZX]) echo 0 ;;
  *) echo "${20-0}" ;;
  esac
}

# retry ATTEMPTS COMMAND...: run a command that needs a server. If it fails, try again, with growing pauses: the server may be
# busy or just be restarting.
retry() {
  attempts=$1
  shift
  round=1
  until "$@"; do
    failed=$?
    [ "$round" -lt "$attempts" ] || return "$failed"
    sleep $((round * round))
    round=$((round + 1))
  done
}

# ending_of STATUS: print the status of a program and the signal that has killed it, with the limit that it may have reached.
ending_of() {
  signal=
  if [ "$1" -gt 128 ] && [ "$1" -le 192 ]; then signal=$(kill -l "$1" 2>/dev/null); fi
  case $signal in
  XFSZ) signal="XFSZ: a file is larger than the limit, $(limit_of 'Max file size') bytes" ;;
  XCPU) signal="XCPU: the limit of CPU time is reached, $(limit_of 'Max cpu time') s" ;;
  esac
  echo "status $1${signal:+, signal $signal}"
}

# limit_of NAME: print a limit of this process, in the unit of /proc/self/limits. (The units of `ulimit` differ between
# shells.)
limit_of() {
  sed -n "s/^$1  *\([^ ]*\) .*/\1/p" /proc/self/limits 2>/dev/null
}

# failure_of STATUS OUTPUT: print why a program has failed: its last line, or how it has ended if it was killed or printed
# nothing.
failure_of() {
  line=$(printf '%s\n' "$2" | grep . | tail -n 1)
  if [ -z "$line" ] || [ "$1" -gt 128 ]; then line="${line:+$line; }$(ending_of "$1")"; fi
  echo "$line"
}

# send_alarm SECONDS PID: send ALRM to a process after so many seconds, every second until this process is killed.
send_alarm() {
  passed=0
  while kill -0 "$2" && { [ "$passed" -lt "$1" ] || kill -s ALRM "$2"; }; do
    sleep 1
    passed=$((passed + 1))
  done
}

# stop_limited: at the end of the glidein, kill what still runs with a time limit.
stop_limited() {
  [ -n "$LIMITED_RUNNING" ] || return 0
  kill_tree "$$"
  LIMITED_RUNNING=
}

# kill_tree PID: kill a process and its descendants, parents first, so that a parent cannot start another child. If PID is
# this script, kill only its descendants.
kill_tree() {
  # shellcheck disable=SC2046 # a list of process ids
  kill -s KILL $(cat /proc/[0-9]*/stat 2>/dev/null | tree_of "$1" | grep -vx "$$") 2>/dev/null
}

# tree_of PID: read lines of /proc/*/stat ("id (name) state parent ...") from standard input. Print PID and the ids of its
# descendants, from the top.
tree_of() {
  sed 's/(.*)//' | awk -v top="$1" '
    { parent[$1] = $3 }
    END {
      for (process in parent) {
        at = process
        for (steps = 0; at != top && (at in parent) && steps < 100; steps++) at = parent[at]
        if (at == top) print steps, process
      }
    }' | sort -n | cut -d ' ' -f 2
}

# run_step SECONDS NAME FUNCTION: run a step that HTCondor's start needs. If the step fails or takes longer, the glidein ends.
run_step() {
  try_step "$1" "$3" && return 0
  [ "$status" -eq 124 ] || end_with 34 "$2 was killed: $(ending_of "$status")"
  end_with 34 "$2 took longer than $1 s: this node, or a server that it needs, does not respond"
}

# try_step SECONDS FUNCTION: run an optional step. Return false if it takes longer or is killed. If the step calls end_with,
# the glidein ends.
try_step() {
  run_limited "$1" step_body "$2"
  status=$?
  [ "$status" -ne 0 ] || return 0
  [ "$status" -eq 124 ] || [ ! -s "$SCRATCH/end_reason" ] || end_with "$status" "$(cat "$SCRATCH/end_reason")"
  return 1
}

step_body() {
  IN_SUBPROCESS=yes
  rm -f "$SCRATCH/end_reason"
  "$1"
  exit 0
}

# pass_reason REASON: store the reason why a step ends the glidein, for the process that waits for the step. If the disk is
# full, remove the unpacked tarball to make room.
pass_reason() {
  for round in 1 2; do
    [ "$round" -eq 1 ] || rm -rf "$SCRATCH/condor"
    printf '%s\n' "$1" 2>/dev/null >"$SCRATCH/end_reason"
    [ "$(cat "$SCRATCH/end_reason" 2>/dev/null)" != "$1" ] || return 0
  done
}
