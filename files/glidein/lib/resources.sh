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

# cpus_of_node ROOT: print the number of processors that are online.
cpus_of_node() {
  awk '/^processor[ \t]*:/ { count++ } END { if (count) print count }' "$1/proc/cpuinfo" 2>/dev/null
}

# cpus_granted ROOT: print the number of processors by affinity, cpuset and CPU quota, at least 1.
cpus_granted() {
  {
    sed -n 's/^Cpus_allowed_list:[ \t]*//p' "$1/proc/self/status" 2>/dev/null | tr ',' '\n' |
      awk -F - '/^[0-9]+(-[0-9]+)?$/ { count += NF == 2 ? $2 - $1 + 1 : 1 } END { if (count) print count }'
    cgroup_values "$1" "" cpu.max | awk '$1 ~ /^[0-9]+$/ && $2 > 0 { print int($1 / $2) }'
    cgroup_values "$1" cpu cpu.cfs_quota_us cpu.cfs_period_us | awk '$1 > 0 && $2 > 0 { print int($1 / $2) }'
  } | awk '{ number = $1 < 1 ? 1 : $1; if (least == "" || number < least) least = number } END { print least }'
}

# memory_of_node_mb ROOT: print the memory that a whole node offers: all but one part in 32, at most 2 GiB, for the system.
memory_of_node_mb() {
  awk '$1 == "MemTotal:" { mb = int($2 / 1024); kept = int(mb / 32); print mb - (kept > 2048 ? 2048 : kept) }' \
    "$1/proc/meminfo" 2>/dev/null
}

# memory_granted_mb ROOT: print the lowest limit of this process's control groups. No limit is "max" or a very large number.
memory_granted_mb() {
  {
    cgroup_values "$1" "" memory.max
    cgroup_values "$1" memory memory.limit_in_bytes
  } | awk '
    $1 ~ /^[0-9]+$/ && $1 >= 1048576 && $1 < 1e15 { mb = int($1 / 1048576); if (least == "" || mb < least) least = mb }
    END { print least }'
}

# cgroup_values ROOT CONTROLLER FILE...: print a line with the words of these files for each control group of this process,
# from its own to the topmost. (PBS names the group of an array task 12[3].server, beside 123.server.)
cgroup_values() {
  cgroup_root=$1
  controller=$2
  shift 2
  cgroup_directories "$cgroup_root" "$controller" | while IFS= read -r directory; do
    for file in "$@"; do
      cat "$directory/$file" 2>/dev/null
    done | tr '\n' ' '
    echo
  done
}

# cgroup_directories ROOT CONTROLLER: print the directories of this process's control groups, from its own to the topmost. An
# empty CONTROLLER means version 2. A container sees its own group as the topmost, but the path may begin with the groups above
# it, which are left out.
cgroup_directories() {
  if [ -n "$2" ]; then
    path=$(awk -F : -v name="$2" '{
        n = split($2, names, ",")
        for (i = 1; i <= n; i++) if (names[i] == name && sub(/^[^:]*:[^:]*:/, "")) print
      }' "$1/proc/self/cgroup" 2>/dev/null | head -n 1)
    top=$1/sys/fs/cgroup/$2
  else
    path=$(sed -n 's/^0:://p' "$1/proc/self/cgroup" 2>/dev/null | head -n 1)
    top=$1/sys/fs/cgroup
    [ -e "$top/cgroup.controllers" ] || top=$1/sys/fs/cgroup/unified
  fi
  [ -n "$path" ] || return 0
  first=${path#/}
  while [ -n "$first" ] && [ ! -d "$top/${first%%/*}" ]; do
    case $first in
    */*) first=${first#*/} ;;
    *) first= ;;
    esac
  done
  path=${first:+/$first}
  while [ -n "$path" ] && [ "$path" != / ]; do
    printf '%s\n' "$top$path"
    path=${path%/*}
  done
  printf '%s\n' "$top"
}
