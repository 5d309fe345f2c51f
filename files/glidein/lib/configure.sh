# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The HTCondor configuration of this glidein: one file, written to be read.

# check_gpus: a glidein that was promised GPUs and finds fewer would only attract jobs that cannot run.
check_gpus() {
  [ "$GLIDEIN_GPUS" -gt 0 ] || return 0
  output=$(use_condor && "$SCRATCH/condor/libexec/condor_gpu_discovery" 2>&1)
  found=$(printf '%s\n' "$output" | sed -n 's/^DetectedGPUs="*\([^"]*\)"*$/\1/p' | tr ',' '\n' | grep -c '[A-Za-z]')
  [ "$found" -ge "$GLIDEIN_GPUS" ] ||
    leave 17 "GLIDEIN_GPUS=$GLIDEIN_GPUS were promised, condor_gpu_discovery finds $found: $(last_line "$output")"
}

write_config() {
  {
    config_attributes
    config_places
    config_pool
    config_security
    config_slot
    config_policy
    config_wrapper
  } >"$SCRATCH/condor_config" || leave 13 "$SCRATCH/condor_config cannot be written"
  check_clashes
}

# check_clashes: an attribute shares its name space with HTCondor's settings; it must not be one that is set here.
check_clashes() {
  clash=$(sed -n 's/^\([A-Za-z_][A-Za-z0-9_.]*\) *=.*/\1/p' "$SCRATCH/condor_config" |
    tr '[:lower:]' '[:upper:]' | sort | uniq -d | head -n 1)
  [ -z "$clash" ] || leave 10 "of a bad setting: GLIDEIN_ATTRIBUTES sets $clash twice, or it is a name that the glidein sets"
}

config_attributes() {
  cat <<CONFIG
# Written by glidein.sh for $NAME. It goes away with the glidein.

# --- Attributes of this site and entry, from GLIDEIN_ATTRIBUTES
$GLIDEIN_ATTRIBUTES

# --- What this glidein is
is_glidein = True
GLIDEIN_Deployment = "$GLIDEIN_DEPLOYMENT"
GLIDEIN_Site = "$GLIDEIN_SITE"
GLIDEIN_Entry = "$GLIDEIN_ENTRY"
GLIDEIN_Shape = "$GLIDEIN_SHAPE"
GLIDEIN_BatchId = "$(printf '%s' "$GLIDEIN_BATCH_ID" | tr -d '"\\$\n')"
GLIDEIN_ToRetire = $TO_RETIRE
GLIDEIN_ToDie = $TO_DIE
STARTD_ATTRS = is_glidein GLIDEIN_Deployment GLIDEIN_Site GLIDEIN_Entry GLIDEIN_Shape GLIDEIN_BatchId \\
  GLIDEIN_ToRetire GLIDEIN_ToDie $(attribute_names | tr '\n' ' ')
MASTER_ATTRS = \$(STARTD_ATTRS)
CONFIG
}

config_places() {
  cat <<CONFIG

# --- Where things are: all below the scratch directory
RELEASE_DIR = $SCRATCH/condor
LOCAL_DIR = $SCRATCH
SBIN = \$(RELEASE_DIR)/sbin
BIN = \$(RELEASE_DIR)/bin
LIBEXEC = \$(RELEASE_DIR)/libexec
LIB = \$(RELEASE_DIR)/lib
ETC = \$(RELEASE_DIR)/etc
LOG = \$(LOCAL_DIR)/log
LOCK = \$(LOCAL_DIR)/lock
RUN = \$(LOCAL_DIR)/lock
SPOOL = \$(LOCAL_DIR)/spool
EXECUTE = \$(LOCAL_DIR)/execute
TMP_DIR = \$(LOCAL_DIR)/tmp
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
USER_CONFIG_FILE =

# --- Daemons: a master that starts a startd. Nothing that the tarball does not bring.
DAEMON_LIST = MASTER, STARTD
MASTER_NAME = $NAME
STARTD_NAME = $NAME
PREEN =
STARTD_CRON_JOBLIST =
RUNBENCHMARKS = False
# (an empty FILETRANSFER_PLUGINS would crash 23.9's starter)
ENABLE_URL_TRANSFERS = False
# (since 25.13 a slot subtracts the room of files that jobs share, by an expression that is an error to negotiators of 23.9,
# which then match no job)
CATALOG_SPACE = 0
JAVA =
DOCKER =
SINGULARITY =
MASTER_NEW_BINARY_RESTART = NEVER
# A batch system's TERM reaches every process of the job at once. A condor_procd that dies of it takes the startd along,
# which then leaves its ad behind in the collector.
USE_PROCD = False
CREATE_CORE_FILES = False
MAX_DEFAULT_LOG = 1 Mb
MAX_NUM_DEFAULT_LOG = 1
CONFIG
}

config_pool() {
  case $GLIDEIN_COLLECTOR in
  *:*) collector=$GLIDEIN_COLLECTOR ;;
  *) collector=$GLIDEIN_COLLECTOR:9618 ;;
  esac
  cat <<CONFIG

# --- The pool. One listening port of the kernel's choice; who wants in comes through the collector (CCB).
CONDOR_HOST = ${GLIDEIN_COLLECTOR%%:*}
COLLECTOR_HOST = $collector
CCB_ADDRESS = \$(COLLECTOR_HOST)
USE_SHARED_PORT = True
SHARED_PORT_PORT = 0
# No file system is shared with anybody: jobs' files are transferred.
FILESYSTEM_DOMAIN = $NAME
CONFIG
}

