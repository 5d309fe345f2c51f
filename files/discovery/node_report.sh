#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# Report what a compute node offers to glideins, as lines "node: KEY=VALUE" on standard output. A key may occur several times.
# The last line is "node: end=0". The module node_probe runs this script in a batch job.
#
# Settings (environment variables, all may be empty):
#   NODE_REPORT_ADDRESSES   addresses HOST:PORT to connect to, separated by blanks
#   NODE_REPORT_CVMFS       CVMFS repositories to list, separated by blanks, besides those that are mounted or configured
#   NODE_REPORT_SCRATCH     a scratch directory to report besides the usual ones
#   NODE_REPORT_PAYLOAD     the directory files/glidein of the collection. A batch job does not need it: its script contains
#                           the files that this script reads.
#   NODE_REPORT_ROOT        the root of the file system with etc/, proc/, sys/ and cvmfs/, for tests
#
# It writes only to scratch directories, and removes what it has written. Each part has a time limit, because servers and
# drivers may not respond. It needs sh and the usual POSIX commands.

set -u
umask 077
# Unset variables that change the output of the programs used here.
unset CDPATH BLOCK_SIZE LS_BLOCK_SIZE GREP_OPTIONS POSIXLY_CORRECT QUOTING_STYLE TIME_STYLE
LC_ALL=C
export LC_ALL
PATH="${PATH:-/usr/bin:/bin}:/usr/bin:/bin:/usr/sbin:/sbin"
export PATH
: "${NODE_REPORT_ADDRESSES:=}" "${NODE_REPORT_CVMFS:=}" "${NODE_REPORT_SCRATCH:=}" "${NODE_REPORT_ROOT:=}"

# Variables in which batch systems and sites name a job's scratch directory.
SCRATCH_VARIABLES="TMPDIR SLURM_TMPDIR SLURM_JOBTMP PBS_JOBFS JOBFS LOCAL LOCALTMP LOCAL_SCRATCH LOCALSCRATCH LSCRATCH \
SCRATCHDIR SCRATCH_LOCAL SCRATCH TMP _CONDOR_SCRATCH_DIR"
# Directories that are often local disks of nodes.
SCRATCH_DIRECTORIES="/tmp /var/tmp /local /scratch/local /localscratch /local_scratch /scratch"

# The functions of the glidein. In a batch job, the files' contents are in the places of the next lines.
# shellcheck source=../glidein/lib/limits.sh
. "$NODE_REPORT_PAYLOAD/lib/limits.sh"
# shellcheck source=../glidein/lib/machine.sh
. "$NODE_REPORT_PAYLOAD/lib/machine.sh"

# shellcheck disable=SC2034 # for limits.sh: no signal ends a part
SIGNAL=
PART_S=20       # time limit of a part
GPUS_S=60       # time limit for the GPUs: drivers are slow
CONNECTION_S=15 # time limit of a connection

# connect HOST:PORT: try a connection, as the check `endpoint` does. (In a subshell: the check ends its shell.)
connect() (
  # shellcheck source=../glidein/checks/endpoint
  . "$NODE_REPORT_PAYLOAD/checks/endpoint"
)

# fact KEY VALUE: print one line of the report. Characters other than printable ASCII become '?'.
fact() {
  printf 'node: %s=%s\n' "$1" "$(printf '%s' "$2" | tr -c ' -~' '?' | cut -c 1-1000)"
}

# part SECONDS NAME FUNCTION ARGUMENT...: run a part of the report. If it takes longer, report that as a gap.
part() {
  part_s=$1
  part_name=$2
  shift 2
  run_limited "$part_s" "$@"
  [ "$?" -ne 124 ] || fact gap "$part_name: no answer within $part_s s"
}

# os_release KEY: print a value of /etc/os-release.
os_release() {
  sed -n "s/^$1=//p" "$NODE_REPORT_ROOT/etc/os-release" 2>/dev/null | head -n 1 | tr -d "\"'"
}

report_system() {
  fact host "$(uname -n)"
  fact time "$(date +%s)"
  fact os "$(os_release PRETTY_NAME)"
}

