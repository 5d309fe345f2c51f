# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Is this node fit for jobs? What can be told before HTCondor is there is looked at first: the memory that was promised,
# the pool's name, the clock; and whether the pool's collector answers. Whether it takes this glidein shows when that
# registers. Checks of the operator's choice go on as long as the glidein lives, run by the startd.

NAME_S=20    # how long a name server may take
CLOCK_S=20   # how long the file system with the log directory may take
PING_S=10    # how long the pool's collector may take
PINGS=7      # how often it is asked: a minute, in which a central manager may have started anew
PING_AGAIN_S=10
MOST_OFFSET_S=300 # of this node's clock: tokens and GLIDEIN_ToDie are read by other machines' clocks

check_node() {
  [ -z "$GLIDEIN_JOB_SETUP" ] || [ -r "$GLIDEIN_JOB_SETUP" ] ||
    leave 11 "GLIDEIN_JOB_SETUP=$GLIDEIN_JOB_SETUP is missing on this node or cannot be read"
  check_memory
  check_name
  attempt "$CLOCK_S" check_clock || say "GLIDEIN_LOG_DIR=$GLIDEIN_LOG_DIR does not answer: the clock is not checked"
}

# check_memory: the node, and the control group that this job is in, must have what jobs are offered. A tenth less passes,
# because systems keep some of it and batch systems round. What others use now is only worth a line: it may be gone soon.
check_memory() {
  needed=$((GLIDEIN_MEMORY_MB - GLIDEIN_MEMORY_MB / 10))
  there=$(memory_mb MemTotal)
  [ -z "$there" ] || [ "$there" -ge "$needed" ] ||
    leave 31 "GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB was promised, and this node has $there MB of memory"
  limit=$(memory_granted_mb '')
  [ -z "$limit" ] || [ "$limit" -ge "$needed" ] ||
    leave 31 "GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB was promised, and the control group of this job has $limit MB of memory"
  [ -z "$limit" ] || [ "$limit" -ge $((GLIDEIN_MEMORY_MB + GLIDEIN_MEMORY_OVERHEAD_MB)) ] ||
    say "the control group of this job has $limit MB of memory, less than the $GLIDEIN_MEMORY_MB MB that jobs are offered and" \
      "the $GLIDEIN_MEMORY_OVERHEAD_MB MB for the glidein itself: the kernel may kill jobs that use what they asked for"
  free=$(memory_mb MemAvailable)
  [ -z "$free" ] || [ "$free" -ge "$needed" ] ||
    say "others use this node's memory: $free MB are available, GLIDEIN_MEMORY_MB=$GLIDEIN_MEMORY_MB was promised"
}

# memory_mb KEY: of /proc/meminfo, in MiB; nothing where it has no such line.
memory_mb() {
  sed -n "s/^$1:  *\([0-9][0-9]*\) kB\$/\1/p" /proc/meminfo 2>/dev/null | while read -r kib; do echo $((kib / 1024)); done
}

# check_name: the collector has an address here. A name server may need a second try.
check_name() {
  host=${GLIDEIN_COLLECTOR%%:*}
  case $host in *[!0-9.]*) ;; *) return 0 ;; esac
  command -v getent >/dev/null 2>&1 || return 0
  for round in 1 2 3; do
    [ "$round" -eq 1 ] || sleep 2
    within "$NAME_S" getent ahosts "$host" >/dev/null 2>&1 && return 0
  done
  leave 32 "GLIDEIN_COLLECTOR=$GLIDEIN_COLLECTOR has no address on this node (getent ahosts $host, three times): look at its" \
    "name service"
}

# check_clock: against that of the machine which serves the log directory, as far as that is not this one: a file that is
# made now should be of now. A clock that is wrong makes tokens invalid and ends jobs at the wrong time.
check_clock() {
  [ "$GLIDEIN_LOG_DIR" != - ] || return 0
  probe=$GLIDEIN_LOG_DIR/.clock.$$.${SCRATCH##*.}
  (: >"$probe") 2>/dev/null || return 0 # that the logs cannot be kept will be said at the end
  made=$(date -r "$probe" +%s 2>/dev/null)
  now=$(date +%s)
  rm -f "$probe"
  case $made in '' | *[!0-9]*) return 0 ;; esac
  offset=$((now - made))
  [ "${offset#-}" -le "$MOST_OFFSET_S" ] ||
    leave 33 "this node's clock is $offset s off that of the machine with $GLIDEIN_LOG_DIR: more than $MOST_OFFSET_S s"
}

