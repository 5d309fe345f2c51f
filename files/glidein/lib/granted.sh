# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What jobs may use here. Most batch systems give what was asked for. Others give more (they round up, or give a whole
# node), and the node itself or an outer HTCondor says what it is; what is offered to jobs is that, and never more than
# the node has.

SANDBOX_MB=100 # of the disk that was given: payload, tarball unpacked, logs. It is asked for on top of the jobs' disk

# take_granted: replaces what was asked for by what was given, as GLIDEIN_GRANTED says, where that makes sense.
# shellcheck disable=SC2034 # the settings are read in other files
take_granted() {
  case $GLIDEIN_GRANTED in
  machine_ad) take_machine_ad ;;
  auto | node) take_from_node "" ;;
  esac
}

# take_machine_ad: what the outer HTCondor's machine ad says.
# shellcheck disable=SC2034
take_machine_ad() {
  MACHINE_AD=${_CONDOR_MACHINE_AD-}
  if [ ! -r "$MACHINE_AD" ]; then
    say "there is no machine ad to read (_CONDOR_MACHINE_AD='$MACHINE_AD'): going by what was asked for"
    return 0
  fi
  granted Cpus 1 10000 && GLIDEIN_CPUS=$value
  granted Memory $((GLIDEIN_MEMORY_OVERHEAD_MB + 1)) 100000000 && GLIDEIN_MEMORY_MB=$((value - GLIDEIN_MEMORY_OVERHEAD_MB))
  # Disk is in KiB.
  granted Disk $(((SANDBOX_MB + 1) * 1024)) 100000000000000 && GLIDEIN_DISK_MB=$((value / 1024 - SANDBOX_MB))
  granted GPUs 0 1000 && GLIDEIN_GPUS=$value
  return 0
}

# granted ATTRIBUTE LEAST MOST: true if the ad has it once, as a number in these bounds; its whole part is in `value`.
granted() {
  value=$(sed -n 's/^'"$1"' = //p' "$MACHINE_AD" 2>/dev/null)
  case $value in
  '')
    return 1
    ;;
  *.*)
    case ${value#*.} in
    *[!0-9]*) value=nonsense ;;
    *) value=${value%%.*} ;;
    esac
    ;;
  esac
  case $value in
  '' | *[!0-9]* | 0?* | ????????????????*) ;;
  *) [ "$value" -lt "$2" ] || [ "$value" -gt "$3" ] || return 0 ;;
  esac
  say "the machine ad's $1 makes no sense: going by what was asked for"
  return 1
}

# take_from_node ROOT: cores and memory as the processors and control groups (v1 and v2) of this process limit them. Where
# nothing is limited, `auto` goes by what was asked for, as far as the node has it, and `node`, the whole node being ours, by
# what the node has. ROOT is empty, except in tests.
take_from_node() {
  GLIDEIN_CPUS=$(offered "$(cpus_granted "$1")" "$(cpus_of_node "$1")" "$GLIDEIN_CPUS")
  GLIDEIN_MEMORY_MB=$(offered "$(for_jobs_mb "$(memory_granted_mb "$1")")" "$(for_jobs_mb "$(memory_of_node_mb "$1")")" \
    "$GLIDEIN_MEMORY_MB")
  say "granted: $GLIDEIN_CPUS cpus, $GLIDEIN_MEMORY_MB MB memory"
}

# offered GRANTED NODE ASKED: how much jobs may use. GRANTED and NODE may be empty: unknown.
offered() {
  if [ -n "$1" ] && { [ -z "$2" ] || [ "$1" -lt "$2" ]; }; then
    echo "$1"
  elif [ -z "$2" ] || { [ "$GLIDEIN_GRANTED" = auto ] && [ "$3" -le "$2" ]; }; then
    echo "$3"
  else
    echo "$2"
  fi
}

# for_jobs_mb MB: what is left for jobs of so much memory (empty: unknown), at least 1.
for_jobs_mb() {
  [ -n "$1" ] || return 0
  [ "$1" -gt "$GLIDEIN_MEMORY_OVERHEAD_MB" ] || set -- $((GLIDEIN_MEMORY_OVERHEAD_MB + 1))
  echo $(($1 - GLIDEIN_MEMORY_OVERHEAD_MB))
}

# cpus_of_node ROOT: processors that are switched on.
cpus_of_node() {
  awk '/^processor[ \t]*:/ { count++ } END { if (count) print count }' "$1/proc/cpuinfo" 2>/dev/null
}

# cpus_granted ROOT: as many as this process may run on (affinity, cpuset), or its share of time is worth, at least 1.
cpus_granted() {
  {
    sed -n 's/^Cpus_allowed_list:[ \t]*//p' "$1/proc/self/status" 2>/dev/null | tr ',' '\n' |
      awk -F - '/^[0-9]+(-[0-9]+)?$/ { count += NF == 2 ? $2 - $1 + 1 : 1 } END { if (count) print count }'
    cgroup_values "$1" cpu.max | awk '$1 ~ /^[0-9]+$/ && $2 > 0 { print int($1 / $2) }'
    for directory in $(cgroup_directories "$1" cpu | tr ' ' '?'); do
      cat "$directory/cpu.cfs_quota_us" "$directory/cpu.cfs_period_us" 2>/dev/null | tr '\n' ' '
      echo
    done | awk '$1 > 0 && $2 > 0 { print int($1 / $2) }'
  } | awk '{ number = $1 < 1 ? 1 : $1; if (least == "" || number < least) least = number } END { print least }'
}

# memory_of_node_mb ROOT: less a part in 32 for the system, at most 2 GiB, if a whole node is to be offered.
memory_of_node_mb() {
  awk '$1 == "MemTotal:" { mb = int($2 / 1024); kept = int(mb / 32); print mb - (kept > 2048 ? 2048 : kept) }' \
    "$1/proc/meminfo" 2>/dev/null
}

# memory_granted_mb ROOT: the least limit above this process. No limit is "max", or a number as large as can be.
memory_granted_mb() {
  {
    cgroup_values "$1" memory.max
    for directory in $(cgroup_directories "$1" memory | tr ' ' '?'); do
      cat "$directory/memory.limit_in_bytes" 2>/dev/null
    done
  } | awk '
    /^[0-9]+$/ && $1 >= 1048576 && $1 < 1e15 { mb = int($1 / 1048576); if (least == "" || mb < least) least = mb }
    END { print least }'
}

# cgroup_values ROOT FILE: that file's lines in the control groups (v2) of this process, from its own up to the topmost.
cgroup_values() {
  for directory in $(cgroup_directories "$1" "" | tr ' ' '?'); do
    cat "$directory/$2" 2>/dev/null
  done
}

# cgroup_directories ROOT CONTROLLER: those of this process, from its own upwards; no controller means version 2. A
# container sees its own as the topmost, where the path may still begin with the names above it: these are left out.
# (Blanks, which hardly any have, become ? above: a pattern that fits.)
cgroup_directories() {
  if [ -n "$2" ]; then
    path=$(awk -F : -v name="$2" '{ n = split($2, names, ","); for (i = 1; i <= n; i++) if (names[i] == name) print $3 }' \
      "$1/proc/self/cgroup" 2>/dev/null | head -n 1)
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
    echo "$top$path"
    path=${path%/*}
  done
  echo "$top"
}
