# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What a glidein says, and how it ends. Everything goes to stdout: the batch system's log of the job.

END_STATUS=
END_REASON=
TELLABLE= # set when all settings are known to be good
STARTED_AT=${GLIDEIN_STARTED_AT:-$(date +%s)} # image.sh passes it on
unset GLIDEIN_STARTED_AT

# uptime_cs: hundredths of a second since the node was switched on. For measuring: date knows whole seconds only.
uptime_cs() {
  if read -r uptime _ 2>/dev/null </proc/uptime; then
    echo "${uptime%.*}${uptime#*.}"
  else
    echo "$(date +%s)00"
  fi
}
# shellcheck disable=SC2034 # for other files
STARTED_CS=$(uptime_cs)

# in_seconds HUNDREDTHS
in_seconds() {
  printf '%d.%02d' $(($1 / 100)) $(($1 % 100))
}

# say TEXT...: one line with the time (UTC) in front.
say() {
  printf '%s glidein: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"
}

# leave STATUS REASON...: end here. The EXIT trap cleans up and says why.
leave() {
  END_STATUS=$1
  shift
  END_REASON=$*
  [ -z "$IN_STEP" ] || hand_over "$END_REASON"
  exit "$END_STATUS"
}

# show_tail FILE LINES: the end of a log, indented, without anything that looks like a token.
show_tail() {
  [ -s "$1" ] || return 0
  say "last lines of ${1##*/}:"
  tail -n "$2" "$1" | without_tokens | sed 's/^/    /'
}

# without_tokens: a filter.
without_tokens() {
  sed 's/eyJ[A-Za-z0-9_=-]*\.[A-Za-z0-9_.=-]*/<token>/g'
}

# Signals of batch systems: TERM (scancel, qdel), HUP and INT (a terminal), USR1 and USR2 (warnings before a kill).
SIGNAL=
catch_signals() {
  trap finish EXIT
  trap 'on_signal HUP 129' HUP
  trap 'on_signal INT 130' INT
  trap 'on_signal USR1 138' USR1
  trap 'on_signal USR2 140' USR2
  trap 'on_signal TERM 143' TERM
}

# Before there is a master, a signal ends the script; after that, the watch loop has to stop the master first.
on_signal() {
  [ -n "$SIGNAL" ] || {
    SIGNAL=$1
    SIGNAL_STATUS=$2
  }
  [ -n "${MASTER_PID:-}" ] || leave "$SIGNAL_STATUS" "of signal $SIGNAL"
  WOKEN=yes
  stop_pausing
}

# pause SECONDS: like sleep, but a signal ends it at once, also one that has come since the last pause.
PAUSE_PID=
WOKEN=
pause() {
  sleep "$1" >/dev/null 2>&1 &
  PAUSE_PID=$!
  [ -n "$WOKEN" ] || wait "$PAUSE_PID" 2>/dev/null
  stop_pausing
  WOKEN=
}

stop_pausing() {
  [ -z "$PAUSE_PID" ] || kill "$PAUSE_PID" 2>/dev/null
  PAUSE_PID=
}

# The EXIT trap: whatever happened, nothing of this glidein stays on the node.
finish() {
  END_EXIT=$?
  # Not of a copy: a signal at the moment of a fork has made bash run this trap in the child, too.
  { read -r self _ </proc/self/stat; } 2>/dev/null || self=$$
  [ "$self" = "$$" ] || exit "$END_EXIT"
  trap '' HUP INT TERM USR1 USR2
  trap - EXIT
  [ -n "$END_STATUS" ] || {
    END_STATUS=$END_EXIT
    END_REASON="of an error in the script itself"
  }
  stop_pausing
  stop_working
  stop_guard
  # Within limits: what has to be said at the end is not to wait for a file system that hangs.
  if [ -n "$SCRATCH" ]; then
    within 20 kill_leftovers
    within 30 save_logs || say "the daemons' logs could not be saved in time"
  fi
  # Before the settings are known to be good there is nothing to tell.
  if [ -n "$TELLABLE" ]; then
    [ -z "$MASTER_AT" ] || count_jobs
    sum_up "$END_STATUS" "$(date +%s)" "$END_REASON"
  fi
  [ -z "$SCRATCH" ] || within 60 remove_scratch || say "could not remove all of $SCRATCH"
  say "ended because $END_REASON (exit status $END_STATUS, after $(($(date +%s) - STARTED_AT)) s)"
  exit "$END_STATUS"
}

