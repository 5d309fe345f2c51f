# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# This node: the container image in which the glidein runs, container programs and CVMFS repositories, and the checks of the
# memory and of the collector's name before HTCondor is started.

# --- The image

# (It is removed at the end. A site may export a variable of this name.)
case ${GLIDEIN_IMAGE_CACHE-} in
"${GLIDEIN_SCRATCH-}"/glidein-image.????????) ;;
*) unset GLIDEIN_IMAGE_CACHE ;;
esac

IMAGE_S=900    # time limit; the image may have to be downloaded and converted
NO_SETTINGS=78 # exit status of try_image

# container_program: print the path of apptainer or singularity, or nothing.
container_program() {
  command -v apptainer 2>/dev/null || command -v singularity 2>/dev/null
}

# set_image_cache: keep a downloaded image in GLIDEIN_SCRATCH, unless the operator or the site has named another place. The
# default is in the home directory, which may be small or not writable.
set_image_cache() {
  case $GLIDEIN_IMAGE in *://*) ;; *) return 0 ;; esac
  [ -z "${APPTAINER_CACHEDIR-}${SINGULARITY_CACHEDIR-}" ] || return 0
  read -r random </proc/sys/kernel/random/uuid || return 0
  GLIDEIN_IMAGE_CACHE=$GLIDEIN_SCRATCH/glidein-image.${random%%-*}
  APPTAINER_CACHEDIR=$GLIDEIN_IMAGE_CACHE
  SINGULARITY_CACHEDIR=$GLIDEIN_IMAGE_CACHE
  export GLIDEIN_IMAGE_CACHE APPTAINER_CACHEDIR SINGULARITY_CACHEDIR
}

# enter_image: if GLIDEIN_IMAGE is set, replace this process by glidein.sh in the image. The environment is passed on. The
# directories that the glidein needs are bound to the same paths.
enter_image() {
  [ -n "$GLIDEIN_IMAGE" ] || return 0
  program=$(container_program) ||
    end_with 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE needs apptainer or singularity, and neither is in PATH=$PATH"
  set -- exec --pwd /
  for place in "$PAYLOAD" "$GLIDEIN_HOME" "${GLIDEIN_CREDENTIAL%/*}" "$GLIDEIN_SCRATCH" "$GLIDEIN_LOG_DIR" \
    "$GLIDEIN_LOG_S3" "$GLIDEIN_JOB_SETUP" /cvmfs; do
    case $place in
    *,* | *:*) bad_setting "$place cannot be bound into GLIDEIN_IMAGE: its name has ',' or ':'" ;;
    /*) [ ! -e "$place" ] || set -- "$@" --bind "$place" ;;
    esac
  done
  if [ "$GLIDEIN_GPUS" -gt 0 ]; then
    [ ! -e /dev/nvidiactl ] || set -- "$@" --nv
    [ ! -e /dev/kfd ] || set -- "$@" --rocm
  fi
  # With these variables of a site, the container does not receive the environment of glidein.sh.
  unset APPTAINER_CLEANENV APPTAINER_COMPAT APPTAINER_CONTAINALL
  unset SINGULARITY_CLEANENV SINGULARITY_COMPAT SINGULARITY_CONTAINALL
  set_image_cache
  set -- "$@" "$GLIDEIN_IMAGE" /bin/sh
  # Its output goes to the log, because the scratch directory does not exist yet.
  run_limited "$IMAGE_S" try_image "$program" "$@" 2>&1
  status=$?
  [ "$status" -ne "$NO_SETTINGS" ] || end_with 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE cannot be used: the container does" \
    "not receive the environment: check whether $program is configured with cleanenv or containall on this node"
  [ "$status" -ne 124 ] || end_with 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE cannot be used: $program took longer than $IMAGE_S s"
  [ "$status" -eq 0 ] ||
    end_with 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE cannot be used: $program ended with status $status; its output is above"
  log "starting again in the image $GLIDEIN_IMAGE with $program"
  # In the image: no further image, the resources as determined here, the walltime from the start of this process.
  GLIDEIN_IMAGE='' GLIDEIN_GRANTED=asked GLIDEIN_STARTED_AT=$STARTED_AT
  export GLIDEIN_IMAGE GLIDEIN_GRANTED GLIDEIN_STARTED_AT
  export GLIDEIN_CPUS GLIDEIN_MEMORY_MB GLIDEIN_DISK_MB GLIDEIN_GPUS
  # shellcheck disable=SC2086 # a list of signals
  trap - EXIT $SIGNALS
  exec "$program" "$@" "$PAYLOAD/glidein.sh"
}

# try_image PROGRAM ARGUMENT...: start a shell in the image, which may have to be downloaded. The status is NO_SETTINGS if the
# glidein's settings do not reach the inside.
try_image() {
  case $GLIDEIN_IMAGE in
  *://*) retry "$DOWNLOADS" "$@" -c : || return ;;
  esac
  "$@" -c "[ -n \"\${GLIDEIN_BATCH_ID-}\" ] || exit $NO_SETTINGS"
}

# --- Software

CVMFS_S=20 # time limit for the repositories

# find_software: set CONTAINER_PROGRAM to the path of apptainer or singularity, or empty, and NODE_ATTRIBUTES to lines
# "Name = value".
find_software() {
  CONTAINER_PROGRAM=$(container_program)
  case $CONTAINER_PROGRAM in
  '') ;;
  *[!A-Za-z0-9\ /._,+@%=~-]*) CONTAINER_PROGRAM= ;; # it becomes a line of condor_config
  *) log "containers: $CONTAINER_PROGRAM" ;;
  esac
  try_step "$CVMFS_S" list_cvmfs >"$SCRATCH/tmp/cvmfs" ||
    log "CVMFS: repositories that could not be listed within $CVMFS_S s are left out"
  repositories=$(sort "$SCRATCH/tmp/cvmfs")
  # shellcheck disable=SC2086
  [ -z "$repositories" ] || log "CVMFS:" $repositories
  NODE_ATTRIBUTES=$(cvmfs_attributes "$repositories")
  if [ -n "${GPU_NAMES-}" ]; then
    NODE_ATTRIBUTES="GPU_NAMES = \"$(printf '%s' "$GPU_NAMES" | tr -d '"\\$')\"
$NODE_ATTRIBUTES"
  fi
}

list_cvmfs() {
  # shellcheck disable=SC2086 # a list of names
  cvmfs_repositories "" $GLIDEIN_CVMFS
}

# --- Checks

NAME_S=20 # time limit for the name service

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

# check_name: end if the collector's name cannot be resolved in three attempts.
check_name() {
  host=${GLIDEIN_COLLECTOR%%:*}
  case $host in *[!0-9.]*) ;; *) return 0 ;; esac
  command -v getent >/dev/null 2>&1 || return 0
  retry 3 run_limited "$NAME_S" getent ahosts "$host" >/dev/null 2>&1 ||
    end_with 32 "the host name in GLIDEIN_COLLECTOR=$GLIDEIN_COLLECTOR cannot be resolved on this node:" \
      "getent ahosts $host failed 3 times"
}
