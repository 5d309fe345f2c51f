# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Run the whole glidein inside a container image: apptainer or singularity starts glidein.sh again in the image.

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
  *://*) transfer "$DOWNLOADS" "$@" -c : || return ;;
  esac
  "$@" -c "[ -n \"\${GLIDEIN_BATCH_ID-}\" ] || exit $NO_SETTINGS"
}