show_help() {
  cat <<'HELP'
glidein.sh: starts an HTCondor startd in this batch job; it joins a pool and runs its users' jobs.

Settings (environment):
  GLIDEIN_DEPLOYMENT GLIDEIN_SITE GLIDEIN_ENTRY GLIDEIN_SHAPE   names, advertised in the machine ad
  GLIDEIN_HOME             directory with glidein.sh, lib/, tarballs.list, and the tarballs that it names
  GLIDEIN_CREDENTIAL       file with the token; empty: the tarball brings etc/pool_password
  GLIDEIN_COLLECTOR        the pool's collector, HOST or HOST:PORT (default port 9618)
  GLIDEIN_CPUS GLIDEIN_MEMORY_MB GLIDEIN_DISK_MB GLIDEIN_GPUS   what jobs may use here; MB are MiB
  GLIDEIN_WALLTIME_S       what the batch system gives this job, in seconds
  GLIDEIN_RETIREMENT_S     so long before that no new job is accepted
  GLIDEIN_IDLE_TIMEOUT_S   end after so long without a job; 0: never for that reason
  GLIDEIN_SCRATCH          directory in which the scratch directory is made; it is made, too, if it is missing
  GLIDEIN_LOG_DIR          directory to which the daemons' logs are copied at the end; -: to standard error
  GLIDEIN_ATTRIBUTES       lines "Name = <ClassAd literal>" for the machine ad; may be empty
  GLIDEIN_BATCH_ID         the batch system's id of this job
Optional:
  GLIDEIN_IDLE_AFTER_JOB_S the same for one that has run a job (default GLIDEIN_IDLE_TIMEOUT_S)
  GLIDEIN_START            ClassAd expression that a job must fulfil to start here (default True)
  GLIDEIN_RANK             ClassAd expression: jobs for which it is higher are matched with this glidein first (default: those
                           that use its GPUs and memory well)
  GLIDEIN_MEMORY_OVERHEAD_MB   of the memory that the batch system gives, what is not offered to jobs (default 0)
  GLIDEIN_MIN_DISK_MB      offer less than GLIDEIN_DISK_MB where the scratch directory has less, down to this (default:
                           GLIDEIN_DISK_MB)
  GLIDEIN_GRACE_S          seconds between the batch system's notice (a signal) and its kill (default 30)
  GLIDEIN_GRANTED          what jobs may use. asked (default): the above. auto: as many cores and as much memory as the
                           node's control groups and processor affinity allow, where these limit anything. node: the
                           same, else all that the node has. machine_ad: what the machine ad of an HTCondor that started
                           this job ($_CONDOR_MACHINE_AD) says of CPUs, memory, disk and GPUs
  GLIDEIN_GPU_DISCOVERY    further arguments of condor_gpu_discovery, such as -extra
  GLIDEIN_SITE_RESOURCE    advertised as GLIDEIN_SiteResource (default: GLIDEIN_SITE)
  GLIDEIN_CVMFS            repositories of CVMFS to look for, with blanks in between; those that are mounted are found anyway
  GLIDEIN_JOB_SETUP        file on the node that a shell reads before each job: the site's environment set-up
  GLIDEIN_JOB_ENVIRONMENT  lines NAME=value: environment variables of every job; the job's own come after
  GLIDEIN_IMAGE            the whole glidein runs inside this image, by apptainer or singularity
  GLIDEIN_NOTICE_TO_ALL    signals that the batch system sends as its notice to every process, users' jobs too: they ignore
                           them from their start (default: none)
  GLIDEIN_REGISTER_S       end if the pool has not been joined after so many seconds (default 300)
  GLIDEIN_LOST_S           end if the pool's collector is gone for so many seconds and no job runs; 0: never (default 1200)
  GLIDEIN_LOG_MB           what the daemons' logs may take of the scratch directory, in MiB (default 20)
  GLIDEIN_FAST_FAILURES    take no more jobs, and end, after so many in a row that failed fast; 0: never (default 5)
  GLIDEIN_FAST_FAILURE_S   a job that fails within so many seconds has failed fast (default 60)
  GLIDEIN_CHECKS           lines "NAME ARGUMENTS": executables in checks/ that the startd runs from time to time
  GLIDEIN_REQUIRE_CHECKS   names of those that must have passed before a job may start
  GLIDEIN_CHECK_PERIOD_S   seconds between two runs of a check (default 600)
  GLIDEIN_CHECK_TIMEOUT_S  a check that takes longer has failed (default 60)

Exit status:
    0  ended as planned: no job for too long, retired, walltime over, or shut down by the pool
   10  a setting is missing or wrong, or the job runs as root
   11  a file of the payload is missing or cannot be read
   12  the tarball is damaged: its sha256 is not the one expected
   13  no scratch directory could be made, or it has too little room, or is full
   14  the tarball could not be unpacked, or a file in it is not what its list says
   15  no tarball fits this node, or none runs here (architecture, glibc, noexec)
   16  the credential is missing or cannot be read
   17  fewer GPUs here than promised
   18  HTCondor's daemons failed
   19  the pool could not be joined in time
   20  the tarball could not be fetched from its web server
   21  GLIDEIN_IMAGE cannot be used here
   30  jobs fail fast here
   31  less memory here than promised
   32  the collector's name is not known here
   33  this node's clock is wrong
   34  a step before the start of HTCondor took too long: a file system or a server does not answer
   35  the pool's collector does not answer
   36  the pool's collector was gone for too long
  137  the script was killed (the guard says so, in its place)
  129 130 138 140 143  stopped by HUP, INT, USR1, USR2, TERM
HELP
}
