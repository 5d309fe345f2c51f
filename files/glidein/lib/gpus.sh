# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# GPUs: those that the batch system gave to this job, found and described by HTCondor's condor_gpu_discovery.

# Variables in which batch systems name the GPUs of a job, by number, UUID or MIG instance. The first that names any counts.
NVIDIA_VARIABLES="CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL NVIDIA_VISIBLE_DEVICES"
AMD_VARIABLES="ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"
NO_GPU=10000   # HTCondor's word for a device that is not there
DISCOVERY_S=60 # how long condor_gpu_discovery may take

# gpus_named VARIABLE...: the first non-empty list in these, without blanks; "none" if some are there and none of them
# names any; nothing if none is there.
gpus_named() {
  none=
  for variable in "$@"; do
    eval "value=\${$variable-unset}"
    value=$(printf '%s' "$value" | tr -d ' ')
    case $value in
    unset | all) ;;
    # What Slurm, HTCondor and the container toolkit say where there is none.
    '' | NoDevFiles | -1 | 10000 | none | void) none=none ;;
    *)
      echo "$value"
      return 0
      ;;
    esac
  done
  [ -z "$none" ] || echo "$none"
}

# find_gpus: a glidein that was promised GPUs and finds fewer would only attract jobs that cannot run. In GPU_ARGUMENTS is
# then how the startd is to call condor_gpu_discovery.
find_gpus() {
  GPU_NAMES=
  GPU_LIST= # those that jobs get; empty: all
  AMD=
  [ "$GLIDEIN_GPUS" -gt 0 ] || return 0
  # shellcheck disable=SC2086 # names
  named=$(gpus_named $NVIDIA_VARIABLES)
  if [ -z "$named" ] || [ "$named" = none ]; then
    # shellcheck disable=SC2086
    amd=$(gpus_named $AMD_VARIABLES)
    if [ -n "$amd" ] && [ "$amd" != none ]; then
      named=$amd
      AMD=yes
    fi
  fi
  case $named in
  none) leave 17 "GLIDEIN_GPUS=$GLIDEIN_GPUS were promised, and the batch system gave none: its variables are empty" ;;
  *[!A-Za-z0-9,:/_-]*) leave 17 "the batch system's list of GPUs makes no sense: '$named'" ;;
  esac
  # By number, because ROCR_VISIBLE_DEVICES does not know HTCondor's short names of AMD's.
  GPU_ARGUMENTS="-properties${AMD:+ -by-index}${GLIDEIN_GPU_DISCOVERY:+ $GLIDEIN_GPU_DISCOVERY}${named:+ -device $named}"
  forget_gpus
  discover_gpus
  [ "$found" -ge "$GLIDEIN_GPUS" ] ||
    leave 17 "GLIDEIN_GPUS=$GLIDEIN_GPUS were promised, condor_gpu_discovery $GPU_ARGUMENTS finds $found: $(last_line "$output")"
  case $GLIDEIN_GRANTED in
  auto | node) [ -z "$named" ] || GLIDEIN_GPUS=$found ;; # perhaps more than was asked for
  esac
  if [ "$found" -gt "$GLIDEIN_GPUS" ]; then
    say "GPUs: $found are there${named:+, named by the batch system}: the first $GLIDEIN_GPUS are offered"
    named=$(detected_gpus "$output" | head -n "$GLIDEIN_GPUS" | tr '\n' ',' | sed 's/,$//')
    GPU_ARGUMENTS="${GPU_ARGUMENTS%%" -device "*} -device $named"
    discover_gpus
  fi
  # shellcheck disable=SC2034 # for health.sh
  GPU_LIST=$named
  GPU_NAMES=$(gpu_names "$output" | tr '\n' ',' | sed 's/,$//')
  say "GPUs: ${named:-all}, ${GPU_NAMES:-without names}"
}

# forget_gpus: the list is an argument, for all to see; beside that, the variables would only be a second one.
forget_gpus() {
  # shellcheck disable=SC2086 # names
  [ "$GLIDEIN_GPUS" -eq 0 ] || unset $NVIDIA_VARIABLES $AMD_VARIABLES
}

# discover_gpus: what condor_gpu_discovery prints is in `output`, how many it finds in `found`.
discover_gpus() {
  # shellcheck disable=SC2086 # arguments
  within "$DISCOVERY_S" run_condor libexec/condor_gpu_discovery $GPU_ARGUMENTS >"$SCRATCH/tmp/gpus.out" 2>&1
  [ "$?" -ne 124 ] || leave 17 "GLIDEIN_GPUS=$GLIDEIN_GPUS were promised, and condor_gpu_discovery $GPU_ARGUMENTS took longer than" \
    "$DISCOVERY_S s: a driver hangs"
  output=$(cat "$SCRATCH/tmp/gpus.out")
  found=$(detected_gpus "$output" | wc -l)
  found=$((found)) # some print blanks before it
}

# detected_gpus OUTPUT: HTCondor's names of them, one per line.
detected_gpus() {
  printf '%s\n' "$1" | sed -n 's/^DetectedGPUs="\(.*\)"$/\1/p' | tr ',' '\n' | tr -d ' ' | grep '[A-Za-z]'
}

# gpu_names OUTPUT: the names of all GPUs, one per line, from what condor_gpu_discovery printed; a common one as often as there
# are GPUs.
gpu_names() {
  common=$(printf '%s\n' "$1" | sed -n 's/^Common=.*[ ;]DeviceName="\([^"]*\)".*/\1/p')
  if [ -n "$common" ]; then
    detected_gpus "$1" | while read -r _; do
      printf '%s\n' "$common"
    done
  else
    printf '%s\n' "$1" | sed -n 's/^[A-Za-z0-9_]*=\[ .*DeviceName="\([^"]*\)".*/\1/p'
  fi
}

# config_gpus: what of condor_config is about GPUs. Jobs that asked for none see none.
config_gpus() {
  echo "STARTD_DETECT_GPUS ="
  [ "$GLIDEIN_GPUS" -gt 0 ] || return 0
  cat <<CONFIG
# (quoted because the path may have blanks, which STARTD_DETECT_GPUS cannot take)
MACHINE_RESOURCE_INVENTORY_GPUs = "'\$(LIBEXEC)/condor_gpu_discovery' $GPU_ARGUMENTS"
ENVIRONMENT_VALUE_FOR_UnAssignedGPUs = $NO_GPU
CONFIG
  if [ -n "$AMD" ]; then
    echo 'ENVIRONMENT_FOR_AssignedGPUs = ROCR_VISIBLE_DEVICES=/(GPU|CUDA|OCL)//'
  else
    echo 'ENVIRONMENT_FOR_AssignedGPUs = GPU_DEVICE_ORDINAL=/(CUDA|OCL)//  CUDA_VISIBLE_DEVICES=/CUDA//'
  fi
}

# no_gpus: the variables by which jobs of a glidein without GPUs see none, lines NAME=value.
no_gpus() {
  [ "$GLIDEIN_GPUS" -eq 0 ] || return 0
  for variable in CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES; do
    echo "$variable=$NO_GPU"
  done
  echo "NVIDIA_VISIBLE_DEVICES=none"
}
