# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The settings. All are checked before anything is written; the first invalid one ends the glidein (status 10).

bad_setting() {
  end_with 10 "of an invalid setting: $*"
}

# need_value NAME: end if the environment variable NAME is empty; store its value in `value`. NAME is a constant.
need_value() {
  eval "value=\${$1-}"
  [ -n "$value" ] || bad_setting "$1 is missing or empty"
}

need_name() {
  need_value "$1"
  case $value in
  [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*)
    bad_setting "$1='$value' is invalid; expected a letter or digit, then letters, digits, '.', '_', '-'" ;;
  esac
}

# need_number NAME LOWEST: at most 15 digits, no leading zero, which the shell would read as octal.
need_number() {
  need_value "$1"
  case $value in
  *[!0-9]* | 0?* | ????????????????*) bad_setting "$1='$value' is invalid; expected a whole number" ;;
  esac
  [ "$value" -ge "$2" ] || bad_setting "$1=$value is invalid; the least is $2"
}

# need_path NAME: paths are not quoted in condor_config and LD_LIBRARY_PATH, so not all characters are allowed.
need_path() {
  need_value "$1"
  case $value in
  [!/]*) bad_setting "$1='$value' is invalid; expected an absolute path" ;;
  *[!A-Za-z0-9\ /._,+@%=~-]*)
    bad_setting "$1='$value' is invalid; allowed in a path: letters, digits, blanks and /._,+@%=~-" ;;
  esac
}

check_settings() {
  [ "$(id -u)" -ne 0 ] || bad_setting "the user is root; a glidein must run as an ordinary user"
  need_name GLIDEIN_DEPLOYMENT
  need_name GLIDEIN_SITE
  need_name GLIDEIN_ENTRY
  need_name GLIDEIN_SHAPE
  need_path GLIDEIN_HOME
  [ "${GLIDEIN_CREDENTIAL+set}" = set ] ||
    bad_setting "GLIDEIN_CREDENTIAL is missing; expected a file, or an empty value for the pool password in the tarball"
  [ -z "$GLIDEIN_CREDENTIAL" ] || need_path GLIDEIN_CREDENTIAL
  check_collector
  need_number GLIDEIN_CPUS 1
  need_number GLIDEIN_MEMORY_MB 1
  : "${GLIDEIN_MEMORY_OVERHEAD_MB:=0}"
  need_number GLIDEIN_MEMORY_OVERHEAD_MB 0
  need_number GLIDEIN_DISK_MB 1
  : "${GLIDEIN_MIN_DISK_MB:=$GLIDEIN_DISK_MB}"
  need_number GLIDEIN_MIN_DISK_MB 0
  need_number GLIDEIN_GPUS 0
  need_number GLIDEIN_WALLTIME_S 1
  need_number GLIDEIN_RETIREMENT_S 0
  need_number GLIDEIN_IDLE_TIMEOUT_S 0
  : "${GLIDEIN_IDLE_AFTER_JOB_S:=$GLIDEIN_IDLE_TIMEOUT_S}"
  need_number GLIDEIN_IDLE_AFTER_JOB_S 0
  : "${GLIDEIN_GRACE_S:=30}"
  need_number GLIDEIN_GRACE_S 1
  case ${GLIDEIN_NOTICE_TO_ALL:=} in
  *[!A-Z0-9\ ]*)
    bad_setting "GLIDEIN_NOTICE_TO_ALL='$GLIDEIN_NOTICE_TO_ALL' is invalid; expected names of signals such as USR1 USR2" ;;
  esac
  : "${GLIDEIN_GRANTED:=asked}"
  case $GLIDEIN_GRANTED in
  asked | auto | node | machine_ad) ;;
  *) bad_setting "GLIDEIN_GRANTED='$GLIDEIN_GRANTED' is invalid; expected asked, auto, node or machine_ad" ;;
  esac
  check_options
  [ "$GLIDEIN_RETIREMENT_S" -lt "$GLIDEIN_WALLTIME_S" ] ||
    bad_setting "GLIDEIN_RETIREMENT_S=$GLIDEIN_RETIREMENT_S is invalid;" \
      "expected less than GLIDEIN_WALLTIME_S=$GLIDEIN_WALLTIME_S"
  avoid_brackets
  need_path GLIDEIN_SCRATCH
  [ "${GLIDEIN_LOG_DIR-}" = - ] || need_path GLIDEIN_LOG_DIR
  need_value GLIDEIN_BATCH_ID
  [ "${GLIDEIN_ATTRIBUTES+set}" = set ] || bad_setting "GLIDEIN_ATTRIBUTES is missing; it may be empty"
  check_attributes
  check_condor_config
  # These become parts of lines of condor_config.
  : "${GLIDEIN_START:=}" "${GLIDEIN_RANK:=}"
  need_expression GLIDEIN_START "$GLIDEIN_START"
  need_expression GLIDEIN_RANK "$GLIDEIN_RANK"
  GLIDEIN_REGISTER_S=${GLIDEIN_REGISTER_S:-300}
  need_number GLIDEIN_REGISTER_S 1
  : "${GLIDEIN_LOST_S:=1200}" "${GLIDEIN_LOG_MB:=20}"
  need_number GLIDEIN_LOST_S 0
  need_number GLIDEIN_LOG_MB 1
  : "${GLIDEIN_LOG_INTERVAL_S:=0}"
  need_number GLIDEIN_LOG_INTERVAL_S 0
  [ -z "${GLIDEIN_LOG_S3:=}" ] || need_path GLIDEIN_LOG_S3
  check_health_settings # after this, each ending has a summary
}

