# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What may hang, because a file server, a name server or a driver does not answer, runs in a process of its own, for a
# limited time. The one that waits for it hears signals meanwhile.

WORKING= # such a process may be there
OVERDUE= # its time is over
IN_STEP= # this is one; for report.sh

# within SECONDS COMMAND...: its status, or 124 if it takes longer, or a signal came that ends the glidein. Then it is killed
# with all that it has started, and no longer waited for: what hangs in the kernel does not die of that.
within() {
  limit_s=$1
  shift
  OVERDUE=
  trap 'OVERDUE=yes' ALRM
  read -r self _ </proc/self/stat
  WORKING=yes
  ("$@") &
  worker=$!
  watch_over "$limit_s" "$self" >/dev/null 2>&1 &
  watchdog=$!
  while :; do
    wait "$worker" 2>/dev/null
    ended=$?
    if [ -n "$OVERDUE$SIGNAL" ] || ! kill -0 "$worker" 2>/dev/null; then break; fi
  done
  # (Another signal may be lost: one that comes before the new process knows what to do with it.)
  kill -s KILL "$watchdog" 2>/dev/null
  wait "$watchdog" 2>/dev/null # bash would have a word to say of it
  if kill -0 "$worker" 2>/dev/null; then
    kill_tree "$worker"
    ended=124
    sleep 1
    [ "$(start_of "$worker")" != 0 ] || wait "$worker" 2>/dev/null # the same
  fi
  WORKING=
  # ALRM can come just when the work is done: then there is no status of it.
  [ -z "$OVERDUE" ] || ended=124
  return "$ended"
}

# watch_over SECONDS PID: tells that process when the time is over, and goes on until it has understood. Ends with it.
watch_over() {
  passed=0
  while kill -0 "$2" && { [ "$passed" -lt "$1" ] || kill -s ALRM "$2"; }; do
    sleep 1
    passed=$((passed + 1))
  done
}

# stop_working: at the end of the glidein, whatever was going on in other processes.
stop_working() {
  [ -n "$WORKING" ] || return 0
  kill_tree "$$"
  WORKING=
}

# kill_tree PID: that process and all that it has started; if it is this one, only these. First who started, so that nobody
# goes on with something else.
kill_tree() {
  # shellcheck disable=SC2046 # a list of process ids
  kill -s KILL $(cat /proc/[0-9]*/stat 2>/dev/null | tree_of "$1" | grep -vx "$$") 2>/dev/null
}

# tree_of PID: a filter, from lines of /proc/*/stat ("id (name) state parent ...") to the ids of it and all below it, from
# the top.
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

# step SECONDS WHAT FUNCTION: a step before HTCondor's start. If that ends the glidein, so does this; and if it takes longer.
step() {
  attempt "$1" "$3" && return 0
  [ "$status" -eq 124 ] || leave 34 "$2 ended with status $status: it was killed"
  leave 34 "$2 took longer than $1 s: the node, or a server that it needs, does not answer"
}

# attempt SECONDS FUNCTION: a step that may also be left out: false if it takes longer, or is killed.
attempt() {
  within "$1" run_step "$2"
  status=$?
  [ "$status" -ne 0 ] || return 0
  [ "$status" -eq 124 ] || [ ! -s "$SCRATCH/left" ] || leave "$status" "$(cat "$SCRATCH/left")"
  return 1
}

run_step() {
  # shellcheck disable=SC2034
  IN_STEP=yes
  rm -f "$SCRATCH/left"
  "$1"
  exit 0
}

# hand_over REASON: from a step that ends the glidein to the process that waits for it. Where the disk is full, what was
# unpacked is of no use any more.
hand_over() {
  for round in 1 2; do
    [ "$round" -eq 1 ] || rm -rf "$SCRATCH/condor"
    printf '%s\n' "$1" 2>/dev/null >"$SCRATCH/left"
    [ "$(cat "$SCRATCH/left" 2>/dev/null)" != "$1" ] || return 0
  done
}
