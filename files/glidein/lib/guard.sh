#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs beside condor_master, both in sessions of their own: guard.sh PID_OF_GLIDEIN_SH PID_OF_MASTER SCRATCH.
# When glidein.sh has gone without stopping it (kill -9), the daemons are stopped and the scratch directory is removed.

set -u
glidein=$1
master=$2
# Its own copy: the payload may be gone by then, and so may be what says where it was.
# shellcheck source=/dev/null
. "${0%/*}/report.sh"
# shellcheck source=/dev/null
. "${0%/*}/scratch.sh"
# shellcheck disable=SC2034 # of scratch.sh
SCRATCH=$3
trap '' HUP INT USR1 USR2 TERM

# A child whose parent has died gets another one.
while [ "$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$$/status" 2>/dev/null)" = "$glidein" ]; do
  sleep 2
done
kill -s QUIT "$master" 2>/dev/null
sleep 3
kill_leftovers
remove_scratch
