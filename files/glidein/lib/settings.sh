# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The settings: every one is looked at before anything is done. The first wrong one ends the glidein (status 10).

bad_setting() {
  leave 10 "of a bad setting: $*"
}

# need_value NAME: the environment variable NAME must not be empty; its value is in `value` then. NAME is one of ours.
need_value() {
  eval "value=\${$1-}"
  [ -n "$value" ] || bad_setting "$1 is missing or empty"
}

need_name() {
  need_value "$1"
  case $value in
  [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*)
    bad_setting "$1 is '$value': a name starts with a letter or digit and has only letters, digits, '.', '_', '-'" ;;
  esac
}

# need_number NAME LOWEST. At most 15 digits, no leading zero: the shell would read that as octal.
need_number() {
  need_value "$1"
  case $value in
  *[!0-9]* | 0?* | ????????????????*) bad_setting "$1 is '$value': not a whole number" ;;
  esac
  [ "$value" -ge "$2" ] || bad_setting "$1 is $value: the least allowed is $2"
}

# Paths stand unquoted in condor_config and in LD_LIBRARY_PATH, so some characters cannot be allowed in them.
need_path() {
  need_value "$1"
  case $value in
  [!/]*) bad_setting "$1 is '$value': not an absolute path" ;;
  *[!A-Za-z0-9\ /._,+@%=~-]*)
    bad_setting "$1 is '$value': allowed in a path are letters, digits, blanks and /._,+@%=~-" ;;
  esac
}

check_settings() {
  [ "$(id -u)" -ne 0 ] || bad_setting "user is root: a glidein runs as an ordinary user"
  need_name GLIDEIN_DEPLOYMENT
  need_name GLIDEIN_SITE
  need_name GLIDEIN_ENTRY
  need_name GLIDEIN_SHAPE
  need_path GLIDEIN_HOME
  [ "${GLIDEIN_CREDENTIAL+set}" = set ] || bad_setting "GLIDEIN_CREDENTIAL is missing (empty: pool password in the tarball)"
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
  *[!A-Z0-9\ ]*) bad_setting "GLIDEIN_NOTICE_TO_ALL is '$GLIDEIN_NOTICE_TO_ALL': not names of signals such as USR1 USR2" ;;
  esac
  : "${GLIDEIN_GRANTED:=asked}"
  case $GLIDEIN_GRANTED in
  asked | auto | node | machine_ad) ;;
  *) bad_setting "GLIDEIN_GRANTED is '$GLIDEIN_GRANTED': not asked, auto, node or machine_ad" ;;
  esac
  check_options
  [ "$GLIDEIN_RETIREMENT_S" -lt "$GLIDEIN_WALLTIME_S" ] ||
    bad_setting "GLIDEIN_RETIREMENT_S is $GLIDEIN_RETIREMENT_S: it must be less than GLIDEIN_WALLTIME_S, $GLIDEIN_WALLTIME_S"
  avoid_brackets
  need_path GLIDEIN_SCRATCH
  [ "${GLIDEIN_LOG_DIR-}" = - ] || need_path GLIDEIN_LOG_DIR
  need_value GLIDEIN_BATCH_ID
  [ "${GLIDEIN_ATTRIBUTES+set}" = set ] || bad_setting "GLIDEIN_ATTRIBUTES is missing (it may be empty)"
  check_attributes
  # Becomes part of a line of condor_config.
  : "${GLIDEIN_START:=}" "${GLIDEIN_RANK:=}"
  need_expression GLIDEIN_START "$GLIDEIN_START"
  need_expression GLIDEIN_RANK "$GLIDEIN_RANK"
  GLIDEIN_REGISTER_S=${GLIDEIN_REGISTER_S:-300}
  need_number GLIDEIN_REGISTER_S 1
  : "${GLIDEIN_LOST_S:=1200}" "${GLIDEIN_LOG_MB:=20}"
  need_number GLIDEIN_LOST_S 0
  need_number GLIDEIN_LOG_MB 1
  check_health_settings # from here on an ending is told in a summary
}

# check_options: what may be left out.
check_options() {
  : "${GLIDEIN_SITE_RESOURCE:=$GLIDEIN_SITE}"
  need_name GLIDEIN_SITE_RESOURCE
  case ${GLIDEIN_GPU_DISCOVERY:=} in
  *[!A-Za-z0-9\ ,:._-]*) bad_setting "GLIDEIN_GPU_DISCOVERY is '$GLIDEIN_GPU_DISCOVERY': not arguments such as -extra" ;;
  esac
  case ${GLIDEIN_CVMFS:=} in
  *[!A-Za-z0-9\ .-]*) bad_setting "GLIDEIN_CVMFS is '$GLIDEIN_CVMFS': not names of repositories, blanks in between" ;;
  esac
  case ${GLIDEIN_IMAGE:=} in
  -* | *[!A-Za-z0-9/._:@+-]*) bad_setting "GLIDEIN_IMAGE is '$GLIDEIN_IMAGE': not a path or address of an image" ;;
  esac
  [ -z "${GLIDEIN_JOB_SETUP:=}" ] || need_path GLIDEIN_JOB_SETUP
  : "${GLIDEIN_JOB_ENVIRONMENT:=}"
  while IFS= read -r line; do
    case ${line%%=*} in
    '' | "$line" | [!A-Za-z_]* | *[!A-Za-z0-9_]*)
      [ -z "$line" ] || bad_setting "GLIDEIN_JOB_ENVIRONMENT has the line '$line': not NAME=value" ;;
    esac
  done <<ENVIRONMENT
