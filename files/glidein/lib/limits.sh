# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Time limits. A file server, a name server or a driver may not respond. What needs one runs in a process of its own, for a
# limited time. The script handles signals while it waits for that process. (The program `timeout` would delay the signals.)

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
  # (KILL, because the new process may not have set its handlers for other signals yet. If a signal to the whole process group
  # has ended it while bash waited for the worker, bash may have lost its status, and would wait for ever.)
  ! kill -s KILL "$watchdog" 2>/dev/null || wait "$watchdog" 2>/dev/null
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

# try_step SECONDS FUNCTION: run an optional step. Return false if it takes longer or is killed, with its status in `status`.
# If the step calls end_with, the glidein ends.
try_step() {
  run_limited "$1" step_body "$2"
  status=$?
  [ "$status" -ne 0 ] || return 0
  [ "$status" -eq 124 ] || [ ! -s "$SCRATCH/end_reason" ] || end_with "$status" "$(cat "$SCRATCH/end_reason")"
  return 1
}

step_body() {
  # shellcheck disable=SC2034 # for run.sh
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
