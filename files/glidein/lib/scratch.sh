# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The scratch directory: the only place on the node where a glidein and its jobs write.
#   condor/      the tarball's content        credential/  token or pool password (0600)
#   log/         the daemons' logs            execute/     one directory per running job
#   jobs/        what the jobs have used      checks/      those that the startd runs
#   state        what a sweep has to know     condor_config, lock/ spool/ tmp/

unset SCRATCH NAME # sites export such names; ours shall stay in this shell
SCRATCH=
UNPACKED_MB=60 # what the tarball takes when unpacked, plus logs: on top of the disk promised to jobs

SCRATCH_S=60 # a disk that takes longer to make a directory does not answer

# make_parents: makes GLIDEIN_SCRATCH and what is above it, for this user alone. GLIDEIN_SCRATCH is removed at the end if it
# was made here and is empty. If it cannot be made, make_scratch ends the glidein.
make_parents() {
  within "$SCRATCH_S" make_missing "$GLIDEIN_SCRATCH" 2>&1
  [ $? -ne 3 ] || export GLIDEIN_SCRATCH_MADE=yes
}

# make_missing DIRECTORY: status 3 if it was not there, and is now.
make_missing() {
  [ ! -d "$1" ] || return 0
  mkdir -p "$1" && return 3
}

# avoid_brackets: PBS and Torque name the TMPDIR of an array task after its id, /var/tmp/33[1].server. In a job's shell,
# $_CONDOR_SCRATCH_DIR/* would match other files there. The nearest directory above it without brackets is used instead.
avoid_brackets() {
  case ${GLIDEIN_SCRATCH-} in
  /*[][]*) ;;
  *) return 0 ;;
  esac
  above=${GLIDEIN_SCRATCH%%[][]*}
  above=${above%/*}
  [ ! -d "$above/" ] || [ -w "$above/" ] || bad_setting "GLIDEIN_SCRATCH='$GLIDEIN_SCRATCH' has brackets, and" \
    "${above:-/} cannot be written: set glidein_scratch or the entry's scratch to a directory that can"
  say "GLIDEIN_SCRATCH=$GLIDEIN_SCRATCH has brackets: using $above"
  GLIDEIN_SCRATCH=$above
}

# make_scratch: the directory has a name that nobody can guess, and is not taken if somebody has it.
make_scratch() {
  cd / || leave 13 "the directory / cannot be entered"
  read -r random </proc/sys/kernel/random/uuid || leave 13 "this node has no /proc/sys/kernel/random/uuid"
  wanted=$GLIDEIN_SCRATCH/glidein.${random%%-*}
  within "$SCRATCH_S" mkdir "$wanted" 2>&1
  case $? in
  0) SCRATCH=$wanted ;;
  124) leave 34 "making a directory in GLIDEIN_SCRATCH=$GLIDEIN_SCRATCH took longer than $SCRATCH_S s" ;;
  *) leave 13 "no scratch directory can be made in GLIDEIN_SCRATCH=$GLIDEIN_SCRATCH: mkdir says why above" ;;
  esac
  NAME=glidein_$(printf '%s' "$GLIDEIN_BATCH_ID" | tr -c 'A-Za-z0-9_.-' '_')_${SCRATCH##*.}
  say "scratch directory $SCRATCH, name $NAME"
  step "$SCRATCH_S" "filling the scratch directory" fill_scratch
  GLIDEIN_DISK_MB=$(cat "$SCRATCH/disk_mb")
}

fill_scratch() {
  for directory in credential log execute jobs lock spool tmp; do
    mkdir "$SCRATCH/$directory" || leave 13 "the directory $SCRATCH/$directory cannot be made"
  done
  check_room
  keep_state || leave 13 "$SCRATCH/state cannot be written"
}

check_room() {
  offered=$GLIDEIN_DISK_MB
  needed=$((GLIDEIN_MIN_DISK_MB + UNPACKED_MB))
  free=$(free_mb "$SCRATCH")
  case $free in
  '' | *[!0-9]*) say "df does not say how much room is in $SCRATCH: going on" ;;
  *)
    [ "$free" -ge "$needed" ] ||
      leave 13 "$GLIDEIN_SCRATCH has $free MB free; GLIDEIN_MIN_DISK_MB=$GLIDEIN_MIN_DISK_MB and HTCondor itself need $needed"
    if [ "$free" -lt $((offered + UNPACKED_MB)) ]; then
      offered=$((free - UNPACKED_MB))
      say "$GLIDEIN_SCRATCH has $free MB free: $offered MB of GLIDEIN_DISK_MB=$GLIDEIN_DISK_MB are offered"
    fi
    ;;
  esac
  echo "$offered" >"$SCRATCH/disk_mb" || leave 13 "$SCRATCH/disk_mb cannot be written"
}

# free_mb DIRECTORY: MiB that an ordinary user may still write there. Device and mount point may contain blanks.
free_mb() {
  free_kb=$(df -Pk "$1" 2>/dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9][0-9]*% .*/\1/p')
  [ -z "$free_kb" ] || echo $((free_kb / 1024))
}