$GLIDEIN_JOB_ENVIRONMENT
ENVIRONMENT
}

need_expression() {
  case $2 in
  *"\$("* | *"
"*) bad_setting "$1 is '$2': not a ClassAd expression on one line" ;;
  esac
}

check_collector() {
  need_value GLIDEIN_COLLECTOR
  case $GLIDEIN_COLLECTOR in
  *[!A-Za-z0-9.:_-]* | :* | *: | *:*[!0-9]* | *:*:*)
    bad_setting "GLIDEIN_COLLECTOR is '$GLIDEIN_COLLECTOR': not HOST or HOST:PORT" ;;
  esac
}

# Each line becomes a line of condor_config: no macros, no continuation lines, no names that are not ClassAd names.
check_attributes() {
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    name=${line%% = *}
    case $name in
    "$line" | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*)
      bad_setting "GLIDEIN_ATTRIBUTES has the line '$line': not 'Name = <ClassAd literal>'" ;;
    esac
    case ${line#* = } in
    "" | *"\$("* | *"\\") bad_setting "GLIDEIN_ATTRIBUTES has the line '$line': not a ClassAd literal" ;;
    esac
  done <<ATTRIBUTES
$GLIDEIN_ATTRIBUTES
ATTRIBUTES
}

# attribute_names LINES: the names in lines "Name = value", one per line.
attribute_names() {
  printf '%s\n' "$1" | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\) = .*/\1/p'
}

# clean_environment: an HTCondor that started this job, or is installed on this node, has its settings in the environment,
# where they would override ours, and credentials that are none of ours. (_CONDOR_ANCESTOR_... stays: by that, an outer
# HTCondor finds the processes of its job.)
clean_environment() {
  for variable in $(env | sed -n -e '/^_[Cc][Oo][Nn][Dd][Oo][Rr]_ANCESTOR_/d' \
    -e 's/^\(_*[Cc][Oo][Nn][Dd][Oo][Rr]_[A-Za-z0-9_]*\)=.*/\1/p' \
    -e 's/^\(_CHIRP_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(X509_[A-Za-z0-9_]*\)=.*/\1/p' \
    -e 's/^\(BEARER_TOKEN[A-Z_]*\)=.*/\1/p' -e 's/^\(BATCH_SYSTEM\)=.*/\1/p'); do
    unset "$variable"
  done
}

# Sets the times of this glidein (epoch seconds; MARGIN_S seconds):
#   TO_RETIRE  no job is accepted any more
#   TO_DIE     it stops by itself; MARGIN_S before the batch system would kill it, to let jobs vacate and to clean up
# STOP_S is how long a stop that a signal asks for may take: two thirds of the time before the batch system's kill.
# VACATE_S is how long a job may take to vacate at TO_DIE: one that takes longer is killed just before its glidein loses
# patience.
plan_times() {
  MARGIN_S=$((GLIDEIN_WALLTIME_S / 10))
  [ "$MARGIN_S" -le 120 ] || MARGIN_S=120
  # shellcheck disable=SC2034 # for daemons.sh
  STOP_S=$((GLIDEIN_GRACE_S * 2 / 3))
  VACATE_S=$((MARGIN_S * 2 / 3 - 2))
  [ "$VACATE_S" -ge 1 ] || VACATE_S=1
  TO_DIE=$((STARTED_AT + GLIDEIN_WALLTIME_S - MARGIN_S))
  TO_RETIRE=$((STARTED_AT + GLIDEIN_WALLTIME_S - GLIDEIN_RETIREMENT_S))
  [ "$TO_RETIRE" -le "$TO_DIE" ] || TO_RETIRE=$TO_DIE
  say "start of $GLIDEIN_SITE/$GLIDEIN_ENTRY/$GLIDEIN_SHAPE, batch job $GLIDEIN_BATCH_ID, on $(uname -n):" \
    "$GLIDEIN_CPUS cpus, $GLIDEIN_MEMORY_MB MB memory, $GLIDEIN_DISK_MB MB disk, $GLIDEIN_GPUS gpus," \
    "retires in $((TO_RETIRE - STARTED_AT)) s, ends in $((TO_DIE - STARTED_AT)) s"
}
