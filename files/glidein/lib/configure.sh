# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The HTCondor configuration of this glidein: one file, written to be read.

# configure: all that HTCondor will find.
configure() {
  find_gpus   # those that this job was given: are the promised ones there?
  look_around # for containers and CVMFS
  copy_parts  # of this script: the payload may be replaced while the glidein runs
  copy_checks # those that go on while it runs
  write_config
}

copy_parts() {
  mkdir "$SCRATCH/lib" || leave 13 "the directory $SCRATCH/lib cannot be made"
  cp "$PAYLOAD"/lib/*.sh "$SCRATCH/lib/" || leave 13 "$SCRATCH/lib cannot be written, or $PAYLOAD/lib not be read"
}

write_config() {
  {
    config_attributes
    config_places
    config_pool
    config_security
    config_slot
    config_policy
    config_containers
    config_checks
    config_jobs
  } >"$SCRATCH/condor_config" || leave 13 "$SCRATCH/condor_config cannot be written"
  check_clashes
}

# tell_ready UNPACK_CS: how long all that took.
tell_ready() {
  prepared_cs=$(uptime_cs)
  say "ready to start HTCondor after $(in_seconds $((prepared_cs - STARTED_CS))) s, $(in_seconds "$1") s of them to unpack it"
}

# check_clashes: an attribute shares its name space with HTCondor's settings; it must not be one that is set here.
check_clashes() {
  clash=$(sed -n 's/^\([A-Za-z_][A-Za-z0-9_.]*\) *=.*/\1/p' "$SCRATCH/condor_config" |
    tr '[:lower:]' '[:upper:]' | sort | uniq -d | head -n 1)
  [ -z "$clash" ] || leave 10 "of a bad setting: GLIDEIN_ATTRIBUTES sets $clash twice, or it is a name that the glidein sets"
}

