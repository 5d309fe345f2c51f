# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The settings, which are environment variables. The controller has checked them. Before the glidein writes anything, it checks
# those that depend on the node or with which it calculates or names files. The first invalid one ends it (status 10).

# Each line: NAME KIND DEFAULT MEANING. MB are MiB, _S are seconds. KIND is a kind of is_valid, or the least value of a number.
# DEFAULT is a value, or the setting that has it, or one of: required (not empty), set (may be empty), none.
SETTINGS='
GLIDEIN_DEPLOYMENT          name     required               advertised in the machine ad, as the next three
GLIDEIN_SITE                name     required
GLIDEIN_ENTRY               name     required
GLIDEIN_SHAPE               name     required
GLIDEIN_HOME                path     required               directory of tarballs.list, and of the tarballs in it
GLIDEIN_CREDENTIAL          path     set                    file with the token; empty: etc/pool_password of the tarball
GLIDEIN_COLLECTOR           text     required               collector of the pool (default port 9618)
GLIDEIN_CPUS                1        required               resources of the jobs, as the next three
GLIDEIN_MEMORY_MB           1        required
GLIDEIN_DISK_MB             1        required
GLIDEIN_GPUS                0        required
GLIDEIN_MEMORY_OVERHEAD_MB  0        0                      memory of the batch job that is not offered to jobs
GLIDEIN_MIN_DISK_MB         0        GLIDEIN_DISK_MB        offer less disk if the node has less, but at least this
GLIDEIN_WALLTIME_S          1        required               the walltime of this batch job
GLIDEIN_RETIREMENT_S        0        required               this long before the walltime ends, accept no new job
GLIDEIN_IDLE_TIMEOUT_S      0        required               end after this time without a job; 0: never
GLIDEIN_IDLE_AFTER_JOB_S    0        GLIDEIN_IDLE_TIMEOUT_S the same after the first job
GLIDEIN_GRACE_S             1        30                     time between the signal of the batch system and its kill
GLIDEIN_NOTICE_TO_ALL       text     none                   notices that reach every process; jobs ignore them
GLIDEIN_GRANTED             text     asked                  asked, auto, node or machine_ad: see README.md
GLIDEIN_SCRATCH             path     required               directory of the scratch directory; made if it is missing
GLIDEIN_BATCH_ID            text     required               the id of this job in the batch system
GLIDEIN_ATTRIBUTES          text     set                    for the machine ad, lines NAME = VALUE
GLIDEIN_SITE_RESOURCE       name     GLIDEIN_SITE           advertised as GLIDEIN_SiteResource
GLIDEIN_START               text     none                   ClassAd expression that a job must fulfil to start here
GLIDEIN_RANK                text     none                   ClassAd expression: how well a job suits this glidein
GLIDEIN_GPU_DISCOVERY       text     none                   further arguments of condor_gpu_discovery, such as -extra
GLIDEIN_CVMFS               text     none                   CVMFS repositories to advertise, besides mounted ones
GLIDEIN_JOB_SETUP           path     none                   file on the node that a shell reads before each job
GLIDEIN_JOB_ENVIRONMENT     text     none                   lines NAME=VALUE; a job can override them
GLIDEIN_CONDOR_CONFIG       text     none                   lines NAME = VALUE for condor_config
GLIDEIN_IMAGE               text     none                   run the glidein in this image, by apptainer or singularity
GLIDEIN_REGISTER_S          1        300                    end if it has not joined the pool after this time
GLIDEIN_LOST_S              0        1200                   end if the collector is lost so long without a job; 0: never
GLIDEIN_LOG_DIR             log_dir  required               gets the logs of the daemons at the end; -: standard error
GLIDEIN_LOG_MB              1        20                     limit of the size of these logs in the scratch directory
GLIDEIN_LOG_INTERVAL_S      0        0                      copy the logs in this interval, too; 0: only at the end
GLIDEIN_LOG_S3              path     none                   signed form for the upload of the logs to an S3 bucket
GLIDEIN_FAST_FAILURES       0        5                      end after this many jobs failed within 60 s each; 0: never
GLIDEIN_CHECKS              text     none                   executables in checks/ and arguments, for the startd to run
GLIDEIN_REQUIRE_CHECKS      text     none                   checks that must have passed before a job may start
GLIDEIN_CHECK_PERIOD_S      1        600                    interval between two runs of a check
GLIDEIN_CHECK_TIMEOUT_S     1        60                     a check that takes longer has failed
'