# check_options: check the settings that may be missing.
check_options() {
  : "${GLIDEIN_SITE_RESOURCE:=$GLIDEIN_SITE}"
  need_name GLIDEIN_SITE_RESOURCE
  case ${GLIDEIN_GPU_DISCOVERY:=} in
  *[!A-Za-z0-9\ ,:._-]*)
    bad_setting "GLIDEIN_GPU_DISCOVERY='$GLIDEIN_GPU_DISCOVERY' is invalid; expected arguments such as -extra" ;;
  esac
  case ${GLIDEIN_CVMFS:=} in
  *[!A-Za-z0-9\ .-]*) bad_setting "GLIDEIN_CVMFS='$GLIDEIN_CVMFS' is invalid; expected repositories, separated by blanks" ;;
  esac
  case ${GLIDEIN_IMAGE:=} in
  -* | *[!A-Za-z0-9/._:@+-]*)
    bad_setting "GLIDEIN_IMAGE='$GLIDEIN_IMAGE' is invalid; expected the path or address of an image" ;;
  esac
  [ -z "${GLIDEIN_JOB_SETUP:=}" ] || need_path GLIDEIN_JOB_SETUP
  : "${GLIDEIN_JOB_ENVIRONMENT:=}"
  while IFS= read -r line; do
    case ${line%%=*} in
    '' | "$line" | [!A-Za-z_]* | *[!A-Za-z0-9_]*)
      [ -z "$line" ] || bad_setting "GLIDEIN_JOB_ENVIRONMENT has the invalid line '$line'; expected NAME=value" ;;
    esac
  done <<ENVIRONMENT
$GLIDEIN_JOB_ENVIRONMENT
ENVIRONMENT
}

# check_condor_config: each line becomes a line of condor_config. Continuation lines are invalid.
check_condor_config() {
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    name=${line%% =*}
    case $name in
    "$line" | '' | [!A-Za-z_]* | *[!A-Za-z0-9_.]*)
      bad_setting "GLIDEIN_CONDOR_CONFIG has the invalid line '$line'; expected 'NAME = value'" ;;
    esac
    case $line in
    *"\\") bad_setting "GLIDEIN_CONDOR_CONFIG has the line '$line'; a backslash at its end is invalid" ;;
    esac
  done <<CONFIG
${GLIDEIN_CONDOR_CONFIG:=}
CONFIG
}

need_expression() {
  case $2 in
  *"\$("* | *"
"*) bad_setting "$1='$2' is invalid; expected a ClassAd expression on one line" ;;
  esac
}