config_attributes() {
  # What the operator says of the site comes first.
  found=$(printf '%s\n' "$OFFERED" | while IFS= read -r line; do
    [ -z "$line" ] || attribute_names "$GLIDEIN_ATTRIBUTES" | grep -qixF "${line%% = *}" || printf '%s\n' "$line"
  done)
  cat <<CONFIG
# Written by glidein.sh for $NAME. It goes away with the glidein.

# --- Attributes of this site and entry, from GLIDEIN_ATTRIBUTES
$GLIDEIN_ATTRIBUTES

# --- What was found on this node
$found

# --- What this glidein is
is_glidein = True
GLIDEIN_Deployment = "$GLIDEIN_DEPLOYMENT"
GLIDEIN_Site = "$GLIDEIN_SITE"
GLIDEIN_Entry = "$GLIDEIN_ENTRY"
GLIDEIN_Shape = "$GLIDEIN_SHAPE"
GLIDEIN_BatchId = "$(printf '%s' "$GLIDEIN_BATCH_ID" | tr -d '"\\$\n')"
GLIDEIN_ToRetire = $TO_RETIRE
GLIDEIN_ToDie = $TO_DIE
# Names that PyGlidein's jobs know.
GLIDEIN_SiteResource = "$GLIDEIN_SITE_RESOURCE"
GLIDEIN_Max_Walltime = $GLIDEIN_WALLTIME_S
PYGLIDEIN_TIME_TO_LIVE = $TO_RETIRE - time()
STARTD_ATTRS = is_glidein GLIDEIN_Deployment GLIDEIN_Site GLIDEIN_Entry GLIDEIN_Shape GLIDEIN_BatchId \\
  GLIDEIN_ToRetire GLIDEIN_ToDie GLIDEIN_SiteResource GLIDEIN_Max_Walltime PYGLIDEIN_TIME_TO_LIVE \\
  $(attribute_names "$GLIDEIN_ATTRIBUTES
$found" | tr '\n' ' ')
MASTER_ATTRS = \$(STARTD_ATTRS)
CONFIG
}

config_places() {
  log_kb=$((GLIDEIN_LOG_MB * 1024 / (2 * (7 + GLIDEIN_CPUS))))
  [ "$log_kb" -ge 32 ] || log_kb=32 # less tells nothing; limit_logs does the rest
  procd >"$SCRATCH/procd"
  chmod 700 "$SCRATCH/procd"
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
# (by default in the home directory, where a glidein writes nothing)
SEC_KNOWN_HOSTS = \$(LOCAL_DIR)/known_hosts
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
USER_CONFIG_FILE =

# --- Daemons: a master that starts a startd. Nothing that the tarball does not bring.
DAEMON_LIST = MASTER, STARTD
MASTER_NAME = $NAME
STARTD_NAME = $NAME
PREEN =
RUNBENCHMARKS = False
# (an empty FILETRANSFER_PLUGINS would crash 23.9's starter)
ENABLE_URL_TRANSFERS = False
# (since 25.13 a slot subtracts the room of files that jobs share, by an expression that is an error to negotiators of 23.9,
# which then match no job)
CATALOG_SPACE = 0
JAVA =
DOCKER =
MASTER_NEW_BINARY_RESTART = NEVER
# Which processes are a job's is for condor_procd to know: the daemons' own code for it (USE_PROCD = False; 23.9 to 25) crashes
# on a process that has lost its parent and is just ending, and a startd that crashes leaves its ads behind in the collector.
PROCD = $SCRATCH/procd
CREATE_CORE_FILES = False
# $GLIDEIN_LOG_MB MiB for all logs together: those of master, startd, shared port, condor_procd, starter (without a job),
# two more, and a starter's for each core; of each there is the current one and an older one.
MAX_DEFAULT_LOG = $log_kb Kb
MAX_PROCD_LOG = $log_kb Kb
MAX_NUM_DEFAULT_LOG = 1
FILE_TRANSFER_STATS_LOG =
# What each job has used, for glidein.sh to add up. It reads every full file and removes it.
STARTD_HISTORY = \$(LOCAL_DIR)/jobs/history
HISTORY_CONTAINS_JOB_ENVIRONMENT = False
MAX_HISTORY_LOG = 4000000
MAX_HISTORY_ROTATIONS = 20
CONFIG
}

# procd: the program that starts condor_procd. A batch system's notice reaches every process of the job at once, and a
# condor_procd that dies of it takes the startd along. The master ends it by a word of its own.
procd() {
  cat <<PROCD
#!/bin/sh
trap '' HUP INT QUIT TERM USR1 USR2 XCPU
exec "$SCRATCH/condor/sbin/condor_procd" "\$@"
PROCD
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
# (seconds; a collector that has gone without a word is noticed after three to four times that)
CCB_HEARTBEAT_INTERVAL = 120
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
  gpus=
  [ "$GLIDEIN_GPUS" -eq 0 ] || gpus=", GPUs=$GLIDEIN_GPUS"
  echo "SLOT_TYPE_1 = cpus=100%, memory=100%, disk=100%$gpus"
  config_gpus
}

config_policy() {
  cat <<CONFIG

# --- When jobs may start: until retirement, only when the run time that they state (if any) still fits, and only those
# that the site accepts
GLIDEIN_FITS = ifThenElse(isUndefined(TARGET.AllowedExecuteDuration), True, time() + TARGET.AllowedExecuteDuration < $TO_DIE) && \\
  ifThenElse(isUndefined(TARGET.AllowedJobDuration), True, time() + TARGET.AllowedJobDuration < $TO_DIE)
START = time() < $TO_RETIRE && \$(GLIDEIN_FITS) && (${GLIDEIN_START:-True})$(required_checks)
# Which jobs this glidein is for: with 0 they are matched with it before others are. Jobs that leave its GPUs or its memory
# unused have less, so that they go to other glideins first. Slots that have a job have no rank, so that none is preempted.
GLIDEIN_RANK = $(rank_of_jobs)
RANK = ifThenElse(MY.PartitionableSlot =?= True, \$(GLIDEIN_RANK), 0.0)
SUSPEND = False
WANT_SUSPEND = False
KILL = False
$(config_killed_jobs)
# Jobs get their notice when the glidein has to stop, and this long to act on it (seconds). No more: "let it finish"
# is what the time between retirement and end is for, and a batch system that said TERM does not wait.
WANT_VACATE = True
MAXJOBRETIREMENTTIME = 0
# This is the time at GLIDEIN_ToDie. A slot keeps it from its making on, so for a signal, which may leave less, the master is
# told to stop fast when that is over, and kills the jobs.
MACHINEMAXVACATETIME = $VACATE_S

# --- When it ends is glidein.sh's to decide: idle for $GLIDEIN_IDLE_TIMEOUT_S s, or for $GLIDEIN_IDLE_AFTER_JOB_S s after
# a job (0: never), retired and empty, at GLIDEIN_ToDie.
# (STARTD_NOCLAIM_SHUTDOWN looks only at every fifth minute.)
CONFIG
}

# rank_of_jobs: a ClassAd expression, from -1 to 0 unless the entry has one of its own, which counts as 0 where it is not a
# number. A job uses memory well if it takes at least its share of it, by its cores.
rank_of_jobs() {
  if [ -n "$GLIDEIN_RANK" ]; then
    echo "ifThenElse(isReal(real($GLIDEIN_RANK)), real($GLIDEIN_RANK), 0.0)"
  elif [ "$GLIDEIN_GPUS" -gt 0 ]; then
    echo "ifThenElse((TARGET.RequestGPUs ?: 0) > 0, 0.0, -1.0)"
  else
    share="real(TARGET.RequestMemory) * $GLIDEIN_CPUS / ((TARGET.RequestCpus ?: 1) * $GLIDEIN_MEMORY_MB)"
    echo "ifThenElse(($share < 1.0) =?= True, $share - 1.0, 0.0)"
  fi
}

# config_jobs: what surrounds users' jobs: environment and wrapper.
config_jobs() {
  cat <<CONFIG

# --- The environment of jobs; what a job brings itself comes after
STARTER_JOB_ENVIRONMENT = "$(job_environment | quote_environment)"
CONFIG
  [ -n "$GLIDEIN_NOTICE_TO_ALL$GLIDEIN_JOB_SETUP" ] || return 0
  job_wrapper >"$SCRATCH/job_wrapper"
  chmod 700 "$SCRATCH/job_wrapper"
  echo "# Jobs are started through this."
  echo "USER_JOB_WRAPPER = $SCRATCH/job_wrapper"
}

# job_environment: lines NAME=value.
job_environment() {
  no_gpus
  printf '%s\n' "GLIDEIN_Site=$GLIDEIN_SITE" "GLIDEIN_SiteResource=$GLIDEIN_SITE_RESOURCE" "GLIDEIN_Entry=$GLIDEIN_ENTRY"
  [ -z "$GLIDEIN_JOB_ENVIRONMENT" ] || printf '%s\n' "$GLIDEIN_JOB_ENVIRONMENT"
}

# quote_environment: a filter, from lines NAME=value to HTCondor's way of writing an environment, for condor_config: each
# in single quotes; these, and double ones, twice; $ would begin a macro.
quote_environment() {
  # shellcheck disable=SC2016 # HTCondor's macro
  sed -e "s/'/''/g" -e 's/"/""/g' -e 's/\$/$(DOLLAR)/g' -e "s/.*/'&'/" | tr '\n' ' ' | sed 's/ $//'
}

# job_wrapper: the program through which jobs are started. Where the batch system's notice reaches every process, a job
# would die of it before HTCondor can tell it to vacate, and leave the queue as one that has ended by itself. What is
# ignored at its start, stays so.
job_wrapper() {
  echo "#!/bin/sh"
  [ -z "$GLIDEIN_NOTICE_TO_ALL" ] || echo "trap '' $GLIDEIN_NOTICE_TO_ALL"
  cat <<'WRAPPER'
fail() {
  echo "$1" >"$_CONDOR_WRAPPER_ERROR_FILE"
  exit 1
}
WRAPPER
  [ -z "$GLIDEIN_JOB_SETUP" ] || cat <<WRAPPER
# The site's environment set-up. In a function, so that it cannot change the job's arguments.
set_up() { . '$GLIDEIN_JOB_SETUP'; }
[ -r '$GLIDEIN_JOB_SETUP' ] || fail 'GLIDEIN_JOB_SETUP=$GLIDEIN_JOB_SETUP cannot be read'
set_up
WRAPPER
  cat <<'WRAPPER'
[ -x "$1" ] || fail "$1 cannot be executed"
exec "$@"
WRAPPER
}
