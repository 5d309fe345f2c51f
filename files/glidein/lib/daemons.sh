# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# condor_master: started, watched, stopped.

MASTER_PID=
MASTER_AT= # when it was started
GUARD_PID=
EMPTY_STOP_S=20 # how long the stop of a glidein without jobs may take
SETTLE_S=5  # what a job accepted in the last second before retirement takes to show
RENEW_S=60  # how often credential, pool and logs are looked at
RENEWAL_S=30 # how long the file system with the credential may take

# start_master: in a session of its own, because some batch systems send their notice to the whole process group, and a
# USR2 or INT that is meant for this script would end the daemons, and the jobs with them. What a batch system kills as
# one group or session they are no part of, then: hence the guard.
start_master() {
  session=
  if command -v setsid >/dev/null 2>&1; then session=setsid; fi
  {
    # What reaches every process anyway, whatever its session, the daemons ignore: this script tells them what to do.
    # shellcheck disable=SC2086 # a list of signals
    [ -z "$GLIDEIN_NOTICE_TO_ALL" ] || trap '' $GLIDEIN_NOTICE_TO_ALL
    use_condor && exec $session "$SCRATCH/condor/sbin/condor_master" -f
  } >"$SCRATCH/log/master.out" 2>&1 </dev/null &
  MASTER_PID=$!
  MASTER_AT=$(date +%s)
  say "condor_master started, process $MASTER_PID"
  [ -z "$session" ] || start_guard
}

# start_guard: should this script be killed, the guard stops the daemons and cleans up.
start_guard() {
  # Of copies: the payload may be gone when they are needed. Only what it has to say at the end goes to our log.
  { exec setsid /bin/sh "$SCRATCH/lib/guard.sh" "$$" "$MASTER_PID" "$SCRATCH"; } 3>&1 >/dev/null 2>&1 </dev/null &
  GUARD_PID=$!
  keep_state
}

stop_guard() {
  [ -n "$GUARD_PID" ] || return 0
  kill -s KILL -- "-$GUARD_PID" 2>/dev/null || kill -s KILL "$GUARD_PID" 2>/dev/null
  wait "$GUARD_PID" 2>/dev/null # bash would have a word to say of it
  GUARD_PID=
}

# watch_master: looks often until registered, then every five seconds; a signal is acted upon at once.
watch_master() {
  often=1 # where sleep knows no parts of a second
  sleep 0.01 2>/dev/null && often=0.3
  registered=
  renewed=$STARTED_AT
  used=$STARTED_AT
  idle_s=$GLIDEIN_IDLE_TIMEOUT_S
  counted=$COUNTED_BYTES
  while :; do
    if [ -n "$registered" ]; then pause 5; else pause "$often"; fi
    now=$(date +%s)
    stop_if_signalled
    stop_if_ended
    if [ -z "$registered" ]; then
      wait_to_register
      used=$now
    fi
    hold_killed_jobs
    count_jobs
    stop_if_failing
    stop_if_over
    if [ $((now - renewed)) -ge "$RENEW_S" ]; then
      renewed=$now
      within "$RENEWAL_S" renew_credential || [ -n "$SIGNAL" ] || say "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL does not answer"
      look_for_pool
      limit_logs
      keep_state
    elif [ "$COUNTED_BYTES" -ne "$counted" ]; then
      counted=$COUNTED_BYTES
      keep_state
    fi
  done
}

stop_if_signalled() {
  [ -n "$SIGNAL" ] || return 0
  stop_master "$STOP_S"
  leave "$SIGNAL_STATUS" "of signal $SIGNAL"
}

# stop_if_ended: the master has gone; or the startd has, and the master will not start another (condor_off does that;
# after a crash, another status, it would).
stop_if_ended() {
  kill -0 "$MASTER_PID" 2>/dev/null || master_ended
  case $(grep -e 'The STARTD (pid' -e 'Started DaemonCore process.*condor_startd' "$SCRATCH/log/MasterLog" 2>/dev/null |
    tail -n 1) in
  *'exited with status 0') ;;
  *) return 0 ;;
  esac
  stop_master "$EMPTY_STOP_S"
  leave 0 "the pool told it to shut down"
}

