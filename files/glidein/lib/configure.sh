# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The HTCondor configuration of this glidein, in one file.

NO_GPU=10000 # HTCondor's number for a missing device

# configure: determine what the configuration needs, and write it.
configure() {
  find_gpus
  find_software
  copy_scripts
  copy_files
  copy_checks
  write_config
}

# copy_scripts: copy the scripts, because the payload may be replaced while the glidein runs.
copy_scripts() {
  mkdir "$SCRATCH/lib" || end_with 13 "the directory $SCRATCH/lib cannot be made"
  cp "$PAYLOAD"/lib/*.sh "$SCRATCH/lib/" || end_with 13 "$SCRATCH/lib cannot be written, or $PAYLOAD/lib not be read"
}

# copy_files: copy the operator's files and job wrapper, which are optional.
copy_files() {
  if [ -d "$PAYLOAD/files" ]; then
    cp -Rp "$PAYLOAD/files" "$SCRATCH/files" ||
      end_with 11 "$PAYLOAD/files cannot be copied to $SCRATCH: the error of cp is above"
    find "$SCRATCH/files" ! -type l -exec touch {} + 2>/dev/null # nodes remove old files in /tmp
  fi
  if [ -f "$PAYLOAD/job_wrapper" ]; then
    { cp "$PAYLOAD/job_wrapper" "$SCRATCH/job_wrapper_of_site" && chmod 700 "$SCRATCH/job_wrapper_of_site"; } 2>/dev/null ||
      end_with 11 "$PAYLOAD/job_wrapper cannot be copied to $SCRATCH"
  fi
}

# copy_checks: copy the checks, because the payload may be replaced while this glidein runs.
copy_checks() {
  [ -n "$GLIDEIN_CHECKS" ] || return 0
  mkdir "$SCRATCH/checks" || end_with 13 "the directory $SCRATCH/checks cannot be made"
  while read -r check _; do
    { cp "$PAYLOAD/checks/$check" "$SCRATCH/checks/$check" && chmod 700 "$SCRATCH/checks/$check"; } 2>/dev/null ||
      end_with 11 "$PAYLOAD/checks/$check, of GLIDEIN_CHECKS, is missing or cannot be read: deploy the site again"
  done <<CHECKS
$GLIDEIN_CHECKS
CHECKS
}

write_config() {
  # A full disk must not leave out a part of it: some shells store here-documents in files.
  {
    config_attributes && config_paths && config_pool && config_security && config_slot && config_policy && config_holds &&
      config_containers && config_checks && config_jobs && config_of_operator
  } >"$SCRATCH/condor_config" || end_with 13 "$SCRATCH/condor_config cannot be written"
  check_clashes
}

# check_clashes: end if an attribute has the name of another setting. Attributes and settings share one name space.
check_clashes() {
  clash=$(sed -n 's/^\([A-Za-z_][A-Za-z0-9_.]*\) *=.*/\1/p' "$SCRATCH/condor_config" |
    tr '[:lower:]' '[:upper:]' | sort | uniq -d | head -n 1)
  [ -z "$clash" ] ||
    end_with 10 "of an invalid setting: $clash is set twice," \
      "by GLIDEIN_ATTRIBUTES, GLIDEIN_CONDOR_CONFIG or the glidein itself"
}

