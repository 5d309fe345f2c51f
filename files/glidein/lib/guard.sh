#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# The guard: guard.sh PID_OF_GLIDEIN_SH PID_OF_MASTER SCRATCH. It runs in a session of its own beside condor_master.
# Descriptor 3 is the glidein's log. If glidein.sh is killed (kill -9), the guard stops the daemons, saves their logs, writes
# the summary, and removes the scratch directory.

set -u
umask 077
LC_ALL=C
export LC_ALL
glidein=$1
master=$2
scratch=$3
# bash exits if it cannot start a process for 15 s. Then start again; `exec` needs no new process. (A bash that has retried to
# start its first process crashes later. So it is replaced when it has started one.)
trap 'exec /bin/sh "$0" "$glidein" "$master" "$scratch" again' EXIT
if [ -n "${4-}" ]; then
  : &
  exec /bin/sh "$0" "$glidein" "$master" "$scratch"
fi
# The functions are loaded now, because these files are in the scratch directory.
for part in run limits settings scratch logs summary; do
  [ -r "${0%/*}/$part.sh" ] || exec false
  # shellcheck source=/dev/null
  . "${0%/*}/$part.sh"
done
SCRATCH=$scratch
# shellcheck disable=SC2086 # a list of signals
trap '' $SIGNALS

# read_parent: store the id of this process's parent in `parent`. If it cannot be read, `parent` does not change.
read_parent() {
  { read -r stat <"/proc/$$/stat"; } 2>/dev/null || return 0
  # shellcheck disable=SC2086 # fields
  set -- ${stat##*) }
  parent=$2
}

# clean_up_killed: do what glidein.sh would do at its end. It may be called again.
clean_up_killed() {
  [ "$GLIDEIN_LOG_DIR" != - ] || exec 2>&3
  if read_state "$SCRATCH/state"; then
    leave_node 137 "glidein.sh was killed"
  else
    leave_node "" ""
  fi
}

# If its parent dies, a process gets another parent.
parent=$glidein
while [ "$parent" = "$glidein" ]; do
  pause 2
  read_parent
done
exec >&3 2>/dev/null
kill -s QUIT "$master" 2>/dev/null
pause 3
until_done clean_up_killed
trap - EXIT
[ -z "$SUMMARY_WRITTEN" ] || log_end 137 "glidein.sh was killed"