# check_pool: the collector answers. That it refuses is no reason to end yet.
check_pool() {
  [ -x "$SCRATCH/condor/bin/condor_ping" ] || return 0
  round=0
  while [ "$round" -lt "$PINGS" ]; do
    [ "$round" -eq 0 ] || sleep "$PING_AGAIN_S"
    round=$((round + 1))
    within "$PING_S" run_condor bin/condor_ping -type collector -verbose ADVERTISE_STARTD >"$SCRATCH/tmp/ping.out" 2>&1
    pinged=$?
    [ "$pinged" -ne 0 ] || return 0
    why=$(last_line "$(without_tokens <"$SCRATCH/tmp/ping.out")")
    case $pinged$why in
    124*) why="no answer within $PING_S s" ;;
    *'failed to make connection'* | *'locate'*) ;;
    *)
      say "the pool's collector answers, but not as it should: ${why:-condor_ping ended with status $pinged}"
      return 0
      ;;
    esac
    [ "$round" -gt 1 ] || say "the pool's collector does not answer yet; it is asked $PINGS times, every $PING_AGAIN_S s: $why"
  done
  leave 35 "the pool cannot be reached: GLIDEIN_COLLECTOR=$GLIDEIN_COLLECTOR, $PINGS times: $why"
}

# --- Checks that go on: GLIDEIN_CHECKS has a line "NAME ARGUMENTS" for each, an executable in checks/ of the payload.

check_health_settings() {
  : "${GLIDEIN_FAST_FAILURES:=5}" "${GLIDEIN_FAST_FAILURE_S:=60}"
  need_number GLIDEIN_FAST_FAILURES 0
  need_number GLIDEIN_FAST_FAILURE_S 1
  : "${GLIDEIN_CHECK_PERIOD_S:=600}" "${GLIDEIN_CHECK_TIMEOUT_S:=60}"
  need_number GLIDEIN_CHECK_PERIOD_S 1
  need_number GLIDEIN_CHECK_TIMEOUT_S 1
  names=' '
  while read -r check arguments; do
    [ -n "$check" ] || continue
    case $check in
    [!A-Za-z_]* | *[!A-Za-z0-9_]*) bad_setting "GLIDEIN_CHECKS has '$check': not a name of letters, digits and '_'" ;;
    esac
    case $arguments in
    *[!A-Za-z0-9\ _./:@%+=,-]*)
      bad_setting "GLIDEIN_CHECKS has '$check $arguments': allowed in arguments are letters, digits, blanks and _./:@%+=,-" ;;
    esac
    names="$names$check "
  done <<CHECKS
${GLIDEIN_CHECKS:=}
CHECKS
  for check in ${GLIDEIN_REQUIRE_CHECKS:=}; do
    case $names in
    *" $check "*) ;;
    *) bad_setting "GLIDEIN_REQUIRE_CHECKS has '$check', which is not in GLIDEIN_CHECKS" ;;
    esac
  done
  # shellcheck disable=SC2034 # for report.sh
  TELLABLE=yes
}

# copy_checks: the payload may be replaced while this glidein runs.
copy_checks() {
  [ -n "$GLIDEIN_CHECKS" ] || return 0
  mkdir "$SCRATCH/checks" || leave 13 "the directory $SCRATCH/checks cannot be made"
  cp "$PAYLOAD/lib/run_check.sh" "$SCRATCH/checks/.run" || leave 11 "$PAYLOAD/lib/run_check.sh is missing or cannot be read"
  while read -r check _; do
    { cp "$PAYLOAD/checks/$check" "$SCRATCH/checks/$check" && chmod 700 "$SCRATCH/checks/$check"; } 2>/dev/null ||
      leave 11 "$PAYLOAD/checks/$check, of GLIDEIN_CHECKS, is missing or cannot be read: deploy the site again"
  done <<CHECKS
$GLIDEIN_CHECKS
CHECKS
}

# config_checks: one job of the startd for each check. What it says about the machine is attributes of the machine ad.
config_checks() {
  [ -n "$GLIDEIN_CHECKS" ] || return 0
  names=
  echo
  echo "# --- Checks, every $GLIDEIN_CHECK_PERIOD_S s: each says GLIDEIN_Resource_<name> = True or False in the machine ad"
  while read -r check arguments; do
    names="$names $check"
    cat <<CONFIG
STARTD_CRON_${check}_EXECUTABLE = /bin/sh
STARTD_CRON_${check}_ARGS = "'$SCRATCH/checks/.run' $check $arguments"
STARTD_CRON_${check}_ENV = "GLIDEIN_CHECK_TIMEOUT_S=$GLIDEIN_CHECK_TIMEOUT_S${GPU_LIST:+ GLIDEIN_GPU_LIST=$GPU_LIST}"
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
  # START looks at these. 23.9 tells the collector of new results only with the slot's next update, and not when a check
  # asks for one.
  interval=$GLIDEIN_CHECK_PERIOD_S
  [ "$interval" -le 60 ] || interval=60
  echo "UPDATE_INTERVAL = $interval"
}

# required_checks: what START asks of the machine, as a condition.
required_checks() {
  for check in $GLIDEIN_REQUIRE_CHECKS; do
    printf ' && (MY.GLIDEIN_Resource_%s =?= True)' "$check"
  done
}
