# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The state file of a glidein, for its guard and for later glideins on this node, which remove what stale glideins of this user
# have left. A glidein is stale if it was killed together with its guard, or if its node was restarted. The processes in its
# state file show whether it still runs.

STALE_S=3600               # a glidein of an earlier boot is stale if its state file is older than this
OTHER_SITE_STALE_S=604800  # the same for a glidein of another site; until then a glidein of that site may summarize it
# The variables in the file, and the kinds of their values (settings.sh). The owner comes first.
STATE=" OWNER_HOST:text OWNER_BOOT:text OWNER_SPACE:text OWNER_PID:0 OWNER_START:0 OWNER_GUARD:0 OWNER_GUARD_START:0 \
OWNER_MASTER:0 OWNER_MASTER_START:0 SEEN_AT:0 GLIDEIN_DEPLOYMENT:name GLIDEIN_SITE:name GLIDEIN_ENTRY:name \
GLIDEIN_SHAPE:name GLIDEIN_BATCH_ID:text NAME:name GLIDEIN_LOG_DIR:log_dir GLIDEIN_CPUS:0 STARTED_AT:0 REGISTERED_AT:0 \
COUNTED_BYTES:0 JOBS:0 JOBS_FAILED:0 BUSY_CORE_S:0 "

# write_state: store the state. If the owner cannot be determined, or on a full disk, the previous state stays.
write_state() {
  [ -n "$SCRATCH" ] || return 0
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
    [ "$(state_age)" -gt "$STALE_S" ]
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

# state_age: print the seconds since the state was written.
state_age() {
  echo $(($(date +%s) - SEEN_AT))
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

clean_up_stale() {
  own_site=$GLIDEIN_DEPLOYMENT/$GLIDEIN_SITE
  own_log_dir=$GLIDEIN_LOG_DIR
  read_state "$1/state" && is_stale || return 0
  [ "$GLIDEIN_DEPLOYMENT/$GLIDEIN_SITE" = "$own_site" ] || [ "$(state_age)" -gt "$OTHER_SITE_STALE_S" ] || return 0
  SCRATCH=$1
  log "$SCRATCH belongs to $NAME, which was killed: removing it"
  # Daemons that receive QUIT remove their ads from the collector.
  if [ "$OWNER_BOOT" = "$(boot_id)" ] && [ "$OWNER_MASTER" -gt 1 ] &&
    [ "$(start_of "$OWNER_MASTER")" = "$OWNER_MASTER_START" ]; then
    kill -s QUIT "$OWNER_MASTER" 2>/dev/null && sleep 3
  fi
  kill_leftovers
  # The log of another site is not read for this site. A glidein that was killed while it cleaned up has written its summary.
  if [ "$GLIDEIN_DEPLOYMENT/$GLIDEIN_SITE" = "$own_site" ] && [ ! -e "$SCRATCH/summary_written" ]; then
    GLIDEIN_LOG_DIR=$own_log_dir
    # shellcheck disable=SC2034 # for summary.sh
    SUMMARY_WRITTEN=
    count_jobs
    [ "$SEEN_AT" -ge "$LAST_JOB_AT" ] || SEEN_AT=$LAST_JOB_AT # its daemons ran for longer than its script
    save_logs
    write_summary "" "$SEEN_AT" "it was killed, or its node failed; cleaned up by a later glidein"
  fi
  remove_scratch
}
