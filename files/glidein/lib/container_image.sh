# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Run the whole glidein inside a container image: apptainer or singularity starts glidein.sh again in the image.

IMAGE_S=900 # time limit; the image may have to be downloaded and converted

# container_program: print the path of apptainer or singularity, or nothing.
container_program() {
  command -v apptainer 2>/dev/null || command -v singularity 2>/dev/null
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
  set -- "$@" "$GLIDEIN_IMAGE" /bin/sh
  # Its output goes to the log, because the scratch directory does not exist yet.
  run_limited "$IMAGE_S" "$program" "$@" -c : 2>&1
  status=$?
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
