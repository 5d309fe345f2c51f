# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The scratch directory: the only place on the node where a glidein and its jobs write.
#   condor/      the content of the tarball       credential/  token or pool password (0600)
#   log/         the logs of the daemons          execute/     one directory per running job
#   jobs/        what the jobs have used          checks/      those that the startd runs
#   files/       the files of the operator        image/       the cache of the image in which the glidein runs
#   state        for the guard and later glideins    condor_config, lib/ lock/ reserve/ spool/ tmp/
#
# If its file system is full, the daemons cannot write their logs and end, and the jobs would start again and again. watch_disk
# removes the reserve, which makes room for the logs, and holds the jobs that use more disk than their slot has. Their ids are
# added to condor_config. (HTCondor's policy Hold_If_Disk_Exceeded measures too late.)

unset SCRATCH NAME # a site may export variables of these names
SCRATCH=
OVERHEAD_MB=60 # for HTCondor, its logs and the reserve, in addition to the disk of the jobs
SCRATCH_S=60   # time limit for the file system to make a directory

# make_scratch_parents: make GLIDEIN_SCRATCH and its parents, for this user only. If GLIDEIN_SCRATCH was made here, it is
# removed at the end if it is empty. If it cannot be made, make_scratch ends the glidein.
make_scratch_parents() {
  run_limited "$SCRATCH_S" make_missing "$GLIDEIN_SCRATCH" 2>&1
  [ $? -ne 3 ] || export GLIDEIN_SCRATCH_MADE=yes
}

# make_missing DIRECTORY: make a directory; return 3 if it was missing.
make_missing() {
  [ ! -d "$1" ] || return 0
  mkdir -p "$1" && return 3
}

