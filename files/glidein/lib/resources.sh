# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The resources that jobs may use. Most batch systems give what was requested. Some round up or give a whole node. Then the
# limits of this process, or an outer HTCondor, show what was given. Jobs are never offered more than the node has.

SANDBOX_MB=100 # disk of the payload, the unpacked tarball and the logs, which is requested in addition to the jobs' disk

# apply_granted: replace the requested resources by the granted ones, as GLIDEIN_GRANTED says.
# shellcheck disable=SC2034 # the settings are read in other files
apply_granted() {
  case $GLIDEIN_GRANTED in
  machine_ad) apply_machine_ad ;;
  auto | node) apply_node_limits "" ;;
  esac
}

# apply_machine_ad: use the values of the outer HTCondor's machine ad.
# shellcheck disable=SC2034
apply_machine_ad() {
  MACHINE_AD=${_CONDOR_MACHINE_AD-}
  if [ ! -r "$MACHINE_AD" ]; then
    log "the machine ad cannot be read (_CONDOR_MACHINE_AD='$MACHINE_AD'): using the requested resources"
    return 0
  fi
  granted Cpus 1 10000 && GLIDEIN_CPUS=$value
  granted Memory $((GLIDEIN_MEMORY_OVERHEAD_MB + 1)) 100000000 && GLIDEIN_MEMORY_MB=$((value - GLIDEIN_MEMORY_OVERHEAD_MB))
  # Disk is in KiB.
  granted Disk $(((SANDBOX_MB + 1) * 1024)) 100000000000000 && GLIDEIN_DISK_MB=$((value / 1024 - SANDBOX_MB))
  granted GPUs 0 1000 && GLIDEIN_GPUS=$value
  return 0
}

# granted ATTRIBUTE LEAST MOST: true if the ad has the attribute once, as a number in this range; store its integer part in
# `value`.
granted() {
  grep -q "^$1 = " "$MACHINE_AD" 2>/dev/null || return 1
  value=$(sed -n "s/^$1 = //p" "$MACHINE_AD" | sed 's/^\([0-9][0-9]*\)\.[0-9]*$/\1/')
  ! is_valid "$2" "$value" || [ "$value" -gt "$3" ] || return 0
  log "the machine ad's $1 is invalid: using the requested value"
  return 1
}

# apply_node_limits ROOT: use the limits of this process's processors and control groups (v1 and v2). If a resource has no
# limit, `auto` uses the requested value, but not more than the node has; `node` uses what the node has. ROOT is empty, except
# in tests.
apply_node_limits() {
  GLIDEIN_CPUS=$(offered "$(cpus_granted "$1")" "$(cpus_of_node "$1")" "$GLIDEIN_CPUS")
  GLIDEIN_MEMORY_MB=$(offered "$(for_jobs_mb "$(memory_granted_mb "$1")")" "$(for_jobs_mb "$(memory_of_node_mb "$1")")" \
    "$GLIDEIN_MEMORY_MB")
  log "granted: $GLIDEIN_CPUS cpus, $GLIDEIN_MEMORY_MB MB memory"
}

# offered GRANTED NODE REQUESTED: print what jobs may use. GRANTED and NODE are empty if they are unknown.
offered() {
  if [ -n "$1" ] && { [ -z "$2" ] || [ "$1" -lt "$2" ]; }; then
    echo "$1"
  elif [ -z "$2" ] || { [ "$GLIDEIN_GRANTED" = auto ] && [ "$3" -le "$2" ]; }; then
    echo "$3"
  else
    echo "$2"
  fi
}

# for_jobs_mb MB: print the memory without the glidein's own part, at least 1. MB is empty if it is unknown.
for_jobs_mb() {
  [ -n "$1" ] || return 0
  [ "$1" -gt "$GLIDEIN_MEMORY_OVERHEAD_MB" ] || set -- $((GLIDEIN_MEMORY_OVERHEAD_MB + 1))
  echo $(($1 - GLIDEIN_MEMORY_OVERHEAD_MB))
}

# --- GPUs: those that the batch system has assigned to this job, with HTCondor's condor_gpu_discovery

# Variables of batch systems with the GPUs of a job, by number, UUID or MIG instance. The first one with a list counts.
NVIDIA_VARIABLES="CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL NVIDIA_VISIBLE_DEVICES"
AMD_VARIABLES="ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES"
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

# discover_gpus: store the output of condor_gpu_discovery in `output`, its status in `discovered`, and the number of GPUs in
# `found`.
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