# save_logs: the ends of the daemons' logs go to GLIDEIN_LOG_DIR, at most 30 files of 256 KiB; or, where no directory
# outlives the job, to standard error, of 32 KiB each.
save_logs() {
  [ -n "$SCRATCH" ] && [ -s "$SCRATCH/log/MasterLog" ] || return 0
  if [ "$GLIDEIN_LOG_DIR" = - ]; then
    print_logs >&2
    return 0
  fi
  LOGS=$GLIDEIN_LOG_DIR/$NAME
  mkdir -p "$LOGS" 2>/dev/null || {
    say "the daemons' logs are lost: $LOGS cannot be made"
    return 0
  }
  count=0
  for log in "$SCRATCH"/log/*Log*; do
    [ -s "$log" ] || continue
    count=$((count + 1))
    [ "$count" -le 30 ] || break
    tail -c 262144 "$log" >"$LOGS/${log##*/}" 2>/dev/null || say "$LOGS/${log##*/} could not be written"
  done
  say "the daemons' logs are in $LOGS"
}

print_logs() {
  count=0
  for log in "$SCRATCH"/log/*Log*; do
    [ -s "$log" ] || continue
    count=$((count + 1))
    [ "$count" -le 30 ] || break
    printf '==> %s of %s <==\n' "${log##*/}" "$NAME"
    tail -c 32768 "$log" | without_tokens
  done
}

remove_scratch() {
  [ -n "$SCRATCH" ] || return 0
  # Should this be cut short, a sweep shall not tell what has been told.
  [ -z "$SUMMED_UP" ] || (: >"$SCRATCH/told") 2>/dev/null
  # A job may have made directories that it cannot write to, and what was killed just now may be writing: then the first
  # attempt fails.
  empty_scratch || {
    find "$SCRATCH" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
    empty_scratch
  } || sleep 1
  { empty_scratch && rm -rf "$SCRATCH"; } || say "could not remove all of $SCRATCH"
  [ -z "${GLIDEIN_SCRATCH_MADE-}" ] || rmdir "${SCRATCH%/*}" 2>/dev/null
}

# empty_scratch: all but what a sweep needs to know, which has to find the rest should this be cut short.
empty_scratch() {
  emptied=0
  for each in "$SCRATCH"/* "$SCRATCH"/.[!.]* "$SCRATCH"/..?*; do
    case ${each##*/} in
    state | told) continue ;;
    esac
    rm -rf "$each" 2>/dev/null || emptied=1
  done
  return "$emptied"
}

# kill_leftovers: whatever still runs from or in the scratch directory (a killed master leaves its children and jobs).
kill_leftovers() {
  [ -n "$SCRATCH" ] || return 0
  for round in 1 2 3 4; do
    left=$(leftovers)
    [ -n "$left" ] || return 0
    [ "$round" -eq 1 ] || sleep 1
    # shellcheck disable=SC2086 # a list of process ids
    kill -s KILL $left 2>/dev/null
  done
  say "processes that cannot be killed: $left"
}

# leftovers: ids of processes whose program, directory or environment is in the scratch directory. Other users' cannot be
# read, and are none of ours. (grep -z is not POSIX, yet every Linux has it; without, a job that hides might stay.) The
# kernel knows the directory by its real path, the environment perhaps by another.
leftovers() {
  real=$(cd "$SCRATCH" 2>/dev/null && pwd -P) || real=$SCRATCH
  # shellcheck disable=SC2012 # find cannot say where links lead
  {
    ls -l /proc/[0-9]*/exe /proc/[0-9]*/cwd | awk -v inside=" -> $real/" 'index($0, inside)'
    grep -lzF -e "$SCRATCH/" -e "$real/" -- /proc/[0-9]*/environ
  } 2>/dev/null | sed -n 's|^[^/]*/proc/\([0-9]*\)/.*|\1|p' | sort -u | grep -vx "$$"
}