# avoid_brackets: replace a GLIDEIN_SCRATCH with brackets by the nearest directory above it without brackets. PBS and Torque
# name the TMPDIR of an array task after its id (/var/tmp/33[1].server). In a job's shell, $_CONDOR_SCRATCH_DIR/* would match
# other files there.
avoid_brackets() {
  case ${GLIDEIN_SCRATCH-} in
  /*[][]*) ;;
  *) return 0 ;;
  esac
  above=${GLIDEIN_SCRATCH%%[][]*}
  above=${above%/*}
  [ ! -d "$above/" ] || [ -w "$above/" ] || bad_setting "GLIDEIN_SCRATCH='$GLIDEIN_SCRATCH' has brackets, and" \
    "${above:-/} is not writable: set glidein_scratch or the entry's scratch to a writable directory without brackets"
  log "GLIDEIN_SCRATCH=$GLIDEIN_SCRATCH has brackets: using $above"
  GLIDEIN_SCRATCH=$above
}

# make_scratch: make the scratch directory. Its name is random; mkdir fails if it exists.
make_scratch() {
  cd / || end_with 13 "the directory / cannot be entered"
  read -r random </proc/sys/kernel/random/uuid || end_with 13 "this node has no /proc/sys/kernel/random/uuid"
  wanted=$GLIDEIN_SCRATCH/glidein.${random%%-*}
  run_limited "$SCRATCH_S" mkdir "$wanted" 2>&1
  case $? in
  0) SCRATCH=$wanted ;;
  124) end_with 34 "making a directory in GLIDEIN_SCRATCH=$GLIDEIN_SCRATCH took longer than $SCRATCH_S s" ;;
  *) end_with 13 "no scratch directory can be made in GLIDEIN_SCRATCH=$GLIDEIN_SCRATCH: the error of mkdir is above" ;;
  esac
  NAME=glidein_$(printf '%s' "$GLIDEIN_BATCH_ID" | tr -c 'A-Za-z0-9_.-' '_')_${SCRATCH##*.}
  log "scratch directory $SCRATCH, name $NAME"
  run_step "$SCRATCH_S" "filling the scratch directory" fill_scratch
  [ -z "${GLIDEIN_IMAGE_CACHE-}" ] || unset GLIDEIN_IMAGE_CACHE APPTAINER_CACHEDIR SINGULARITY_CACHEDIR
  GLIDEIN_DISK_MB=$(cat "$SCRATCH/disk_mb")
}

fill_scratch() {
  for directory in credential log execute jobs lock spool tmp; do
    mkdir "$SCRATCH/$directory" || end_with 13 "the directory $SCRATCH/$directory cannot be made"
  done
  # The guard and later glideins remove the image's cache with this directory. (The image stays mounted.)
  [ ! -d "${GLIDEIN_IMAGE_CACHE-}" ] || mv "$GLIDEIN_IMAGE_CACHE" "$SCRATCH/image"
  check_room
  write_state || end_with 13 "$SCRATCH/state cannot be written"
  make_reserve
}

check_room() {
  if [ -d "${PAYLOAD-}/files" ]; then
    files_kb=$(du -sk "$PAYLOAD/files" 2>/dev/null | cut -f 1)
    OVERHEAD_MB=$((OVERHEAD_MB + (${files_kb:-0} + 1023) / 1024))
  fi
  offered=$GLIDEIN_DISK_MB
  needed=$((GLIDEIN_MIN_DISK_MB + OVERHEAD_MB))
  free=$(free_mb "$SCRATCH")
  case $free in
  '' | *[!0-9]*) log "df does not show the free room of $SCRATCH: it is not checked" ;;
  *)
    [ "$free" -ge "$needed" ] ||
      end_with 13 "$GLIDEIN_SCRATCH has $free MB free; GLIDEIN_MIN_DISK_MB=$GLIDEIN_MIN_DISK_MB and HTCondor itself need" \
        "$needed"
    if [ "$free" -lt $((offered + OVERHEAD_MB)) ]; then
      offered=$((free - OVERHEAD_MB))
      log "$GLIDEIN_SCRATCH has $free MB free: jobs get $offered MB instead of GLIDEIN_DISK_MB=$GLIDEIN_DISK_MB"
    fi
    ;;
  esac
  echo "$offered" >"$SCRATCH/disk_mb" || end_with 13 "$SCRATCH/disk_mb cannot be written"
}

# remove_scratch: remove the scratch directory, the state file last.
remove_scratch() {
  [ -z "${GLIDEIN_IMAGE_CACHE-}" ] || rm -rf "$GLIDEIN_IMAGE_CACHE" # if the glidein did not start in the image
  [ -n "$SCRATCH" ] || return 0
  # The first attempt may fail: a job may have made directories without write permission, and killed processes may still write.
  empty_scratch || {
    find "$SCRATCH" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
    empty_scratch
  } || sleep 1
  { empty_scratch && rm -rf "$SCRATCH"; } || log "could not remove all of $SCRATCH${REMAINS:+: $REMAINS}"
  [ -z "${GLIDEIN_SCRATCH_MADE-}" ] || rmdir "${SCRATCH%/*}" 2>/dev/null || :
}

# empty_scratch: remove all but the state. If the removal is interrupted, a later glidein finds the rest by it. Store the first
# error of rm in REMAINS.
empty_scratch() {
  emptied=0
  REMAINS=
  for each in "$SCRATCH"/* "$SCRATCH"/.[!.]* "$SCRATCH"/..?*; do
    [ "$each" != "$SCRATCH/state" ] || continue
    errors=$(rm -rf "$each" 2>&1) || {
      emptied=1
      : "${REMAINS:=$(printf '%s\n' "$errors" | head -n 1)}"
    }
  done
  return "$emptied"
}

# kill_leftovers: kill the processes that run from or in the scratch directory. A killed master leaves its children and jobs.
# Return 255 if the processes cannot be searched.
kill_leftovers() {
  for round in 1 2 3 4; do
    left=$(leftovers)
    [ "$left" != end ] || return 0
    [ "$round" -eq 1 ] || sleep 1
    # shellcheck disable=SC2086 # a list of process ids
    kill -s KILL ${left%end} 2>/dev/null
  done
  case $left in
  *end) log "processes that cannot be killed: ${left%end}" ;;
  *) return 255 ;;
  esac
}

# leftovers: print the ids of this user's processes whose program, working directory or environment is in the scratch
# directory, and `end` if all processes were searched. The kernel shows the real path of the directory; the environment may
# have another one. (grep -z is not POSIX; where it is missing, a job that has left the directory is not found.)
leftovers() {
  real=$(cd "$SCRATCH" 2>/dev/null && pwd -P) || real=$SCRATCH
  # shellcheck disable=SC2012 # find does not print the targets of links
  {
    ls -l /proc/[0-9]*/exe /proc/[0-9]*/cwd | awk -v inside=" -> $real/" 'index($0, inside); END { exit NR == 0 }' || exit
    grep -lzF -e "$SCRATCH/" -e "$real/" -- /proc/[0-9]*/environ
    echo end
  } 2>/dev/null | sed -n -e 's|^[^/]*/proc/\([0-9]*\)/.*|\1|p' -e '/^end$/p' | sort -u | grep -vx "$$"
}

