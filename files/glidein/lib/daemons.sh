# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# condor_master: start it, watch it, stop it.

MASTER_PID=
MASTER_AT=       # when it was started
REGISTERED_AT=   # when the glidein joined the pool
REGISTERED=      # set when that was logged
USED_AT=         # when a job was seen last
IDLE_S=          # the time without a job after which the glidein ends
RENEWED_AT=      # when the credential was checked
STORED_BYTES=    # COUNTED_BYTES in the state file
GUARD_PID=
LOOK_S=5         # interval in which the daemons and the jobs are checked
EMPTY_STOP_S=20  # time limit for the stop of a glidein without jobs
SETTLE_S=5       # a job that was accepted in the last second before retirement is visible after this time
RENEW_S=60       # interval in which the credential, the collector and the logs are checked
RENEWAL_S=30     # time limit for the file system with the credential

# start_master: start condor_master in a session of its own. Some batch systems send their notice to the whole process group.
# The script handles it; the daemons would end, and the jobs with them. A batch system that kills a process group or session
# does not kill the daemons either, so the guard does.
start_master() {
  session=
  if command -v setsid >/dev/null 2>&1; then session=setsid; fi
  {
    # Some notices reach every process, whatever its session. The daemons ignore them; this script stops the daemons.
    # shellcheck disable=SC2086 # a list of signals
    trap '' XCPU $GLIDEIN_NOTICE_TO_ALL
    use_condor && exec $session "$SCRATCH/condor/sbin/condor_master" -f
  } >"$SCRATCH/log/master.out" 2>&1 </dev/null &
  MASTER_PID=$!
  read_now
  MASTER_AT=$NOW
  log "condor_master started, process $MASTER_PID"
  [ -z "$session" ] || start_guard
}

# start_guard: start the guard, which stops the daemons and cleans up if this script is killed.
start_guard() {
  # From the copy in the scratch directory, because the payload may be removed. Descriptor 3 is the glidein's log.
  { exec setsid /bin/sh "$SCRATCH/lib/guard.sh" "$$" "$MASTER_PID" "$SCRATCH"; } 3>&1 >/dev/null 2>&1 </dev/null &
  GUARD_PID=$!
  write_state
}

stop_guard() {
  [ -n "$GUARD_PID" ] || return 0
  kill -s KILL -- "-$GUARD_PID" 2>/dev/null || kill -s KILL "$GUARD_PID" 2>/dev/null
  wait "$GUARD_PID" 2>/dev/null # else bash prints a message about it
  GUARD_PID=
}

# watch_master: check several times a second until the glidein has registered, then every LOOK_S seconds. A signal interrupts
# the pause.
watch_master() {
  often=1 # if sleep accepts whole seconds only
  sleep 0.01 2>/dev/null && often=0.3
  RENEWED_AT=$STARTED_AT
  USED_AT=$STARTED_AT
  IDLE_S=$GLIDEIN_IDLE_TIMEOUT_S
  STORED_BYTES=$COUNTED_BYTES
  while :; do
    if [ -n "$REGISTERED" ]; then pause "$LOOK_S"; else pause "$often"; fi
    can_fork=$?
    read_now
    stop_if_signalled
    stop_if_walltime_over
    # If a process cannot be started, dash and busybox end this round. The next round repeats the checks.
    [ "$can_fork" -ne 0 ] || attempt with_processes check_once
  done
}

# check_once: check the daemons and the jobs once.
check_once() {
  stop_if_ended
  if [ -z "$REGISTERED" ]; then
    wait_to_register
    USED_AT=$NOW
  fi
  watch_disk
  stop_if_signalled
  ship_logs
  count_jobs
  stop_if_failing
  stop_if_over
  if [ $((NOW - RENEWED_AT)) -ge "$RENEW_S" ]; then
    RENEWED_AT=$NOW
    run_limited "$RENEWAL_S" renew_credential || [ -n "$SIGNAL" ] ||
      log "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL cannot be read within $RENEWAL_S s; the glidein keeps its copy"
    stop_if_signalled
    watch_collector
    limit_logs
    write_state
  elif [ "$COUNTED_BYTES" -ne "$STORED_BYTES" ]; then
    STORED_BYTES=$COUNTED_BYTES
    write_state
  fi
}

stop_if_signalled() {
  [ -n "$SIGNAL" ] || return 0
  stop_master "$STOP_S"
  end_with "$SIGNAL_STATUS" "of signal $SIGNAL"
}

