# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# GPUs: determine which ones the batch system has assigned to this job, with HTCondor's condor_gpu_discovery.

# Variables of batch systems with the GPUs of a job, by number, UUID or MIG instance. The first one with a list counts.
NVIDIA_VARIABLES="CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL NVIDIA_VISIBLE_DEVICES"
AMD_VARIABLES="ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"
NO_GPU=10000   # HTCondor's number for a missing device
GPU_ROOT=      # the root of /dev, for tests
DISCOVERY_S=60 # time limit for condor_gpu_discovery

# gpus_named VARIABLE...: print the first list in these variables, separated by commas; "none" if some are set and have no
# list; nothing if none is set.
gpus_named() {
  none=
  for variable in "$@"; do
    eval "value=\${$variable-unset}"
    value=$(printf '%s' "$value" | comma_list)
    case $value in
    # `void`: the container toolkit has given the GPUs to the container in another way (CDI).
    unset | all | void) ;;
    # Values that Slurm, HTCondor and the container toolkit use for "no GPU".
    '' | NoDevFiles | -1 | 10000 | none) none=none ;;
    *)
      echo "$value"
      return 0
      ;;
    esac
  done
  [ -z "$none" ] || echo "$none"
}

# comma_list: read words from standard input, separated by blanks, commas or line feeds; print them separated by commas.
comma_list() {
  tr ' \t\n' ',,,' | tr -s ',' | sed 's/^,//; s/,$//'
}

# gpus_granted: print the numbers of the GPUs that Grid Engine names in SGE_HGR_<resource> ("1 3", "gpu1", "/dev/nvidia3";
# sites call the resource gpu, gpu_card, cuda and so on) or Torque in a file (lines HOST-gpu3), separated by commas; or
# nothing.
gpus_granted() {
  for variable in $(env | sed -n 's/^\(SGE_HGR_[A-Za-z0-9_]*\)=.*/\1/p' | grep -i -e gpu -e cuda); do
    eval "printf '%s' \"\$$variable\"" | comma_list | tr ',' '\n' | sed 's/^[^0-9]*\([0-9]\{1,3\}\)$/\1/' | comma_list
    return 0
  done
  [ ! -r "${PBS_GPUFILE-}" ] || sed -n 's/.*-gpu\([0-9][0-9]*\)$/\1/p' "$PBS_GPUFILE" | comma_list
}

# is_amd_node ROOT: true if the node has the driver of AMD's GPUs and not that of NVIDIA's. ROOT is empty, except in tests.
is_amd_node() {
  [ -e "$1/dev/kfd" ] && [ ! -e "$1/dev/nvidiactl" ]
}

# find_gpus: end if there are fewer GPUs than GLIDEIN_GPUS, because jobs for GPUs would fail here. Set GPU_ARGUMENTS, the
# arguments of condor_gpu_discovery for the startd.
find_gpus() {
  GPU_NAMES=
  GPU_LIST= # the GPUs that are offered; empty: all
  AMD=
  [ "$GLIDEIN_GPUS" -gt 0 ] || return 0
  # shellcheck disable=SC2086 # names
  named=$(gpus_named $NVIDIA_VARIABLES)
  # shellcheck disable=SC2086
  amd=$(gpus_named $AMD_VARIABLES)
  # Some batch systems set the variables of all vendors.
  if is_amd_node "$GPU_ROOT" || [ "${named:-none}" = none ]; then
    [ "${amd:-none}" = none ] || named=$amd AMD=yes
  fi
  ! is_amd_node "$GPU_ROOT" || AMD=yes
  granted=
  if [ "${named:-none}" = none ]; then
    granted=$(gpus_granted)
    named=${granted:-$named}
  fi
  case $named in
  none) end_with 17 "the batch system assigned no GPU, its variables are empty; expected GLIDEIN_GPUS=$GLIDEIN_GPUS" ;;
  *[!A-Za-z0-9,:/_-]*) end_with 17 "the batch system's list of GPUs is invalid: '$named'" ;;
  esac
  # By number, because ROCR_VISIBLE_DEVICES does not accept HTCondor's short names of AMD's GPUs.
  GPU_ARGUMENTS="-properties${AMD:+ -by-index}${GLIDEIN_GPU_DISCOVERY:+ $GLIDEIN_GPU_DISCOVERY}${named:+ -device $named}"
  unset_gpu_variables
  discover_gpus
  if [ -n "$granted" ] && [ "$found" -lt "$GLIDEIN_GPUS" ] && other_gpus_are_hidden; then
    # The visible GPUs have other numbers.
    named=
    GPU_ARGUMENTS=${GPU_ARGUMENTS%%" -device "*}
    discover_gpus
  fi
  [ "$found" -ge "$GLIDEIN_GPUS" ] ||
    end_with 17 "fewer GPUs than GLIDEIN_GPUS=$GLIDEIN_GPUS: condor_gpu_discovery $GPU_ARGUMENTS found $found:" \
      "$(failure_of "$discovered" "$output")"
  case $GLIDEIN_GRANTED in
  auto | node) [ -z "$named" ] || GLIDEIN_GPUS=$found ;; # may be more than requested
  esac
  if [ "$found" -gt "$GLIDEIN_GPUS" ]; then
    log "GPUs: found $found${named:+, named by the batch system}; offering the first $GLIDEIN_GPUS"
    named=$(detected_gpus "$output" | head -n "$GLIDEIN_GPUS" | tr '\n' ',' | sed 's/,$//')
    GPU_ARGUMENTS="${GPU_ARGUMENTS%%" -device "*} -device $named"
    discover_gpus
  fi
  # shellcheck disable=SC2034 # for node.sh
  GPU_LIST=$named
  GPU_NAMES=$(gpu_names "$output" | tr '\n' ',' | sed 's/,$//')
  log "GPUs: ${named:-all}, ${GPU_NAMES:-without names}"
}