# --- Stale glideins
#
# A glidein is stale if it was killed together with its guard, or if its node was restarted. Its state file shows whether it
# still runs. A later glidein of this user on this node removes what it has left.

STALE_S=3600 # a glidein of an earlier boot is stale if its state file is older than this
# The variables in the state file, and the kinds of their values (settings.sh). The owner comes first.
STATE=" OWNER_HOST:text OWNER_BOOT:text OWNER_SPACE:text OWNER_PID:0 OWNER_START:0 OWNER_GUARD:0 OWNER_GUARD_START:0 \
OWNER_MASTER:0 OWNER_MASTER_START:0 SEEN_AT:0 GLIDEIN_DEPLOYMENT:name GLIDEIN_SITE:name GLIDEIN_ENTRY:name \
GLIDEIN_SHAPE:name GLIDEIN_BATCH_ID:text NAME:name GLIDEIN_LOG_DIR:log_dir GLIDEIN_CPUS:0 STARTED_AT:0 REGISTERED_AT:0 \
COUNTED_BYTES:0 JOBS:0 JOBS_FAILED:0 BUSY_CORE_S:0 "

# write_state: store the state. If the owner cannot be determined, or on a full disk, the previous state stays.
write_state() {
  state=$(state_lines) && [ -n "$state" ] || return 1
  { cat >"$SCRATCH/.state" && mv -f "$SCRATCH/.state" "$SCRATCH/state"; } 2>/dev/null <<LINES
$state
LINES
}

state_lines() {
  identify_owner || return
  for each in $STATE; do
    eval "printf '%s=%s\n' '${each%:*}' \"\$${each%:*}\""
  done
}

# identify_owner: set the variables that identify the owner of a scratch directory. A process is identified by its id and its
# start time (clock ticks since boot), the boot of this host, and the namespace of process ids, because a container has its own.
# shellcheck disable=SC2034
identify_owner() {
  OWNER_HOST=$(uname -n) && SEEN_AT=$(date +%s) && OWNER_PID=$$ && OWNER_START=$(start_of "$$") || return
  OWNER_GUARD=${GUARD_PID:-0} OWNER_MASTER=${MASTER_PID:-0} OWNER_BOOT=$(boot_id) OWNER_SPACE=$(space_id)
  OWNER_GUARD_START=$(start_of "$OWNER_GUARD") && OWNER_MASTER_START=$(start_of "$OWNER_MASTER")
}

# read_state FILE: read the state file of another glidein into the variables of this process. Users' jobs can write to the
# file, so it is not executed. Return false if a value is invalid or missing.
read_state() {
  missing=$STATE
  while IFS= read -r line; do
    key=${line%%=*}
    value=${line#*=}
    case $key in *[!A-Z_]*) return 1 ;; esac
    after=${missing#* "$key":}
    [ "$after" != "$missing" ] || return 1
    [ "$key$value" = REGISTERED_AT ] || is_valid "${after%% *}" "$value" || return 1
    eval "$key=\$value"
    missing="${missing%% "$key":*} ${after#* }"
  done <"$1"
  case $missing in *:*) return 1 ;; esac
}

boot_id() {
  cat /proc/sys/kernel/random/boot_id 2>/dev/null
}

space_id() {
  # shellcheck disable=SC2012 # find does not print the targets of links
  ls -l /proc/self/ns/pid 2>/dev/null | sed -n 's/.* -> //p'
}