# report_resources: report the node's cores and memory, and what this job is limited to.
report_resources() {
  fact node_cpus "$(cpus_of_node "$NODE_REPORT_ROOT")"
  fact cpus "$(cpus_granted "$NODE_REPORT_ROOT")"
  fact node_memory_mb "$(memory_mb MemTotal)"
  fact usable_memory_mb "$(memory_of_node_mb "$NODE_REPORT_ROOT")"
  fact cgroup_memory_mb "$(memory_granted_mb "$NODE_REPORT_ROOT")"
}

# report_scratch VARIABLE DIRECTORY: report a writable directory: the variable that names it, the type of its file system, its
# free MiB, whether programs can be run from it, and its path.
report_scratch() {
  [ -d "$2" ] && [ -w "$2" ] || return 0
  runs=no
  directory=$(mktemp -d "$2/node_report.XXXXXX" 2>&1) || {
    fact gap "scratch directory $2: $directory"
    return 0
  }
  if printf '#!/bin/sh\nexit 0\n' >"$directory/run" && chmod 700 "$directory/run"; then
    "$directory/run" && runs=yes
  else
    fact gap "scratch directory $2: a file cannot be written"
  fi
  rm -rf "$directory"
  fact scratch "$1|$(file_system "$2")|$(free_mb "$2")|$runs|$2"
} 2>/dev/null

# file_system DIRECTORY: print the type of a directory's file system.
file_system() {
  real=$(cd "$1" 2>/dev/null && pwd -P) || return 0
  # Mount points have blanks as \040. The last of several mounts at one place counts.
  REAL=$real awk '
    { place = $2; gsub(/\\040/, " ", place) }
    place == "/" || ENVIRON["REAL"] == place || index(ENVIRON["REAL"], place "/") == 1 {
      if (length(place) >= longest) { longest = length(place); type = $3 }
    }
    END { print type }' /proc/self/mounts 2>/dev/null
}

# scratch_of_variables: print a line VARIABLE DIRECTORY for each of SCRATCH_VARIABLES that is set.
scratch_of_variables() {
  for variable in $SCRATCH_VARIABLES; do
    eval "value=\${$variable-}"
    [ -z "$value" ] || printf '%s %s\n' "$variable" "$value"
  done
}

report_all_scratch() {
  seen="
"
  while read -r variable directory; do
    case $directory in /*) ;; *) continue ;; esac
    case $seen in *"
$directory
"*) continue ;; esac
    seen="$seen$directory
"
    part "$PART_S" "scratch directory $directory" report_scratch "$variable" "$directory" </dev/null
  done <<CANDIDATES
$(scratch_of_variables)
- $NODE_REPORT_SCRATCH
$(for directory in $SCRATCH_DIRECTORIES; do echo "- $directory"; done)
CANDIDATES
}

# report_gpus: report the name and the memory of each GPU that this job can see.
report_gpus() {
  if command -v nvidia-smi >/dev/null 2>&1; then
    listed=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>&1) || {
      fact gap "GPUs: nvidia-smi failed: $(printf '%s\n' "$listed" | head -n 1)"
      return 0
    }
    printf '%s\n' "$listed" | sed -n 's/^\(.*\), *\([^,]*\)$/\2|\1/p' | while IFS= read -r gpu; do
      fact gpu "$gpu"
    done
    return 0
  fi
  discovery=$(discovery_program) || return 0
  listed=$("$discovery" -properties 2>/dev/null) || {
    fact gap "GPUs: $discovery failed"
    return 0
  }
  names=$(gpu_names "$listed")
  [ -n "$names" ] || names=$(detected_gpus "$listed")
  memories=$(printf '%s\n' "$listed" | sed -n 's/^[A-Za-z0-9_]*=\[ .*GlobalMemoryMb=\([0-9][0-9]*\).*/\1/p')
  [ -n "$names" ] || return 0
  number=0
  printf '%s\n' "$names" | while IFS= read -r name; do
    number=$((number + 1))
    # The memory of each GPU, or one number for all.
    memory=$(printf '%s\n' "$memories" | sed -n "${number}p")
    fact gpu "${memory:-${memories%%[!0-9]*}}|$name"
  done
}