# stop_if_ended: end if the master has ended, or if the startd has ended with status 0, which is what condor_off does. After a
# crash (any other status) the master starts the startd again.
stop_if_ended() {
  kill -0 "$MASTER_PID" 2>/dev/null || master_ended
  case $(grep -e 'The STARTD (pid' -e 'Started DaemonCore process.*condor_startd' "$SCRATCH/log/MasterLog" 2>/dev/null |
    tail -n 1) in
  *'exited with status 0') ;;
  *) return 0 ;;
  esac
  stop_with 0 "the pool shut it down"
}

# watch_collector: log when the glidein loses its connection to the collector (CCB) and when it has it again. Access points
# reach the glidein only by this connection. If the log was rotated just now, nothing is known.
LOST_AT= # when the loss was noticed
watch_collector() {
  case $(grep -e 'CCBListener: connection to CCB server .* failed' -e 'CCBListener: registered with CCB server' \
    "$SCRATCH/log/SharedPortLog" 2>/dev/null | tail -n 1) in
  *' failed'*)
    [ -z "$LOST_AT" ] || return 0
    LOST_AT=$NOW
    log "the pool's collector, $GLIDEIN_COLLECTOR, cannot be reached"
    ;;
  *registered*)
    [ -n "$LOST_AT" ] || return 0
    log "the pool's collector can be reached again, after $((NOW - LOST_AT)) s"
    LOST_AT=
    ;;
  esac
}

# limit_logs: remove rotated logs if all logs together are too large. Jobs that request no core may make more slots, and so
# more logs, than there are cores.
limit_logs() {
  ! run_limited "$MEASURE_S" is_larger "$SCRATCH/log" $((GLIDEIN_LOG_MB * 1024)) || rm -f "$SCRATCH"/log/*.old
}

stop_if_walltime_over() {
  [ "$NOW" -ge "$TO_DIE" ] || return 0
  stop_master $((MARGIN_S * 2 / 3))
  end_with 0 "its walltime is over"
}

# stop_if_over: end if the glidein has retired and its last job has ended, if the collector cannot be reached, or if no job has
# run for too long.
stop_if_over() {
  if has_jobs; then
    USED_AT=$NOW
    IDLE_S=$GLIDEIN_IDLE_AFTER_JOB_S
  elif [ -n "$FAILING" ] && [ "$NOW" -ge $((FAILING + SETTLE_S)) ]; then
    stop_with 30 "$FAST_FAILURES_SEEN jobs in a row failed within $FAST_FAILURE_S s each"
  elif [ "$NOW" -ge $((TO_RETIRE + SETTLE_S)) ]; then
    stop_with 0 "it has retired and has no job left"
  elif [ -n "$LOST_AT" ] && [ "$GLIDEIN_LOST_S" -gt 0 ] && [ $((NOW - LOST_AT)) -ge "$GLIDEIN_LOST_S" ]; then
    stop_with 36 "the pool's collector, $GLIDEIN_COLLECTOR, could not be reached for $((NOW - LOST_AT)) s"
  elif [ "$IDLE_S" -gt 0 ] && [ $((NOW - USED_AT)) -ge "$IDLE_S" ]; then
    stop_with 0 "no job ran for $IDLE_S s"
  fi
}

# stop_if_failing: accept no more jobs if jobs fail fast one after the other. Such a node would spoil all idle jobs. Running
# jobs may end.
FAILING= # since when
stop_if_failing() {
  [ -z "$FAILING" ] && [ "$GLIDEIN_FAST_FAILURES" -gt 0 ] && [ "$FAST_FAILURES" -ge "$GLIDEIN_FAST_FAILURES" ] || return 0
  FAILING=$NOW
  FAST_FAILURES_SEEN=$FAST_FAILURES
  log "$FAST_FAILURES jobs in a row failed within $FAST_FAILURE_S s each: accepting no more jobs"
  { echo "START = False" >>"$SCRATCH/condor_config"; } 2>/dev/null || {
    stop_with 30 "$FAST_FAILURES_SEEN jobs in a row failed fast, and $SCRATCH/condor_config cannot be written"
  }
  kill -s HUP "$MASTER_PID" 2>/dev/null # the master passes it on, and all daemons read the configuration again
}

# jobs_run: true if the starter of a job's directory, execute/dir_<process id of the starter>, runs. A job may leave files
# that this user cannot remove.
jobs_run() {
  for each in "$SCRATCH"/execute/*; do
    case ${each##*/dir_} in
    */\*) ;;
    *[!0-9]*) return 0 ;;
    *) ! kill -0 "${each##*/dir_}" 2>/dev/null || return 0 ;;
    esac
  done
  return 1
}