# is_stale: true if the owner of the state that was read does not run any more. An owner on another host of a shared file
# system or in another container counts as running. An owner of another boot may run on another host of the same name; a
# glidein writes its state every minute.
is_stale() {
  own_boot=$(boot_id)
  [ -n "$own_boot" ] && [ -n "$OWNER_BOOT" ] && [ "$OWNER_HOST" = "$(uname -n)" ] || return 1
  if [ "$OWNER_BOOT" != "$own_boot" ]; then
    [ $(($(date +%s) - SEEN_AT)) -gt "$STALE_S" ]
    return
  fi
  [ "$OWNER_SPACE" = "$(space_id)" ] || return 1
  does_not_run "$OWNER_PID" "$OWNER_START" || return 1
  # If its guard runs, the guard cleans up.
  [ "$OWNER_GUARD" -eq 0 ] || does_not_run "$OWNER_GUARD" "$OWNER_GUARD_START"
}

# does_not_run PID START: true if no process has this id and this start time, false if that is unknown.
does_not_run() {
  start=$(start_of "$1") && [ -n "$start" ] && [ "$start" != "$2" ]
}

# remove_stale: check each scratch directory of this user in GLIDEIN_SCRATCH that a glidein on this host has made. A shared
# file system may have thousands of other directories. No process is started for those.
remove_stale() {
  this_host="OWNER_HOST=$(uname -n)"
  find "$GLIDEIN_SCRATCH"/glidein.???????? -prune -type d -user "$(id -u)" 2>/dev/null | while IFS= read -r found; do
    if [ "$found" = "$SCRATCH" ] || [ ! -f "$found/state" ] || [ -L "$found/state" ]; then continue; fi
    { IFS= read -r line <"$found/state"; } 2>/dev/null || continue
    [ "$line" = "$this_host" ] || continue
    # In a subshell, because the state of that glidein replaces the variables of this one.
    (clean_up_stale "$found")
  done
  remove_old_directories
}

# remove_old_directories: if remove_scratch is killed, it may leave an empty directory without a state file. If glidein.sh is
# killed while it downloads an image, the image's cache stays. Directories that are older than a day are not in use. rmdir
# keeps those that are not empty.
remove_old_directories() {
  {
    find "$GLIDEIN_SCRATCH"/glidein.???????? -prune -type d -user "$(id -u)" -mtime +0 -exec rmdir {} +
    find "$GLIDEIN_SCRATCH"/glidein-image.???????? -prune -type d -user "$(id -u)" -mtime +0 -exec rm -rf {} +
  } 2>/dev/null || :
}

# clean_up_stale DIRECTORY: remove what a stale glidein has left. It gets no summary.
clean_up_stale() {
  read_state "$1/state" && is_stale || return 0
  SCRATCH=$1
  log "$SCRATCH belongs to $NAME, which was killed, or whose node failed: removing it"
  # Daemons that receive QUIT remove their ads from the collector.
  if [ "$OWNER_BOOT" = "$(boot_id)" ] && [ "$OWNER_MASTER" -gt 1 ] &&
    [ "$(start_of "$OWNER_MASTER")" = "$OWNER_MASTER_START" ]; then
    kill -s QUIT "$OWNER_MASTER" 2>/dev/null && sleep 3
  fi
  leave_node "" ""
}

# --- A full disk

RESERVE_MB=2    # size of the reserve for the daemons' logs on a full disk
RESERVE_FILES=20 # number of its files, which reserve inodes
DISK_FULL_MB=2  # the disk is full if it has less than this free
DISK_FULL_S=120 # the glidein ends if the disk is full for so long; a job that is held may need most of it to vacate
MEASURE_S=20    # time limit to measure a file system or a directory; a file server or quota server may not respond
DISK_FULL_AT=   # since when the disk is full
DISK_JOBS=' '   # the jobs that were held for that

