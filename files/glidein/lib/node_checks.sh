# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Checks of this node. Before HTCondor is started: the memory, the collector's name, and whether the collector responds. While it runs: the checks in GLIDEIN_CHECKS, which the startd runs.

NAME_S=20             # time limit for the name service
PING_S=10             # time limit for the collector
PINGS=7               # number of attempts; they take a minute, in which a central manager may restart
PING_INTERVAL_S=10

check_node() {
  for program in tar gzip sha256sum; do
    command -v "$program" >/dev/null 2>&1 || end_with 15 "this node has no $program"
  done
  [ -z "$GLIDEIN_JOB_SETUP" ] || [ -r "$GLIDEIN_JOB_SETUP" ] ||
    end_with 11 "GLIDEIN_JOB_SETUP=$GLIDEIN_JOB_SETUP is missing on this node or cannot be read"
  check_memory
  check_name
}

# check_memory: end if the node or the control group of this job has less than nine tenths of the jobs' memory. The rest is
# tolerated, because systems reserve memory and batch systems round. If other processes use the memory now, only log it.
check_memory() {
  needed=$((GLIDEIN_MEMORY_MB - GLIDEIN_MEMORY_MB / 10))
  there=$(memory_mb MemTotal)
  [ -z "$there" ] || [ "$there" -ge "$needed" ] ||
    end_with 31 "GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB is more than this node has, $there MB"
  limit=$(memory_granted_mb '')
  [ -z "$limit" ] || [ "$limit" -ge "$needed" ] ||
    end_with 31 "GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB is more than the control group of this job has, $limit MB"
  [ -z "$limit" ] || [ "$limit" -ge $((GLIDEIN_MEMORY_MB + GLIDEIN_MEMORY_OVERHEAD_MB)) ] ||
    log "the control group of this job has $limit MB of memory, less than GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB and" \
      "GLIDEIN_MEMORY_OVERHEAD_MB=$GLIDEIN_MEMORY_OVERHEAD_MB: the kernel may kill jobs that use what they requested"
  free=$(memory_mb MemAvailable)
  [ -z "$free" ] || [ "$free" -ge "$needed" ] ||
    log "other processes use this node's memory: $free MB are available, less than GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB"
}

# memory_mb KEY: print a value of /proc/meminfo in MiB; print nothing if it is missing.
memory_mb() {
  sed -n "s/^$1:  *\([0-9][0-9]*\) kB\$/\1/p" /proc/meminfo 2>/dev/null | while read -r kib; do echo $((kib / 1024)); done
}

# check_name: end if the collector's name cannot be resolved in three attempts.
check_name() {
  host=${GLIDEIN_COLLECTOR%%:*}
  case $host in *[!0-9.]*) ;; *) return 0 ;; esac
  command -v getent >/dev/null 2>&1 || return 0
  for round in 1 2 3; do
    [ "$round" -eq 1 ] || sleep 2
    run_limited "$NAME_S" getent ahosts "$host" >/dev/null 2>&1 && return 0
  done
  end_with 32 "the host name in GLIDEIN_COLLECTOR=$GLIDEIN_COLLECTOR cannot be resolved on this node:" \
    "getent ahosts $host failed 3 times"
}

# check_pool: end if the collector does not respond. If it refuses the glidein, HTCondor may try again.
check_pool() {
  [ -x "$SCRATCH/condor/bin/condor_ping" ] || return 0
  round=0
  while [ "$round" -lt "$PINGS" ]; do
    [ "$round" -eq 0 ] || sleep "$PING_INTERVAL_S"
    round=$((round + 1))
    run_limited "$PING_S" run_condor bin/condor_ping -type collector -verbose ADVERTISE_STARTD >"$SCRATCH/tmp/ping.out" 2>&1
    pinged=$?
    [ "$pinged" -ne 0 ] || return 0
    why=$(failure_of "$pinged" "$(without_tokens <"$SCRATCH/tmp/ping.out")")
    case $pinged$why in
    124*) why="no answer within $PING_S s" ;;
    *'failed to make connection'* | *'locate'*) ;;
    *)
      log "the pool's collector responds with an error: $why"
      return 0
      ;;
    esac
    [ "$round" -gt 1 ] ||
      log "the pool's collector does not respond; trying $PINGS times, every $PING_INTERVAL_S s: $why"
  done
  end_with 35 "the pool's collector does not respond: GLIDEIN_COLLECTOR=$GLIDEIN_COLLECTOR, tried $PINGS times: $why"
}

# --- Checks while HTCondor runs: GLIDEIN_CHECKS has a line "NAME ARGUMENTS" for each executable in checks/ of the payload.

# copy_checks: copy the checks, because the payload may be replaced while this glidein runs.
copy_checks() {
  [ -n "$GLIDEIN_CHECKS" ] || return 0
  mkdir "$SCRATCH/checks" || end_with 13 "the directory $SCRATCH/checks cannot be made"
  cp "$PAYLOAD/lib/run_check.sh" "$SCRATCH/checks/.run" || end_with 11 "$PAYLOAD/lib/run_check.sh is missing or cannot be read"
  while read -r check _; do
    { cp "$PAYLOAD/checks/$check" "$SCRATCH/checks/$check" && chmod 700 "$SCRATCH/checks/$check"; } 2>/dev/null ||
      end_with 11 "$PAYLOAD/checks/$check, of GLIDEIN_CHECKS, is missing or cannot be read: deploy the site again"
  done <<CHECKS
$GLIDEIN_CHECKS
CHECKS
}

# config_checks: print a STARTD_CRON job for each check. Its results become attributes of the machine ad.
config_checks() {
  [ -n "$GLIDEIN_CHECKS" ] || return 0
  names=
  gpus=${GPU_LIST:+ GLIDEIN_GPU_LIST=$GPU_LIST}${AMD:+ GLIDEIN_GPU_VARIABLE=ROCR_VISIBLE_DEVICES}
  echo
  echo "# --- Checks, every $GLIDEIN_CHECK_PERIOD_S s; each sets GLIDEIN_Resource_<name> to True or False in the machine ad"
  while read -r check arguments; do
    names="$names $check"
    cat <<CONFIG
STARTD_CRON_${check}_EXECUTABLE = /bin/sh
STARTD_CRON_${check}_ARGS = "'$SCRATCH/checks/.run' $check $arguments"
STARTD_CRON_${check}_ENV = "GLIDEIN_CHECK_TIMEOUT_S=$GLIDEIN_CHECK_TIMEOUT_S$gpus"
STARTD_CRON_${check}_CWD = \$(TMP_DIR)
STARTD_CRON_${check}_MODE = WaitForExit
STARTD_CRON_${check}_PERIOD = ${GLIDEIN_CHECK_PERIOD_S}s
STARTD_CRON_${check}_PREFIX =
CONFIG
  done <<CHECKS
$GLIDEIN_CHECKS
CHECKS
  echo "STARTD_CRON_JOBLIST =$names"
  [ -n "$GLIDEIN_REQUIRE_CHECKS" ] || return 0
  # START depends on the results. HTCondor 23.9 sends them with the slot's next update only, even if a check requests an
  # update.
  interval=$GLIDEIN_CHECK_PERIOD_S
  [ "$interval" -le 60 ] || interval=60
  echo "UPDATE_INTERVAL = $interval"
}

# required_checks: print the part of START that the required checks must fulfil.
required_checks() {
  for check in $GLIDEIN_REQUIRE_CHECKS; do
    printf ' && (MY.GLIDEIN_Resource_%s =?= True)' "$check"
  done
}
