# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Software of this node: container programs and CVMFS repositories.

CVMFS_S=20 # time limit for the repositories

# find_software: set CONTAINER_PROGRAM to the path of apptainer or singularity, or empty, and NODE_ATTRIBUTES to lines
# "Name = value".
find_software() {
  CONTAINER_PROGRAM=$(container_program)
  case $CONTAINER_PROGRAM in
  '') ;;
  *[!A-Za-z0-9\ /._,+@%=~-]*) CONTAINER_PROGRAM= ;; # it becomes a line of condor_config
  *) log "containers: $CONTAINER_PROGRAM" ;;
  esac
  try_step "$CVMFS_S" list_cvmfs >"$SCRATCH/tmp/cvmfs" ||
    log "CVMFS: repositories that could not be listed within $CVMFS_S s are left out"
  repositories=$(sort "$SCRATCH/tmp/cvmfs")
  # shellcheck disable=SC2086
  [ -z "$repositories" ] || log "CVMFS:" $repositories
  NODE_ATTRIBUTES=$(cvmfs_attributes "$repositories")
  if [ -n "${GPU_NAMES-}" ]; then
    NODE_ATTRIBUTES="GPU_NAMES = \"$(printf '%s' "$GPU_NAMES" | tr -d '"\\$')\"
$NODE_ATTRIBUTES"
  fi
}

list_cvmfs() {
  # shellcheck disable=SC2086 # a list of names
  cvmfs_repositories "" $GLIDEIN_CVMFS
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

# config_containers: print the part of condor_config for containers. HTCondor tests the program and advertises the result
# (HasSingularity, ...). Its test directory must look like an image.
config_containers() {
  sandbox=$SCRATCH/condor/libexec/singularity_test_sandbox
  [ ! -d "$sandbox" ] || mkdir -p "$sandbox/dev" "$sandbox/proc" "$sandbox/tmp"
  cat <<CONFIG

# --- Jobs in containers: apptainer or singularity, if the node has one of them
SINGULARITY = $CONTAINER_PROGRAM
CONFIG
  # HTCondor gives containers a /tmp and a /var/tmp of their own (MOUNT_UNDER_SCRATCH). The directory of a job cannot be bound
  # into these, so it gets another path in the container.
  case $SCRATCH/ in
  /tmp/* | /var/tmp/*) echo "SINGULARITY_TARGET_DIR = /srv" ;;
  esac
}