config_security() {
  if [ -n "$GLIDEIN_CREDENTIAL" ]; then
    methods=IDTOKENS
  else
    methods=PASSWORD
  fi
  cat <<CONFIG

# --- Security. The glidein proves who it is to the collector, and the collector to the glidein.
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_DEFAULT_ENCRYPTION = REQUIRED
SEC_DEFAULT_INTEGRITY = REQUIRED
SEC_DEFAULT_AUTHENTICATION_METHODS = $methods
SEC_CLIENT_AUTHENTICATION_METHODS = $methods
SEC_READ_AUTHENTICATION = REQUIRED
SEC_TOKEN_DIRECTORY = $SCRATCH/credential/tokens.d
SEC_TOKEN_SYSTEM_DIRECTORY = $SCRATCH/credential/tokens.d
SEC_PASSWORD_FILE = $SCRATCH/credential/pool_password
SEC_PASSWORD_DIRECTORY = $SCRATCH/credential/none
SEC_TOKEN_POOL_SIGNING_KEY_FILE = $SCRATCH/credential/none/POOL
# Who may command it: the access point to which the negotiator gave this slot, by the key of that match. The daemons
# of one glidein know each other by a key of their own; the pool's administrator comes through the collector (condor_off).
# An empty list admits nobody.
SEC_ENABLE_MATCH_PASSWORD_AUTHENTICATION = True
ALLOW_READ = submit-side@matchsession/*
ALLOW_WRITE = submit-side@matchsession/*
ALLOW_DAEMON = submit-side@matchsession/*
ALLOW_NEGOTIATOR =
ALLOW_ADMINISTRATOR =
ALLOW_CONFIG =
ALLOW_ADVERTISE_MASTER =
ALLOW_ADVERTISE_STARTD =
ALLOW_ADVERTISE_SCHEDD =
CONFIG
}

config_slot() {
  cat <<CONFIG

# --- What jobs may use: one partitionable slot of the size that was asked of the batch system
NUM_CPUS = $GLIDEIN_CPUS
MEMORY = $GLIDEIN_MEMORY_MB
RESERVED_MEMORY = 0
# KiB
DISK = $((GLIDEIN_DISK_MB * 1024))
RESERVED_DISK = 0
NUM_SLOTS = 1
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1_PARTITIONABLE = True
CONFIG
  if [ "$GLIDEIN_GPUS" -gt 0 ]; then
    cat <<CONFIG
SLOT_TYPE_1 = cpus=100%, memory=100%, disk=100%, GPUs=$GLIDEIN_GPUS
# (quoted because the path may have blanks, which STARTD_DETECT_GPUS cannot take)
MACHINE_RESOURCE_INVENTORY_GPUs = "'\$(LIBEXEC)/condor_gpu_discovery' -properties"
CONFIG
  else
    echo "SLOT_TYPE_1 = cpus=100%, memory=100%, disk=100%"
  fi
  echo "STARTD_DETECT_GPUS ="
}

config_policy() {
  cat <<CONFIG

# --- When jobs may start: until retirement, only when the run time that they state (if any) still fits, and only those
# that the site accepts
GLIDEIN_FITS = ifThenElse(isUndefined(TARGET.AllowedExecuteDuration), True, time() + TARGET.AllowedExecuteDuration < $TO_DIE) && \\
  ifThenElse(isUndefined(TARGET.AllowedJobDuration), True, time() + TARGET.AllowedJobDuration < $TO_DIE)
START = time() < $TO_RETIRE && \$(GLIDEIN_FITS) && (${GLIDEIN_START:-True})
RANK = 0
SUSPEND = False
WANT_SUSPEND = False
PREEMPT = False
KILL = False
# Jobs get their notice when the glidein has to stop, and this long to act on it (seconds). No more: "let it finish"
# is what the time between retirement and end is for, and a batch system that said TERM does not wait.
WANT_VACATE = True
MAXJOBRETIREMENTTIME = 0
# This is the time at GLIDEIN_ToDie. A slot keeps it from its making on, so for a signal, which may leave less, the master is
# told to stop fast when that is over, and kills the jobs.
MACHINEMAXVACATETIME = $VACATE_S

# --- When it ends is glidein.sh's to decide: idle for $GLIDEIN_IDLE_TIMEOUT_S s (0: never), retired and empty, at GLIDEIN_ToDie.
# (STARTD_NOCLAIM_SHUTDOWN looks only at every fifth minute.)
CONFIG
}

# config_wrapper: where the batch system's notice reaches every process, a job would die of it before HTCondor can tell
# it to vacate, and leave the queue as one that has ended by itself. What is ignored at its start, stays so.
config_wrapper() {
  [ -n "$GLIDEIN_NOTICE_TO_ALL" ] || return 0
  cat >"$SCRATCH/job_wrapper" <<WRAPPER
#!/bin/sh
trap '' $GLIDEIN_NOTICE_TO_ALL
if [ ! -x "\$1" ]; then
  echo "\$1 cannot be executed" >"\$_CONDOR_WRAPPER_ERROR_FILE"
  exit 1
fi
exec "\$@"
WRAPPER
  chmod 700 "$SCRATCH/job_wrapper"
  cat <<CONFIG

# --- Jobs are started through this, which has them ignore the batch system's notice: $GLIDEIN_NOTICE_TO_ALL
USER_JOB_WRAPPER = $SCRATCH/job_wrapper
CONFIG
}
