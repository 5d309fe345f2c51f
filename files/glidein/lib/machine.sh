# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What this node and this job have: processors, memory, room on a disk, CVMFS repositories, and the names of GPUs. The report
# of a compute node (files/discovery/node_report.sh) uses this file and limits.sh, too.

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

# memory_mb KEY: print a value of /proc/meminfo in MiB; print nothing if it is missing.
memory_mb() {
  sed -n "s/^$1:  *\([0-9][0-9]*\) kB\$/\1/p" /proc/meminfo 2>/dev/null | while read -r kib; do echo $((kib / 1024)); done
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

# free_mb DIRECTORY: print the MiB that an ordinary user can still write. Device and mount point may contain blanks.
free_mb() {
  free_kb=$(df -Pk "$1" 2>/dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9][0-9]*% .*/\1/p')
  [ -z "$free_kb" ] || echo $((free_kb / 1024))
}

# cvmfs_repositories ROOT REPOSITORY...: print the repositories that can be listed, one per line: the arguments and those that
# are mounted. Listing a repository mounts it. That hangs if its server or proxy does not respond, so all are listed in
# parallel. ROOT is empty, except in tests.
cvmfs_repositories() {
  root=$1
  shift
  {
    for repository in "$@"; do
      echo "$repository"
    done
    for mounted in "$root"/cvmfs/*.*; do
      echo "${mounted##*/}"
    done
  } | sort -u | {
    while read -r repository; do
      case $repository in
      *[!A-Za-z0-9.-]*) continue ;;
      esac
      { [ -z "$(ls "$root/cvmfs/$repository/" 2>/dev/null)" ] || echo "$repository"; } &
    done
    wait
  }
}

# cvmfs_attributes REPOSITORIES: print an attribute for each repository, and PyGlidein's names.
cvmfs_attributes() {
  for repository in $1; do
    echo "HAS_CVMFS_$(printf '%s' "$repository" | tr '.-' '__') = True"
    case $repository in
    icecube.opensciencegrid.org) echo "ICECUBE_CVMFS_Exists = True" ;;
    oasis.opensciencegrid.org) echo "OASIS_CVMFS_Exists = True" ;;
    esac
  done
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
