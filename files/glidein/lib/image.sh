# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The whole glidein inside an image: apptainer, or singularity, runs this script once more in there.

IMAGE_S=900 # it may have to be fetched, and converted

# container_program: where apptainer is, or singularity; nothing where there is neither.
container_program() {
  command -v apptainer 2>/dev/null || command -v singularity 2>/dev/null
}

# enter_image: with GLIDEIN_IMAGE set, does not come back. The environment goes along; what the glidein needs of the node
# is bound to where it is outside.
enter_image() {
  [ -n "$GLIDEIN_IMAGE" ] || return 0
  program=$(container_program) ||
    leave 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE needs apptainer or singularity, and neither is in PATH=$PATH"
  set -- exec --pwd /
  for place in "$PAYLOAD" "$GLIDEIN_HOME" "${GLIDEIN_CREDENTIAL%/*}" "$GLIDEIN_SCRATCH" "$GLIDEIN_LOG_DIR" \
    "$GLIDEIN_JOB_SETUP" /cvmfs; do
    case $place in
    *,* | *:*) bad_setting "$place cannot be bound into an image: it has ',' or ':' in it" ;;
    /*) [ ! -e "$place" ] || set -- "$@" --bind "$place" ;;
    esac
  done
  if [ "$GLIDEIN_GPUS" -gt 0 ]; then
    [ ! -e /dev/nvidiactl ] || set -- "$@" --nv
    [ ! -e /dev/kfd ] || set -- "$@" --rocm
  fi
  set -- "$@" "$GLIDEIN_IMAGE" /bin/sh
  # What it says goes to the log: there is no place for a file yet.
  within "$IMAGE_S" "$program" "$@" -c : 2>&1
  status=$?
  [ "$status" -ne 124 ] || leave 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE cannot be used: $program took longer than $IMAGE_S s"
  [ "$status" -eq 0 ] ||
    leave 21 "GLIDEIN_IMAGE=$GLIDEIN_IMAGE cannot be used: $program ended with status $status and says why above"
  say "going on inside the image $GLIDEIN_IMAGE, by $program"
  # In there: no further image, what was granted is known, and the walltime goes on.
  GLIDEIN_IMAGE='' GLIDEIN_GRANTED=asked GLIDEIN_STARTED_AT=$STARTED_AT
  export GLIDEIN_IMAGE GLIDEIN_GRANTED GLIDEIN_STARTED_AT
  export GLIDEIN_CPUS GLIDEIN_MEMORY_MB GLIDEIN_DISK_MB GLIDEIN_GPUS
  trap - EXIT HUP INT USR1 USR2 TERM
  exec "$program" "$@" "$PAYLOAD/glidein.sh"
}
