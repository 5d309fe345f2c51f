# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What this node has to offer beside cores, memory and GPUs: containers, and file systems of CVMFS.

LOOK_S=20 # how long to wait for repositories to be mounted

# look_around: CONTAINER_PROGRAM is apptainer or singularity, or empty; OFFERED has the attributes, lines "Name = value".
look_around() {
  CONTAINER_PROGRAM=$(container_program)
  case $CONTAINER_PROGRAM in
  '') ;;
  *[!A-Za-z0-9\ /._,+@%=~-]*) CONTAINER_PROGRAM= ;; # it becomes a line of condor_config
  *) say "containers: $CONTAINER_PROGRAM" ;;
  esac
  attempt "$LOOK_S" look_for_cvmfs >"$SCRATCH/tmp/cvmfs" ||
    say "CVMFS: what could not be listed within $LOOK_S s is left out"
  repositories=$(sort "$SCRATCH/tmp/cvmfs")
  # shellcheck disable=SC2086
  [ -z "$repositories" ] || say "CVMFS:" $repositories
  OFFERED=$(cvmfs_attributes "$repositories")
  if [ -n "${GPU_NAMES-}" ]; then
    OFFERED="GPU_NAMES = \"$(printf '%s' "$GPU_NAMES" | tr -d '"\\$')\"
$OFFERED"
  fi
}

look_for_cvmfs() {
  # shellcheck disable=SC2086 # a list of names
  cvmfs_repositories "" $GLIDEIN_CVMFS
}

# cvmfs_repositories ROOT REPOSITORY...: those that can be listed, one per line, as they answer: the given ones, and all that
# are mounted. To look at one mounts it, which takes for ever where a server or proxy does not answer; so they are looked
# at at the same time. ROOT is empty, except in tests.
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

# cvmfs_attributes REPOSITORIES: an attribute for each, and the names that PyGlidein's jobs know.
cvmfs_attributes() {
  for repository in $1; do
    echo "HAS_CVMFS_$(printf '%s' "$repository" | tr '.-' '__') = True"
    case $repository in
    icecube.opensciencegrid.org) echo "ICECUBE_CVMFS_Exists = True" ;;
    oasis.opensciencegrid.org) echo "OASIS_CVMFS_Exists = True" ;;
    esac
  done
}

# config_containers: HTCondor tries by itself what the program can do, and says so in the machine ad (HasSingularity, ...).
# The directory in which it tries has to look like an image.
config_containers() {
  sandbox=$SCRATCH/condor/libexec/singularity_test_sandbox
  [ ! -d "$sandbox" ] || mkdir -p "$sandbox/dev" "$sandbox/proc" "$sandbox/tmp"
  cat <<CONFIG

# --- Jobs in containers: apptainer or singularity, where the node has it
SINGULARITY = $CONTAINER_PROGRAM
CONFIG
}