check_collector() {
  need_value GLIDEIN_COLLECTOR
  case $GLIDEIN_COLLECTOR in
  *[!A-Za-z0-9.:_-]* | :* | *: | *:*[!0-9]* | *:*:*)
    bad_setting "GLIDEIN_COLLECTOR='$GLIDEIN_COLLECTOR' is invalid; expected HOST or HOST:PORT" ;;
  esac
}

# check_attributes: each line becomes a line of condor_config. Macros and continuation lines are invalid.
check_attributes() {
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    name=${line%% = *}
    case $name in
    "$line" | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*)
      bad_setting "GLIDEIN_ATTRIBUTES has the invalid line '$line'; expected 'Name = <ClassAd literal>'" ;;
    esac
    case ${line#* = } in
    "" | *"\$("* | *"\\")
      bad_setting "GLIDEIN_ATTRIBUTES has the invalid line '$line'; expected a ClassAd literal after ' = '" ;;
    esac
  done <<ATTRIBUTES
$GLIDEIN_ATTRIBUTES
ATTRIBUTES
}

# attribute_names LINES: print the names in lines "Name = value", one per line.
attribute_names() {
  printf '%s\n' "$1" | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\) = .*/\1/p'
}

# clean_environment: remove settings and credentials of an HTCondor that has started this job or is installed on this node.
# They would override the glidein's. (An outer HTCondor finds the processes of its job by _CONDOR_ANCESTOR_*, which stay.)
clean_environment() {
  for variable in $(env | sed -n -e '/^_[Cc][Oo][Nn][Dd][Oo][Rr]_ANCESTOR_/d' \
    -e 's/^\(_*[Cc][Oo][Nn][Dd][Oo][Rr]_[A-Za-z0-9_]*\)=.*/\1/p' \
    -e 's/^\(_CHIRP_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(X509_[A-Za-z0-9_]*\)=.*/\1/p' \
    -e 's/^\(BEARER_TOKEN[A-Z_]*\)=.*/\1/p' -e 's/^\(BATCH_SYSTEM\)=.*/\1/p'); do
    unset "$variable"
  done
}

# set_times: set the times of this glidein (epoch seconds) and its limits (seconds):
#   TO_RETIRE  no job is accepted after this time
#   TO_DIE     the glidein stops, MARGIN_S before the end of the walltime
#   MARGIN_S   the time for jobs to vacate and for the clean-up
#   STOP_S     the time limit of a stop after a signal: two thirds of the time before the batch system's kill
#   VACATE_S   the time for a job to vacate at TO_DIE; then the startd kills the job, just before stop_master does
set_times() {
  MARGIN_S=$((GLIDEIN_WALLTIME_S / 10))
  [ "$MARGIN_S" -le 120 ] || MARGIN_S=120
  # shellcheck disable=SC2034 # for daemons.sh
  STOP_S=$((GLIDEIN_GRACE_S * 2 / 3))
  VACATE_S=$((MARGIN_S * 2 / 3 - 2))
  [ "$VACATE_S" -ge 1 ] || VACATE_S=1
  TO_DIE=$((STARTED_AT + GLIDEIN_WALLTIME_S - MARGIN_S))
  TO_RETIRE=$((STARTED_AT + GLIDEIN_WALLTIME_S - GLIDEIN_RETIREMENT_S))
  [ "$TO_RETIRE" -le "$TO_DIE" ] || TO_RETIRE=$TO_DIE
  log "start of $GLIDEIN_SITE/$GLIDEIN_ENTRY/$GLIDEIN_SHAPE, batch job $GLIDEIN_BATCH_ID, on $(uname -n):" \
    "$GLIDEIN_CPUS cpus, $GLIDEIN_MEMORY_MB MB memory, $GLIDEIN_DISK_MB MB disk, $GLIDEIN_GPUS gpus," \
    "retires in $((TO_RETIRE - STARTED_AT)) s, ends in $((TO_DIE - STARTED_AT)) s"
}