# is_job_id TEXT: true for a GlobalJobId, a slash, and the number of times that the job was started. The text becomes part of
# condor_config.
is_job_id() {
  case $1 in
  *[!A-Za-z0-9_.#@:/-]* | /* | */) return 1 ;;
  */*) ;;
  *) return 1 ;;
  esac
}

# make_reserve: allocate the room and the files that watch_disk frees. If it cannot be made, the glidein runs without it.
# Return 1 if there are not twice as many files: those of the reserve alone are no room for jobs.
make_reserve() {
  number=0
  mkdir -p "$SCRATCH/reserve" && dd if=/dev/zero of="$SCRATCH/reserve/room" bs=1048576 count="$RESERVE_MB" &&
    while [ "$number" -lt "$RESERVE_FILES" ]; do
      number=$((number + 1))
      true >"$SCRATCH/reserve/$number" && true >"$SCRATCH/reserve/spare.$number"
    done
  [ -e "$SCRATCH/reserve/spare.$RESERVE_FILES" ] || {
    rm -rf "$SCRATCH/reserve"
    return 1
  }
  rm -f "$SCRATCH"/reserve/spare.*
} 2>/dev/null

# measure_disk: exit with 100 + the MiB that are free, at most 10 of them; with 111 if no file can be made, for want of inodes
# for example; with 99 if df does not show it. (The result is an exit status, because a full disk cannot store a file.)
measure_disk() {
  { true >"$SCRATCH/tmp/probe"; } 2>/dev/null || exit 111
  rm -f "$SCRATCH/tmp/probe"
  free=$(free_mb "$SCRATCH")
  [ -n "$free" ] || exit 99
  [ "$free" -le 10 ] || free=10
  exit $((100 + free))
}

# watch_disk: if the disk is full, hold the jobs that use more of it than their slot has. End the glidein if the disk stays
# full: other users or jobs within their limits have filled it.
watch_disk() {
  run_limited "$MEASURE_S" measure_disk
  free=$(($? - 100))
  room="$free MB free"
  case $free in
  11) free=0 room="no file can be made" ;;
  10 | ?) ;;
  *) return 0 ;;
  esac
  read_now
  if [ -n "$DISK_FULL_AT" ] && [ "$free" -ge $((DISK_FULL_MB + 2 * RESERVE_MB)) ]; then
    room="few files can be made"
    ! run_limited "$MEASURE_S" make_reserve || {
      log "$GLIDEIN_SCRATCH has room again"
      DISK_FULL_AT=
    }
  elif [ -z "$DISK_FULL_AT" ] && [ "$free" -lt "$DISK_FULL_MB" ]; then
    log "$GLIDEIN_SCRATCH is full, $room: jobs that use more disk than their slot has are held"
    rm -rf "$SCRATCH/reserve"
    DISK_FULL_AT=$NOW
  fi
  [ -n "$DISK_FULL_AT" ] || return 0
  hold_large_jobs
  [ $((NOW - DISK_FULL_AT)) -ge "$DISK_FULL_S" ] || return 0
  stop_with 13 "$GLIDEIN_SCRATCH is full: $room after $((NOW - DISK_FULL_AT)) s"
}

# hold_large_jobs: hold the jobs whose directory is larger than the disk of their slot.
hold_large_jobs() {
  for directory in "$SCRATCH"/execute/dir_*; do
    slot_kb=$(sed -n 's/^Disk = \([0-9][0-9]*\).*/\1/p' "$directory/.machine.ad" 2>/dev/null)
    job=$(awk '$1 == "GlobalJobId" { id = $3 } $1 == "NumShadowStarts" { starts = $3 } END { print id "/" starts }' \
      "$directory/.job.ad" 2>/dev/null | tr -d '"')
    case $DISK_JOBS in *" $job "*) continue ;; esac
    if [ -z "$slot_kb" ] || ! is_job_id "$job"; then continue; fi
    run_limited "$MEASURE_S" is_larger "$directory" "$slot_kb" || continue
    # The startd reads the list again and acts within five seconds. On a full disk, the next round tries again.
    # shellcheck disable=SC2016 # HTCondor's macro
    { printf 'GLIDEIN_DISK_JOBS = $(GLIDEIN_DISK_JOBS),%s\n' "$job" >>"$SCRATCH/condor_config"; } 2>/dev/null || return 0
    kill -s HUP "$MASTER_PID" 2>/dev/null # the master passes it on
    DISK_JOBS="$DISK_JOBS$job "
    log "job $job uses more disk than its slot has, $((slot_kb / 1024)) MB: the job is held"
  done
}

# is_larger DIRECTORY KIB: true if a directory uses more disk.
is_larger() {
  used_kb=$(du -sk "$1" 2>/dev/null | cut -f 1)
  [ "${used_kb:-0}" -gt "$2" ]
}