# discovery_program: print the path of HTCondor's condor_gpu_discovery, or nothing.
discovery_program() {
  command -v condor_gpu_discovery 2>/dev/null && return 0
  for program in "$(condor_config_val LIBEXEC 2>/dev/null)" /usr/libexec/condor /usr/lib/condor/libexec; do
    [ ! -x "$program/condor_gpu_discovery" ] || {
      echo "$program/condor_gpu_discovery"
      return 0
    }
  done
  return 1
}

# report_cvmfs: report the CVMFS repositories that can be listed, and their attributes.
report_cvmfs() {
  configured=$(sed -n 's/^ *CVMFS_REPOSITORIES=//p' "$NODE_REPORT_ROOT/etc/cvmfs/default.local" 2>/dev/null |
    tr ',' ' ' | tr -d "\"'")
  # shellcheck disable=SC2086 # lists of names
  cvmfs_repositories "$NODE_REPORT_ROOT" $NODE_REPORT_CVMFS $configured | while IFS= read -r repository; do
    fact cvmfs "$repository"
    cvmfs_attributes "$repository" | while IFS= read -r attribute; do
      fact attribute "$attribute"
    done
  done
}

# report_connection HOST:PORT: report the status of the check, and its error.
report_connection() {
  why=$(connect "$1" 2>&1)
  status=$?
  why=$(printf '%s\n' "$why" | head -n 1)
  fact connection "$1|$status|${why##*: }"
}

report_connections() {
  for address in $NODE_REPORT_ADDRESSES; do
    run_limited "$CONNECTION_S" report_connection "$address"
    [ "$?" -ne 124 ] || fact connection "$address|124|no answer within $CONNECTION_S s"
  done
}

# report_attributes: report attributes with the names and values that an HTCondor startd has on this node.
report_attributes() {
  # HTCondor finds the distribution by these words.
  name=$(os_release PRETTY_NAME)
  case $(printf '%s' "$name" | tr '[:upper:]' '[:lower:]') in
  *red*hat*) distribution=RedHat ;;
  *fedora*) distribution=Fedora ;;
  *ubuntu*) distribution=Ubuntu ;;
  *debian*) distribution=Debian ;;
  *scientific*) distribution=SL ;;
  *centos*) distribution=CentOS ;;
  *rocky*) distribution=Rocky ;;
  *almalinux*) distribution=AlmaLinux ;;
  *amazon\ linux*) distribution=AmazonLinux ;;
  *opensuse*) distribution=openSUSE ;;
  *suse*) distribution=SUSE ;;
  *) distribution= ;;
  esac
  version=$(os_release VERSION_ID)
  version=${version%%.*}
  fact attribute 'OpSys = "LINUX"'
  case $distribution$version in
  [A-Za-z]*[0-9])
    fact attribute "OpSysName = \"$distribution\""
    fact attribute "OpSysAndVer = \"$distribution$version\""
    fact attribute "OpSysMajorVer = $version"
    ;;
  esac
  case $(uname -m) in
  x86_64)
    fact attribute 'Arch = "X86_64"'
    fact attribute "Microarch = \"$(microarchitecture "$NODE_REPORT_ROOT/proc/cpuinfo")\""
    ;;
  *) fact attribute "Arch = \"$(uname -m)\"" ;;
  esac
}

# microarchitecture FILE: print the level of an x86_64 processor as HTCondor names it. FILE has the form of /proc/cpuinfo. The
# levels are those of the x86-64 psABI.
microarchitecture() {
  awk '
    /^flags[ \t]*:/ {
      for (i = 1; i <= NF; i++) has[$i] = 1
      exit
    }
    function all(list, n, names, i) {
      n = split(list, names, " ")
      for (i = 1; i <= n; i++) if (!(names[i] in has)) return 0
      return 1
    }
    END {
      level = 1
      if (all("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3")) level = 2
      if (level == 2 && all("avx avx2 bmi1 bmi2 f16c fma abm movbe xsave")) level = 3
      if (level == 3 && all("avx512f avx512bw avx512cd avx512dq avx512vl")) level = 4
      print "x86_64-v" level
    }' "$1" 2>/dev/null
}

part "$PART_S" system report_system
part "$PART_S" "cores and memory" report_resources
report_all_scratch
part "$GPUS_S" GPUs report_gpus
part "$PART_S" CVMFS report_cvmfs
part "$PART_S" attributes report_attributes
report_connections
fact end 0
