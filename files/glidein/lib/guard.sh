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
# The functions are loaded now, because these files are in the scratch directory.
for part in report scratch logs summary stale_glideins; do
  # shellcheck source=/dev/null
  . "${0%/*}/$part.sh"
done
SCRATCH=$3
trap '' HUP INT USR1 USR2 TERM

# If its parent dies, a process gets another parent.
while [ "$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$$/status" 2>/dev/null)" = "$glidein" ]; do
  sleep 2
done
exec >&3 2>/dev/null
kill -s QUIT "$master" 2>/dev/null
sleep 3
kill_leftovers
if read_state "$SCRATCH/state"; then
  [ "$GLIDEIN_LOG_DIR" != - ] || exec 2>&3
  count_jobs
  save_logs
  write_summary 137 "$(now_s)" "glidein.sh was killed"
  remove_scratch
  log "ended because glidein.sh was killed (exit status 137, after $(($(now_s) - STARTED_AT)) s)"
else
  remove_scratch
fi
