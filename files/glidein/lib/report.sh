# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The log lines of a glidein, its endings, its signals, and --help. All output goes to stdout, the batch job's log.

END_STATUS=
END_REASON=
SETTINGS_VALID= # set when all settings were checked
STARTED_AT=${GLIDEIN_STARTED_AT:-$(date +%s)} # container_image.sh sets GLIDEIN_STARTED_AT
unset GLIDEIN_STARTED_AT

# read_uptime: store the node's uptime in hundredths of a second in HUNDREDTHS. It measures intervals, because date has whole
# seconds only. It starts no process, because a job may have filled the user's process limit.
read_uptime() {
  if read -r uptime _ 2>/dev/null </proc/uptime; then
    in_hundredths "$uptime"
  else
    HUNDREDTHS=$(date +%s)00
  fi
}

# in_hundredths SECONDS: store a decimal number of seconds in hundredths in HUNDREDTHS. The shell reads a number with a leading
# zero as octal.
in_hundredths() {
  decimals=${1#"${1%%.*}"}
  decimals=${decimals#.}00
  HUNDREDTHS=$((${1%%.*} * 100 + 1${decimals%"${decimals#??}"} - 100))
}
read_uptime
STARTED_CS=$HUNDREDTHS
CLOCK_AT=$(date +%s)

# read_now: store the time in epoch seconds in NOW, by the clock as it was at the start. It does not jump when the node's
# clock is set, so that the glidein retires, ends and stops in time.
read_now() {
  read_uptime
  NOW=$((CLOCK_AT + (HUNDREDTHS - STARTED_CS) / 100))
}

# in_seconds HUNDREDTHS: print them as seconds.
in_seconds() {
  printf '%d.%02d' $(($1 / 100)) $(($1 % 100))
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
  trap 'on_signal HUP 129' HUP
  trap 'on_signal INT 130' INT
  trap 'on_signal QUIT 131' QUIT
  trap 'on_signal USR1 138' USR1
  trap 'on_signal USR2 140' USR2
  trap 'on_signal PIPE 141' PIPE
  trap 'on_signal TERM 143' TERM
  trap 'on_signal XCPU 152' XCPU
  trap 'on_signal XFSZ 153' XFSZ
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
  read_now
  log "ended because $END_REASON (exit status $END_STATUS, after $((NOW - STARTED_AT)) s)"
  exit "$END_STATUS"
}

# clean_up: stop what runs, save the logs, write the summary, remove the scratch directory. It may be called again.
clean_up() {
  stop_pausing
  stop_limited
  stop_shipping
  stop_guard
  # With time limits, so that the summary is written even if a file system does not respond.
  if [ -n "$SCRATCH" ]; then
    run_limited 20 until_done kill_leftovers
    run_limited 30 save_logs || log "the daemons' logs could not be copied within 30 s"
    [ -z "${GLIDEIN_LOG_S3-}" ] || run_limited 10 upload_logs || log "the daemons' logs could not be uploaded within 10 s"
  fi
  if [ -n "$SETTINGS_VALID" ]; then
    [ -z "$MASTER_AT" ] || count_jobs
    read_now
    write_summary "$END_STATUS" "$NOW" "$END_REASON"
  fi
  [ -z "$SCRATCH${GLIDEIN_IMAGE_CACHE-}" ] || run_limited 60 until_done remove_scratch ||
    log "could not remove all of $SCRATCH"
}

show_help() {
  cat <<'HELP'
glidein.sh: start an HTCondor startd in this batch job. It joins a pool and runs the pool's jobs.

Settings (environment variables; MB are MiB, _S are seconds):
  GLIDEIN_DEPLOYMENT GLIDEIN_SITE GLIDEIN_ENTRY GLIDEIN_SHAPE   names, advertised in the machine ad
  GLIDEIN_HOME             directory of glidein.sh, lib/, tarballs.list, and the tarballs that the list names
  GLIDEIN_CREDENTIAL       file with the token; empty: the tarball has etc/pool_password
  GLIDEIN_COLLECTOR        the pool's collector, HOST or HOST:PORT (default port 9618)
  GLIDEIN_CPUS GLIDEIN_MEMORY_MB GLIDEIN_DISK_MB GLIDEIN_GPUS   resources of the jobs
  GLIDEIN_WALLTIME_S       the walltime of this batch job
  GLIDEIN_RETIREMENT_S     accept no new job for this time before the end of the walltime
  GLIDEIN_IDLE_TIMEOUT_S   end after this time without a job; 0: never for that reason
  GLIDEIN_SCRATCH          directory of the scratch directory; made if it is missing
  GLIDEIN_LOG_DIR          directory to which the daemons' logs are copied at the end; -: standard error
  GLIDEIN_ATTRIBUTES       lines "Name = <ClassAd literal>" for the machine ad; may be empty
  GLIDEIN_BATCH_ID         the batch system's id of this job
Optional:
  GLIDEIN_IDLE_AFTER_JOB_S the idle timeout after the first job (default GLIDEIN_IDLE_TIMEOUT_S)
  GLIDEIN_START            ClassAd expression that a job must fulfil to start here (default True)
  GLIDEIN_RANK             ClassAd expression; the negotiator prefers glideins that rank a job higher (default: by its use of
                           GPUs and memory)
  GLIDEIN_MEMORY_OVERHEAD_MB   memory of the batch job that is not offered to jobs (default 0)
  GLIDEIN_MIN_DISK_MB      if the scratch directory has less than GLIDEIN_DISK_MB, offer that, but not less than this
                           (default GLIDEIN_DISK_MB)
  GLIDEIN_GRACE_S          time between the batch system's notice (a signal) and its kill (default 30)
  GLIDEIN_GRANTED          the source of the jobs' resources. asked (default): the variables above. auto: the limits of control
                           groups and processor affinity, else the variables. node: these limits, else the whole node.
                           machine_ad: the machine ad of the HTCondor that started this job ($_CONDOR_MACHINE_AD)
  GLIDEIN_GPU_DISCOVERY    further arguments of condor_gpu_discovery, such as -extra
  GLIDEIN_SITE_RESOURCE    advertised as GLIDEIN_SiteResource (default GLIDEIN_SITE)
  GLIDEIN_CVMFS            CVMFS repositories to advertise, separated by blanks, besides those that are mounted
  GLIDEIN_JOB_SETUP        file on the node that a shell reads before each job
  GLIDEIN_JOB_ENVIRONMENT  lines NAME=value: environment variables of every job, which the job can override
  GLIDEIN_CONDOR_CONFIG    lines "NAME = value" for condor_config, such as STARTD_DEBUG or LOWPORT
  GLIDEIN_IMAGE            run the whole glidein inside this image, with apptainer or singularity
  GLIDEIN_NOTICE_TO_ALL    signals that the batch system sends as a notice to every process; jobs are started with these
                           ignored (default: none)
  GLIDEIN_REGISTER_S       end if the glidein has not joined the pool after this time (default 300)
  GLIDEIN_LOST_S           end if the collector cannot be reached for this time and no job runs; 0: never (default 1200)
  GLIDEIN_LOG_MB           size limit of the daemons' logs in the scratch directory (default 20)
  GLIDEIN_LOG_INTERVAL_S   copy the daemons' logs in this interval while the glidein runs, too (default 0: only at the end)
  GLIDEIN_LOG_S3           file with a signed form for the upload of the daemons' logs to an S3 bucket (default: none)
  GLIDEIN_FAST_FAILURES    end after this number of consecutive jobs that failed within 60 s each; 0: never (default 5)
  GLIDEIN_CHECKS           lines "NAME ARGUMENTS": executables in checks/ that the startd runs periodically
  GLIDEIN_REQUIRE_CHECKS   names of the checks that must have passed before a job may start
  GLIDEIN_CHECK_PERIOD_S   interval between two runs of a check (default 600)
  GLIDEIN_CHECK_TIMEOUT_S  a check that takes longer has failed (default 60)

Exit status:
    0  idle for too long, retired, at the end of the walltime, or shut down by the pool
   10  a setting is missing or invalid, or the user is root
   11  a file of the payload is missing or cannot be read
   12  the sha256 checksum of the tarball is not the expected one
   13  the scratch directory cannot be made, has too little room, or is full
   14  the tarball cannot be unpacked, or a file in it differs from its list
   15  no tarball fits this node, or HTCondor cannot run on it (architecture, glibc, noexec)
   16  the credential is missing or cannot be read
   17  fewer GPUs than GLIDEIN_GPUS
   18  HTCondor's daemons failed
   19  the glidein could not join the pool in time
   20  the tarball cannot be downloaded from its web server
   21  GLIDEIN_IMAGE cannot be used on this node
   30  several jobs in a row failed fast
   31  less memory than GLIDEIN_MEMORY_MB
   32  the host name in GLIDEIN_COLLECTOR cannot be resolved
   33  the clock of this node is wrong
   34  a step before HTCondor's start took too long: a file system or a server does not respond
   35  the pool's collector does not respond
   36  the pool's collector could not be reached for too long
  137  glidein.sh was killed (logged by its guard)
  129 130 131 138 140 141 143 152 153
       stopped by HUP, INT, QUIT, USR1, USR2, PIPE, TERM, XCPU, XFSZ
HELP
}