# look_for_pool: the glidein's shared port keeps a connection to the collector (CCB), without which no access point could
# reach it, and says so when that is lost, found dead, and there again. Where the log has been put aside as full, it says
# nothing.
LOST_AT= # when it was noticed
look_for_pool() {
  case $(grep -e 'CCBListener: connection to CCB server .* failed' -e 'CCBListener: registered with CCB server' \
    "$SCRATCH/log/SharedPortLog" 2>/dev/null | tail -n 1) in
  *' failed'*)
    [ -z "$LOST_AT" ] || return 0
    LOST_AT=$now
    say "the pool's collector, $GLIDEIN_COLLECTOR, is gone"
    ;;
  *registered*)
    [ -n "$LOST_AT" ] || return 0
    say "the pool's collector is there again, after $((now - LOST_AT)) s"
    LOST_AT=
    ;;
  esac
}

# limit_logs: there may be more of them than cores, because jobs may ask for no core. Then older ones go.
limit_logs() {
  logs_kb=$(du -sk "$SCRATCH/log" 2>/dev/null | cut -f 1)
  [ "${logs_kb:-0}" -le $((GLIDEIN_LOG_MB * 1024)) ] || rm -f "$SCRATCH"/log/*.old
}

# stop_if_over: the walltime is over, it has retired and its last job is done, the pool has gone, or no job has run for too
# long.
stop_if_over() {
  if [ "$now" -ge "$TO_DIE" ]; then
    stop_master $((MARGIN_S * 2 / 3))
    leave 0 "its walltime is over"
  fi
  if jobs_seen; then
    used=$now
    idle_s=$GLIDEIN_IDLE_AFTER_JOB_S
  elif [ -n "$FAILING" ] && [ "$now" -ge $((FAILING + SETTLE_S)) ]; then
    stop_master "$EMPTY_STOP_S"
    leave 30 "jobs fail fast here: $FAST_FAILURES_SEEN in a row within $GLIDEIN_FAST_FAILURE_S s each"
  elif [ "$now" -ge $((TO_RETIRE + SETTLE_S)) ]; then
    stop_master "$EMPTY_STOP_S"
    leave 0 "it has retired and has no job left"
  elif [ -n "$LOST_AT" ] && [ "$GLIDEIN_LOST_S" -gt 0 ] && [ $((now - LOST_AT)) -ge "$GLIDEIN_LOST_S" ]; then
    stop_master "$EMPTY_STOP_S"
    leave 36 "the pool's collector, $GLIDEIN_COLLECTOR, was gone for $((now - LOST_AT)) s"
  elif [ "$idle_s" -gt 0 ] && [ $((now - used)) -ge "$idle_s" ]; then
    stop_master "$EMPTY_STOP_S"
    leave 0 "no job ran for $idle_s s"
  fi
}

# stop_if_failing: a node on which one job after the other fails at once would take, and spoil, all that wait. What runs
# may go on; it takes no more.
FAILING= # since when
stop_if_failing() {
  [ -z "$FAILING" ] && [ "$GLIDEIN_FAST_FAILURES" -gt 0 ] && [ "$FAST_FAILURES" -ge "$GLIDEIN_FAST_FAILURES" ] || return 0
  FAILING=$now
  FAST_FAILURES_SEEN=$FAST_FAILURES
  say "$FAST_FAILURES jobs in a row have failed within $GLIDEIN_FAST_FAILURE_S s each: taking no more"
  echo "START = False" >>"$SCRATCH/condor_config" || {
    stop_master "$EMPTY_STOP_S"
    leave 30 "jobs fail fast here: $FAST_FAILURES_SEEN in a row, and $SCRATCH/condor_config cannot be written to stop more"
  }
  kill -s HUP "$MASTER_PID" 2>/dev/null # all daemons read it again
}

# jobs_seen: a job runs (it has a directory), or one has written to its starter's log since the last look.
JOBS_LAST=
jobs_seen() {
  jobs_now=$(ls -ln "$SCRATCH"/log/StarterLog.slot* 2>/dev/null)
  if [ -n "$(ls -A "$SCRATCH/execute" 2>/dev/null)" ] || [ "$jobs_now" != "$JOBS_LAST" ]; then
    JOBS_LAST=$jobs_now
    return 0
  fi
  return 1
}

# log_has LOG PATTERN
log_has() {
  grep -q "$2" "$SCRATCH/log/$1" 2>/dev/null
}

# has_registered: a job is here (an error of an early update stays in the log, whatever came after). Or the startd has
# sent its first update (it says so even when nobody took it, hence the rest), no error came back, and the collector has
# taken the glidein as a client of its CCB, which needs the same right.
has_registered() {
  [ -z "$(ls -A "$SCRATCH/execute" 2>/dev/null)" ] || return 0
  log_has StartLog 'Initial update sent to collector' && [ -z "$(startd_error)" ] &&
    log_has SharedPortLog 'CCBListener: registered with CCB server'
}

wait_to_register() {
  if log_has StartLog 'condor_starter.* did not produce any output'; then
    stop_master 5
    show_logs
    leave 18 "condor_starter does not work here, so no job could run"
  elif log_has MasterLog 'The STARTD (pid.*exited with status [1-9]'; then
    stop_master 5
    show_logs
    leave 18 "the startd failed"
  elif has_registered; then
    registered=yes
    # shellcheck disable=SC2034 # for summary.sh
    REGISTERED_AT=$now
    keep_state
    say "registered with $GLIDEIN_COLLECTOR as $NAME, $(in_seconds $(($(uptime_cs) - STARTED_CS))) s after start"
  elif [ $((now - MASTER_AT)) -ge "$GLIDEIN_REGISTER_S" ]; then
    why=$(startd_error)
    stop_master 5
    show_logs
    leave 19 "the pool could not be joined within $GLIDEIN_REGISTER_S s: $GLIDEIN_COLLECTOR: ${why:-no answer}"
  fi
}

# startd_error: what the collector last answered to the startd's updates, if that was an error.
startd_error() {
  sed -n '/Initial update sent/,$ s/^.* ERROR: //p' "$SCRATCH/log/StartLog" 2>/dev/null | tail -n 1
}

# master_ended: it went away by itself.
master_ended() {
  wait "$MASTER_PID"
  master_status=$?
  MASTER_PID=
  if [ "$master_status" -eq 0 ] && [ -s "$SCRATCH/log/MasterLog" ]; then
    leave 0 "the pool told it to shut down"
  fi
  [ ! -s "$SCRATCH/log/master.out" ] || show_tail "$SCRATCH/log/master.out" 5
  show_logs
  leave 18 "condor_master ended by itself with status $master_status"
}

show_logs() {
  show_tail "$SCRATCH/log/MasterLog" 15
  show_tail "$SCRATCH/log/StartLog" 15
}

# stop_master SECONDS: jobs are told to vacate and get so many seconds; then they are killed, then the daemons are. All of
# it, and cleaning up, fits into one and a half times SECONDS (6 or more), which is what the batch system leaves.
stop_master() {
  [ -n "$MASTER_PID" ] || return 0
  say "stopping condor_master; running jobs have $1 s to vacate"
  kill -s TERM "$MASTER_PID" 2>/dev/null
  wait_for_master "$1" && return 0
  say "still running after $1 s: stopping fast"
  kill -s QUIT "$MASTER_PID" 2>/dev/null
  quick=$(($1 / 4))
  [ "$quick" -le 5 ] || quick=5
  wait_for_master "$quick" && return 0
  say "still running: killing"
  kill -s KILL "$MASTER_PID" 2>/dev/null
}

# wait_for_master SECONDS: true when it has gone within that time.
wait_for_master() {
  deadline=$(($(date +%s) + $1))
  while kill -0 "$MASTER_PID" 2>/dev/null; do
    [ "$(date +%s)" -lt "$deadline" ] || return 1
    pause 1
  done
}