SETTINGS_VALID= # set when all settings were checked; after this, each ending has a summary

bad_setting() {
  end_with 10 "of an invalid setting: $*"
}

check_settings() {
  [ "$(id -u)" -ne 0 ] || bad_setting "the user is root; a glidein must run as an ordinary user"
  avoid_brackets
  while read -r setting kind default _; do
    [ -z "$setting" ] || check_setting
  done <<SETTINGS
$SETTINGS
SETTINGS
  [ "$GLIDEIN_RETIREMENT_S" -lt "$GLIDEIN_WALLTIME_S" ] ||
    bad_setting "GLIDEIN_RETIREMENT_S=$GLIDEIN_RETIREMENT_S is invalid;" \
      "expected less than GLIDEIN_WALLTIME_S=$GLIDEIN_WALLTIME_S"
  # shellcheck disable=SC2034 # for run.sh
  SETTINGS_VALID=yes
}

# check_setting: check the value of $setting, or store its default.
check_setting() {
  eval "is_set=\${$setting+yes} value=\${$setting-}"
  case $default in
  required) [ -n "$value" ] || bad_setting "$setting is missing or empty" ;;
  set) [ -n "$is_set" ] || bad_setting "$setting is missing; it may be empty" ;;
  none) ;;
  GLIDEIN_*) [ -n "$value" ] || eval "value=\$$default" ;;
  *) value=${value:-$default} ;;
  esac
  eval "$setting=\$value"
  [ -z "$value" ] || is_valid "$kind" "$value" || bad_setting "$setting='$value' is invalid; expected $expected"
}

# is_valid KIND VALUE: true if the value is valid. Store what is valid in `expected`.
is_valid() {
  case $1 in
  text) ;;
  name)
    expected="a letter or digit, then letters, digits, '.', '_', '-'"
    case $2 in '' | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) return 1 ;; esac
    ;;
  path | log_dir) # not quoted in condor_config and LD_LIBRARY_PATH
    expected="an absolute path of letters, digits, blanks and /._,+@%=~-"
    case $1$2 in log_dir-) return 0 ;; esac
    case $2 in '' | [!/]* | *[!A-Za-z0-9\ /._,+@%=~-]*) return 1 ;; esac
    ;;
  *)
    expected="a whole number of at least $1" # of at most 15 digits; the shell would read a leading zero as octal
    case $2 in '' | *[!0-9]* | 0?* | ????????????????*) return 1 ;; esac
    [ "$2" -ge "$1" ]
    ;;
  esac
}

# attribute_names LINES: print the names in lines "Name = value", one per line.
attribute_names() {
  printf '%s\n' "$1" | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\) = .*/\1/p'
}

# clean_environment: remove settings and credentials of an HTCondor that has started this job or is installed on this node.
# They would override the glidein's. (An outer HTCondor finds the processes of its job by _CONDOR_ANCESTOR_*, which stay.)
clean_environment() {
  for variable in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $variable in
    _[Cc][Oo][Nn][Dd][Oo][Rr]_ANCESTOR_*) ;;
    [Cc][Oo][Nn][Dd][Oo][Rr]_* | _[Cc][Oo][Nn][Dd][Oo][Rr]_* | _CHIRP_* | X509_* | BEARER_TOKEN* | BATCH_SYSTEM)
      unset "$variable"
      ;;
    esac
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
