#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs beside condor_master, both in sessions of their own: guard.sh PID_OF_GLIDEIN_SH PID_OF_MASTER SCRATCH. Descriptor 3
# is the glidein's log. When glidein.sh has gone without stopping it (kill -9), the daemons are stopped, their logs are
# saved, the scratch directory is removed, and what the glidein did is told.

set -u
umask 077
LC_ALL=C
export LC_ALL
glidein=$1
master=$2
# All is read now: these copies are in the scratch directory.
for part in report scratch summary sweep; do
  # shellcheck source=/dev/null
  . "${0%/*}/$part.sh"
done
SCRATCH=$3
trap '' HUP INT USR1 USR2 TERM

# A child whose parent has died gets another one.
while [ "$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$$/status" 2>/dev/null)" = "$glidein" ]; do
  sleep 2
done
exec >&3 2>/dev/null
kill -s QUIT "$master" 2>/dev/null
sleep 3
kill_leftovers
if load_state "$SCRATCH/state"; then
  [ "$GLIDEIN_LOG_DIR" != - ] || exec 2>&3
  count_jobs
  save_logs
  sum_up 137 "$(date +%s)" "glidein.sh was killed"
  remove_scratch
  say "ended because glidein.sh was killed (exit status 137, after $(($(date +%s) - STARTED_AT)) s)"
else
  remove_scratch
fi
