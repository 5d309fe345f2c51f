#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# Replaces condor_master in tests of glidein.sh: signals, endings, clean-up. It writes the log lines of HTCondor 23.9.6 that
# glidein.sh reads. etc/behaviour selects what it does.
set -u
case "$*" in
-version) echo "stand-in"; exit 0 ;;
-f) ;;
*) echo "unexpected arguments: $*"; exit 64 ;;
esac
root=$(sed -n 's/^LOCAL_DIR = //p' "$CONDOR_CONFIG")
log=$root/log
read -r behaviour <"$root/condor/etc/behaviour"
env >"$log/EnvironmentLog"
# the session: sixth field, after a name that has no blanks
sed 's/.*) //' "/proc/$$/stat" | cut -d ' ' -f 4 >"$root/session"
tr '\0' '\n' <"/proc/$$/cmdline" >>"$log/EnvironmentLog"
echo "starting as $behaviour" >"$log/MasterLog"

answer= # a line that the startd logs after its first update
register() {
  echo '01/01/26 00:00:00 Started DaemonCore process "/x/condor_startd", pid and pgroup = 7' >>"$log/MasterLog"
  echo "01/01/26 00:00:00 CCBListener: registered with CCB server cm:9618 as ccbid cm:9618#1" >"$log/SharedPortLog"
  printf '%s\n' "01/01/26 00:00:00 Initial update sent to collector(s)" ${answer:+"$answer"} >"$log/StartLog"
}

rest() {
  while :; do
    sleep 1 &
    wait $!
  done
}

trap 'echo "got TERM" >>"$log/MasterLog"; exit 0' TERM
case $behaviour in
good) register ;;
late)
  sleep 2
  register
  ;;
failing | failing_full)
  trap 'echo "got HUP" >>"$log/MasterLog"; grep "^START =" "$CONDOR_CONFIG" >>"$log/MasterLog"' HUP
  register
  sleep 1
  # (a full disk has the same effect)
  [ "$behaviour" = failing ] || chmod 400 "$root/condor_config"
  cat "$root/condor/etc/history" >>"$root/jobs/history"
  ;;
busy)
  register
  mkdir "$root/execute/dir_$$"
  ;;
worked)
  register
  mkdir "$root/execute/dir_$$"
  sleep 2
  rmdir "$root/execute/dir_$$"
  echo "01/01/26 00:00:00 the job has ended" >"$log/StarterLog.slot1_1" # if glidein.sh has not seen the directory
  ;;
stubborn)
  trap '' TERM QUIT HUP
  register
  # A job in a session of its own. Only its working directory shows that it belongs to the glidein.
  mkdir "$root/execute/dir_$$"
  (cd "$root/execute/dir_$$" && exec setsid env -i /bin/sleep 300) >/dev/null 2>&1 &
  ;;
deaf)
  trap '' TERM
  trap 'exit 0' QUIT
  register
  ;;
silent) ;;
refused | refused_at_first)
  [ "$behaviour" = refused ] || mkdir "$root/execute/dir_$$"
  answer='01/01/26 00:00:00 ERROR: SECMAN:2010:Received "DENIED" from server' # in the same moment as the update
  register
  ;;
lost | lost_busy)
  register
  [ "$behaviour" != lost_busy ] || mkdir "$root/execute/dir_$$"
  sleep 1
  echo "01/01/26 00:00:00 CCBListener: connection to CCB server cm:9618 failed; will try to reconnect in 60 seconds." \
    >>"$log/SharedPortLog"
  ;;
alone) echo "01/01/26 00:00:00 Initial update sent to collector(s)" >"$log/StartLog" ;;
no_starter) echo '01/01/26 00:00:00 "/x/condor_starter -classad" did not produce any output, ignoring' >"$log/StartLog" ;;
startd_dies) echo "01/01/26 00:00:00 The STARTD (pid 7) exited with status 4" >>"$log/MasterLog" ;;
off)
  register
  sleep 2
  echo "01/01/26 00:00:00 The STARTD (pid 7) exited with status 0" >>"$log/MasterLog"
  ;;
crash)
  echo "01/01/26 00:00:00 ERROR with eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJnbGlkZWluIn0.c2lnbmF0dXJl in it" >>"$log/MasterLog"
  exit 44
  ;;
*) exit 65 ;;
esac
rest