# other_gpus_are_hidden: true if this job can open the device files of the granted NVIDIA GPUs, and of no others. (The mode of
# a file does not show whether a control group denies it.)
other_gpus_are_hidden() {
  opened=$(for device in "$GPU_ROOT"/dev/nvidia[0-9]*; do
    ! true <"$device" || echo "${device##*/nvidia}"
  done 2>/dev/null | sort)
  [ "$opened" = "$(printf '%s\n' "$granted" | tr ',' '\n' | sort)" ]
}

# unset_gpu_variables: the list is now an argument of condor_gpu_discovery; the variables would be a second list.
unset_gpu_variables() {
  # shellcheck disable=SC2086 # names
  [ "$GLIDEIN_GPUS" -eq 0 ] || unset $NVIDIA_VARIABLES $AMD_VARIABLES
}

# discover_gpus: store the output of condor_gpu_discovery in `output` and the number of GPUs in `found`.
discover_gpus() {
  # shellcheck disable=SC2086 # arguments
  run_limited "$DISCOVERY_S" run_condor libexec/condor_gpu_discovery $GPU_ARGUMENTS >"$SCRATCH/tmp/gpus.out" 2>&1
  discovered=$?
  [ "$discovered" -ne 124 ] || end_with 17 "condor_gpu_discovery $GPU_ARGUMENTS did not end within" \
    "$DISCOVERY_S s: a driver hangs"
  output=$(cat "$SCRATCH/tmp/gpus.out")
  found=$(detected_gpus "$output" | wc -l)
  found=$((found)) # some versions of wc print blanks before it
}

# detected_gpus OUTPUT: print HTCondor's names of the GPUs, one per line.
detected_gpus() {
  printf '%s\n' "$1" | sed -n 's/^DetectedGPUs="\(.*\)"$/\1/p' | tr ',' '\n' | tr -d ' ' | grep '[A-Za-z]'
}

# gpu_names OUTPUT: print the device names of all GPUs, one per line, from the output of condor_gpu_discovery. If all GPUs have
# one name, print it for each.
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

# config_gpus: print the part of condor_config for GPUs. Jobs that request no GPU see none.
config_gpus() {
  echo "STARTD_DETECT_GPUS ="
  [ "$GLIDEIN_GPUS" -gt 0 ] || return 0
  cat <<CONFIG
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

# no_gpus: if this glidein has no GPU, print the variables that hide the node's GPUs from jobs, lines NAME=value.
no_gpus() {
  [ "$GLIDEIN_GPUS" -eq 0 ] || return 0
  for variable in CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES; do
    echo "$variable=$NO_GPU"
  done
  echo "NVIDIA_VISIBLE_DEVICES=none"
}