# has_jobs: true if a job runs, or if a starter has written to its log since the last call.
JOBS_LAST=
has_jobs() {
  jobs_now=
  for each in "$SCRATCH"/log/StarterLog.slot*; do
    [ ! -e "$each" ] || jobs_now=$(ls -ln "$SCRATCH"/log/StarterLog.slot* 2>/dev/null) || return 0
    break
  done
  if jobs_run || [ "$jobs_now" != "$JOBS_LAST" ]; then
    JOBS_LAST=$jobs_now
    return 0
  fi
  return 1
}

# log_has LOG PATTERN: true if a daemon's log has a line that matches.
log_has() {
  grep -q "$2" "$SCRATCH/log/$1" 2>/dev/null
}

# has_registered: true if a job runs. Otherwise three conditions: the startd has sent its first update (it logs that even if
# the collector has refused it), no error was returned, and the collector has accepted the glidein as a client of its CCB,
# which needs the same right. (An error of an early update stays in the log when a job runs.)
has_registered() {
  ! jobs_run || return 0
  why=$(startd_error) || return 1
  log_has StartLog 'Initial update sent to collector' && [ -z "$why" ] &&
    log_has SharedPortLog 'CCBListener: registered with CCB server'
}

wait_to_register() {
  if log_has StartLog 'condor_starter.* did not produce any output'; then
    fail_with 18 "condor_starter does not work on this node"
  elif log_has MasterLog 'The STARTD (pid.*exited with status [1-9]'; then
    fail_with 18 "the startd failed"
  elif has_registered; then
    # shellcheck disable=SC2034 # for summary.sh
    REGISTERED_AT=$NOW
    # Before it is logged: the guard of a killed glidein then knows it.
    write_state
    log "registered with $GLIDEIN_COLLECTOR as $NAME, $(seconds_since "$STARTED_UPTIME") s after start"
    REGISTERED=yes
  elif [ $((NOW - MASTER_AT)) -ge "$GLIDEIN_REGISTER_S" ]; then
    why=$(startd_error)
    fail_with 19 "the pool could not be joined within $GLIDEIN_REGISTER_S s: $GLIDEIN_COLLECTOR: ${why:-no answer}"
  fi
}

# startd_error: print the collector's last reply to the startd's updates if it was an error.
startd_error() {
  sed -n '/Initial update sent/,$ s/^.* ERROR: //p' "$SCRATCH/log/StartLog" 2>/dev/null | tail -n 1
}

# master_ended: end after condor_master has ended by itself.
master_ended() {
  if [ -n "$MASTER_PID" ]; then
    wait "$MASTER_PID"
    master_status=$?
    MASTER_PID=
  fi
  if [ "$master_status" -eq 0 ] && [ -s "$SCRATCH/log/MasterLog" ]; then
    end_with 0 "the pool shut it down"
  fi
  [ ! -s "$SCRATCH/log/master.out" ] || log_tail "$SCRATCH/log/master.out" 5
  log_daemon_tails
  end_with 18 "condor_master ended by itself with $(ending_of "$master_status")"
}

log_daemon_tails() {
  log_tail "$SCRATCH/log/MasterLog" 15
  log_tail "$SCRATCH/log/StartLog" 15
}

# stop_with STATUS REASON...: stop condor_master and end the glidein.
stop_with() {
  stop_master "$EMPTY_STOP_S"
  end_with "$@"
}

# fail_with STATUS REASON...: the same, for a glidein that has not registered, with the ends of the daemons' logs.
fail_with() {
  stop_master 5
  log_daemon_tails
  end_with "$@"
}

# stop_master SECONDS: stop condor_master. Jobs get so many seconds to vacate; then they and the daemons are killed. The stop
# and the clean-up take at most one and a half times SECONDS (which is 6 or more), as much as the batch system allows.
stop_master() {
  [ -n "$MASTER_PID" ] || return 0
  kill -s TERM "$MASTER_PID" 2>/dev/null
  log "stopping condor_master; running jobs have $1 s to vacate"
  wait_for_master "$1" && return 0
  log "condor_master still runs after $1 s: stopping it fast"
  kill -s QUIT "$MASTER_PID" 2>/dev/null
  quick=$(($1 / 4))
  [ "$quick" -le 5 ] || quick=5
  wait_for_master "$quick" && return 0
  log "condor_master still runs: killing it"
  kill -s KILL "$MASTER_PID" 2>/dev/null
}

# wait_for_master SECONDS: true if condor_master ends within that time.
wait_for_master() {
  read_now
  deadline=$((NOW + $1))
  while kill -0 "$MASTER_PID" 2>/dev/null; do
    [ "$NOW" -lt "$deadline" ] || return 1
    pause 1
    read_now
  done
}