config_attributes() {
  # Attributes that the operator has set override those that were found on the node.
  found=$(printf '%s\n' "$NODE_ATTRIBUTES" | while IFS= read -r line; do
    [ -z "$line" ] || attribute_names "$GLIDEIN_ATTRIBUTES" | grep -qixF "${line%% = *}" || printf '%s\n' "$line"
  done)
  cat <<CONFIG
# Written by glidein.sh for $NAME. It is removed at the glidein's end.

# --- Attributes of this site and entry, from GLIDEIN_ATTRIBUTES
$GLIDEIN_ATTRIBUTES

# --- What was found on this node
$found

# --- Attributes of this glidein
is_glidein = True
GLIDEIN_Deployment = "$GLIDEIN_DEPLOYMENT"
GLIDEIN_Site = "$GLIDEIN_SITE"
GLIDEIN_Entry = "$GLIDEIN_ENTRY"
GLIDEIN_Shape = "$GLIDEIN_SHAPE"
GLIDEIN_BatchId = "$(printf '%s' "$GLIDEIN_BATCH_ID" | tr -d '"\\$\n')"
GLIDEIN_ToRetire = $TO_RETIRE
GLIDEIN_ToDie = $TO_DIE
# Names that PyGlidein's jobs use.
GLIDEIN_SiteResource = "$GLIDEIN_SITE_RESOURCE"
GLIDEIN_Max_Walltime = $GLIDEIN_WALLTIME_S
PYGLIDEIN_TIME_TO_LIVE = $TO_RETIRE - time()
STARTD_ATTRS = is_glidein GLIDEIN_Deployment GLIDEIN_Site GLIDEIN_Entry GLIDEIN_Shape GLIDEIN_BatchId \\
  GLIDEIN_ToRetire GLIDEIN_ToDie GLIDEIN_SiteResource GLIDEIN_Max_Walltime PYGLIDEIN_TIME_TO_LIVE \\
  GLIDEIN_UrlTransfers $(attribute_names "$GLIDEIN_ATTRIBUTES
$found" | tr '\n' ' ')
MASTER_ATTRS = \$(STARTD_ATTRS)
# The demand server counts the core-hours of jobs by these attributes.
SYSTEM_STARTD_JOB_ATTRS = \$(SYSTEM_STARTD_JOB_ATTRS) ProjectName x509UserProxyVOName AuthTokenIssuer
CONFIG
}

config_paths() {
  log_kb=$((GLIDEIN_LOG_MB * 1024 / (2 * (7 + GLIDEIN_CPUS))))
  [ "$log_kb" -ge 32 ] || log_kb=32 # smaller logs are of no use; limit_logs enforces the total
  { procd >"$SCRATCH/procd" && chmod 700 "$SCRATCH/procd"; } || return
  cat <<CONFIG

# --- Paths, all below the scratch directory
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
# (the default is in the home directory, where a glidein writes nothing)
SEC_KNOWN_HOSTS = \$(LOCAL_DIR)/known_hosts
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
USER_CONFIG_FILE =

# --- Daemons: a master that starts a startd. Features whose programs the tarball does not have are disabled.
DAEMON_LIST = MASTER, STARTD
MASTER_NAME = $NAME
STARTD_NAME = $NAME
PREEN =
RUNBENCHMARKS = False
$(url_transfers)
# (since 25.13 a slot subtracts the room of files that jobs share, by an expression that the negotiator of 23.9 cannot
# evaluate, so that no job matches)
CATALOG_SPACE = 0
JAVA =
DOCKER =
MASTER_NEW_BINARY_RESTART = NEVER
# condor_procd tracks the processes of jobs. The daemons' own code for it (USE_PROCD = False; 23.9 to 25) crashes on an
# orphaned process that is just ending, and a startd that crashes leaves its ads in the collector.
PROCD = $SCRATCH/procd
CREATE_CORE_FILES = False
# $GLIDEIN_LOG_MB MiB for all logs: those of the master, the startd, the shared port, condor_procd, the starter without a job,
# two more, and one starter's for each core. Each log has a current file and a rotated one.
MAX_DEFAULT_LOG = $log_kb Kb
MAX_PROCD_LOG = $log_kb Kb
MAX_NUM_DEFAULT_LOG = 1
FILE_TRANSFER_STATS_LOG =
# The resources that each job has used. glidein.sh adds them up and removes every rotated file.
STARTD_HISTORY = \$(LOCAL_DIR)/jobs/history
HISTORY_CONTAINS_JOB_ENVIRONMENT = False
MAX_HISTORY_LOG = 2000000
MAX_HISTORY_ROTATIONS = 20
CONFIG
}

# url_transfers: print the setting for jobs with URLs in transfer_input_files, unless the operator has set it.
# Without a plug-in that works they must be off: an empty FILETRANSFER_PLUGINS makes the starter of 23.9 crash.
url_transfers() {
  # For the plan: without it, a glidein may be older than the plug-in of the tarball.
  if printf '%s\n' "$GLIDEIN_CONDOR_CONFIG" | grep -qiE '^(FILETRANSFER_PLUGINS|ENABLE_URL_TRANSFERS) *='; then
    echo 'GLIDEIN_UrlTransfers = "condor_config"'
  elif run_limited "$TRY_S" run_condor libexec/curl_plugin -classad >/dev/null 2>&1; then
    echo 'GLIDEIN_UrlTransfers = "curl_plugin"'
    echo "FILETRANSFER_PLUGINS = \$(LIBEXEC)/curl_plugin"
  else
    # The tarball has no curl_plugin, or it does not start on this node.
    echo 'GLIDEIN_UrlTransfers = "none"'
    echo "ENABLE_URL_TRANSFERS = False"
  fi
}

# procd: print the program that starts condor_procd. A batch system's notice may reach every process of the job. If
# condor_procd ended, the startd would end, too. The master stops condor_procd with a message, not with a signal.
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

# --- The pool. One listening port, chosen by the kernel. Incoming connections come through the collector (CCB).
CONDOR_HOST = ${GLIDEIN_COLLECTOR%%:*}
COLLECTOR_HOST = $collector
CCB_ADDRESS = \$(COLLECTOR_HOST)
# (seconds; the loss of a silent collector is noticed after three to four times that)
CCB_HEARTBEAT_INTERVAL = 120
USE_SHARED_PORT = True
SHARED_PORT_PORT = 0
# Without a shared file system, HTCondor transfers the files of jobs.
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

# --- Security. The glidein and the collector authenticate each other.
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
# Authorized are: the access point to which the negotiator has given this slot, by the key of that match, and the daemons of
# this glidein, by a key of their own. The pool's administrator comes through the collector (condor_off). An empty list
# authorizes no client.
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
  cat <<CONFIG || return

# --- Resources of the jobs: one partitionable slot
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

# config_gpus: print the part of condor_config for GPUs. Jobs that request no GPU see none.
config_gpus() {
  echo "STARTD_DETECT_GPUS ="
  [ "$GLIDEIN_GPUS" -gt 0 ] || return 0
  cat <<CONFIG || return
# (quoted because the path may have blanks, which STARTD_DETECT_GPUS does not support)
MACHINE_RESOURCE_INVENTORY_GPUs = "'\$(LIBEXEC)/condor_gpu_discovery' $GPU_ARGUMENTS"
ENVIRONMENT_VALUE_FOR_UnAssignedGPUs = $NO_GPU
CONFIG
  if [ -n "$AMD" ]; then
    echo 'ENVIRONMENT_FOR_AssignedGPUs = ROCR_VISIBLE_DEVICES=/(GPU|CUDA|OCL|HIP)//'
  else
    echo 'ENVIRONMENT_FOR_AssignedGPUs = GPU_DEVICE_ORDINAL=/(CUDA|OCL)//  CUDA_VISIBLE_DEVICES=/CUDA//'
  fi
}

config_policy() {
  cat <<CONFIG

# --- A job may start before retirement, if the run time that it states (if any) ends in time, and if the entry accepts it.
GLIDEIN_FITS = \\
  ifThenElse(isUndefined(TARGET.AllowedExecuteDuration), True, time() + TARGET.AllowedExecuteDuration < $TO_DIE) && \\
  ifThenElse(isUndefined(TARGET.AllowedJobDuration), True, time() + TARGET.AllowedJobDuration < $TO_DIE)
START = time() < $TO_RETIRE && \$(GLIDEIN_FITS) && (${GLIDEIN_START:-True})$(required_checks)
# Jobs that use the glidein's GPUs or memory have rank 0. Others have a lower rank, so that they are matched with other
# glideins first. Slots that have a job rank all jobs 0, so that no job is preempted for another.
GLIDEIN_RANK = $(rank_of_jobs)
RANK = ifThenElse(MY.PartitionableSlot =?= True, \$(GLIDEIN_RANK), 0.0)
SUSPEND = False
WANT_SUSPEND = False
KILL = False
# When the glidein stops, jobs get a signal and this time (seconds) to vacate. No more: jobs may end by themselves between
# retirement and GLIDEIN_ToDie, and after TERM the batch system does not wait.
WANT_VACATE = True
MAXJOBRETIREMENTTIME = 0
# This is the time at GLIDEIN_ToDie. A slot keeps the value that it was made with. After a signal, there may be less time; then
# glidein.sh stops the master fast, which kills the jobs.
MACHINEMAXVACATETIME = $VACATE_S

# --- glidein.sh ends the glidein: after $GLIDEIN_IDLE_TIMEOUT_S s without a job, or $GLIDEIN_IDLE_AFTER_JOB_S s after a job
# (0: never); when it has retired and is empty; at GLIDEIN_ToDie.
# (STARTD_NOCLAIM_SHUTDOWN is checked only every five minutes.)
CONFIG
}

# required_checks: print the part of START that the required checks must fulfil.
required_checks() {
  for check in $GLIDEIN_REQUIRE_CHECKS; do
    printf ' && (MY.GLIDEIN_Resource_%s =?= True)' "$check"
  done
}

# config_holds: print the part of condor_config that holds jobs.
config_holds() {
  cat <<CONFIG

# --- Jobs that are held because the disk is full. glidein.sh adds their ids.
GLIDEIN_DISK_JOBS =
GLIDEIN_HOLD_FOR_DISK = (stringListMember(strcat(TARGET.GlobalJobId, "/", string(TARGET.NumShadowStarts)), \\
  "\$(GLIDEIN_DISK_JOBS)", ",") =?= True)
PREEMPT = \$(GLIDEIN_HOLD_FOR_DISK)
WANT_HOLD = \$(GLIDEIN_HOLD_FOR_DISK)
WANT_HOLD_REASON = strcat("The disk of the glidein is full, and the job uses more disk than its slot has. ", \\
  "The slot of the job has ", string(MY.Disk / 1024), " MB: request more disk.")
# (the number that HTCondor's own policy uses)
WANT_HOLD_SUBCODE = 104
# A job that uses more memory than its slot has is held because "memory usage exceeded request_memory", with subcode 102.
use POLICY : Hold_If_Memory_Exceeded
CONFIG
}

# rank_of_jobs: print the rank as a ClassAd expression. The default is from -1 to 0. An expression of the entry counts as 0 if
# its value is not a number. A job uses the memory well if it requests at least the share of its cores.
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

# config_containers: print the part of condor_config for containers. HTCondor tests the program and advertises the result
# (HasSingularity, ...). Its test directory must look like an image.
config_containers() {
  sandbox=$SCRATCH/condor/libexec/singularity_test_sandbox
  [ ! -d "$sandbox" ] || mkdir -p "$sandbox/dev" "$sandbox/proc" "$sandbox/tmp"
  cat <<CONFIG || return

# --- Jobs in containers: apptainer or singularity, if the node has one of them
SINGULARITY = $CONTAINER_PROGRAM
CONFIG
  # HTCondor gives containers a /tmp and a /var/tmp of their own (MOUNT_UNDER_SCRATCH). The directory of a job cannot be bound
  # into these, so it gets another path in the container.
  case $SCRATCH/ in
  /tmp/* | /var/tmp/*) echo "SINGULARITY_TARGET_DIR = /srv" ;;
  esac
}

# config_checks: print a STARTD_CRON job for each line "NAME ARGUMENTS" of GLIDEIN_CHECKS, which names an executable in checks/
# of the payload. Its results become attributes of the machine ad.
config_checks() {
  [ -n "$GLIDEIN_CHECKS" ] || return 0
  names=
  gpus=" GLIDEIN_GPUS=$GLIDEIN_GPUS${GPU_LIST:+ GLIDEIN_GPU_LIST=$GPU_LIST}${AMD:+ GLIDEIN_GPU_VARIABLE=ROCR_VISIBLE_DEVICES}"
  echo
  echo "# --- Checks, every $GLIDEIN_CHECK_PERIOD_S s; each sets GLIDEIN_Resource_<name> to True or False in the machine ad"
  while read -r check arguments; do
    names="$names $check"
    cat <<CONFIG || return
STARTD_CRON_${check}_EXECUTABLE = /bin/sh
STARTD_CRON_${check}_ARGS = "'$SCRATCH/lib/run_check.sh' $check $arguments"
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

# config_of_operator: print the operator's own settings.
config_of_operator() {
  [ -n "$GLIDEIN_CONDOR_CONFIG" ] || return 0
  printf '\n# --- Settings of this site and entry, from GLIDEIN_CONDOR_CONFIG\n%s\n' "$GLIDEIN_CONDOR_CONFIG"
}

# config_jobs: print the part of condor_config for the environment and the wrapper of jobs.
config_jobs() {
  cat <<CONFIG || return

# --- The environment of jobs, which a job can override
STARTER_JOB_ENVIRONMENT = "$(job_environment | quote_environment)"
CONFIG
  [ -n "$GLIDEIN_NOTICE_TO_ALL$GLIDEIN_JOB_SETUP" ] || [ -f "$SCRATCH/job_wrapper_of_site" ] || return 0
  { job_wrapper >"$SCRATCH/job_wrapper" && chmod 700 "$SCRATCH/job_wrapper"; } || return
  echo "# The program that starts jobs."
  echo "USER_JOB_WRAPPER = $SCRATCH/job_wrapper"
}

# job_environment: print lines NAME=value.
job_environment() {
  no_gpus
  printf '%s\n' "GLIDEIN_Site=$GLIDEIN_SITE" "GLIDEIN_SiteResource=$GLIDEIN_SITE_RESOURCE" "GLIDEIN_Entry=$GLIDEIN_ENTRY"
  [ ! -d "$SCRATCH/files" ] || printf '%s\n' "GLIDEIN_FILES=$SCRATCH/files"
  [ -z "$GLIDEIN_JOB_ENVIRONMENT" ] || printf '%s\n' "$GLIDEIN_JOB_ENVIRONMENT"
}

# no_gpus: if this glidein has no GPU, print the variables that hide the node's GPUs from jobs, lines NAME=value.
no_gpus() {
  [ "$GLIDEIN_GPUS" -eq 0 ] || return 0
  for variable in CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES; do
    echo "$variable=$NO_GPU"
  done
  echo "NVIDIA_VISIBLE_DEVICES=none"
}

# quote_environment: read lines NAME=value from standard input; print them in HTCondor's syntax for condor_config. Each is in
# single quotes, quotes are doubled, and $ is replaced, because it would begin a macro.
quote_environment() {
  # shellcheck disable=SC2016 # HTCondor's macro
  sed -e "s/'/''/g" -e 's/"/""/g' -e 's/\$/$(DOLLAR)/g' -e "s/.*/'&'/" | tr '\n' ' ' | sed 's/ $//'
}

# job_wrapper: print the program that starts jobs. If the batch system's notice reaches every process, a job would end by it
# before HTCondor sends the signal to vacate, and leave the queue as completed. A signal that is ignored at a job's start stays
# ignored.
job_wrapper() {
  echo "#!/bin/sh"
  # Such batch systems send these at a limit of CPU time or swap space, too.
  [ -z "$GLIDEIN_NOTICE_TO_ALL" ] || echo "trap '' QUIT XCPU $GLIDEIN_NOTICE_TO_ALL"
  cat <<'WRAPPER'
fail() {
  echo "$1" >"$_CONDOR_WRAPPER_ERROR_FILE"
  exit 1
}
WRAPPER
  [ -z "$GLIDEIN_JOB_SETUP" ] || cat <<WRAPPER
# The site's set-up. It runs in a function, so that it cannot change the job's arguments.
set_up() { . '$GLIDEIN_JOB_SETUP'; }
[ -r '$GLIDEIN_JOB_SETUP' ] || fail 'GLIDEIN_JOB_SETUP=$GLIDEIN_JOB_SETUP cannot be read'
set_up
WRAPPER
  # The operator's program starts its arguments.
  own=
  [ ! -f "$SCRATCH/job_wrapper_of_site" ] || own="'$SCRATCH/job_wrapper_of_site' "
  cat <<WRAPPER
[ -x "\$1" ] || fail "\$1 cannot be executed"
exec $own"\$@"
WRAPPER
}
