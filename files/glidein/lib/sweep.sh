# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What a glidein that was killed with its guard, or died with its node, has left behind is swept by the next one of the same
# user there: its processes, its logs and its scratch directory. Whether it is dead is told by the processes that own it.

QUIET_S=3600    # without a new state for so long, the glidein of another boot is dead
FOREIGN_S=604800 # another site's dead glidein is left for so long to a later one of that site, which tells of it

# owner_lines: who owns a scratch directory. A process is known by its id and its start (clock ticks since boot), in this
# boot of this host, and in this space of process ids: a container sees other ids.
owner_lines() {
  cat <<OWNER
host=$(uname -n)
boot=$(boot_id)
space=$(space_id)
pid=$$
pid_start=$(start_of "$$")
guard=${GUARD_PID:-0}
guard_start=$(start_of "${GUARD_PID:-0}")
master=${MASTER_PID:-0}
master_start=$(start_of "${MASTER_PID:-0}")
OWNER
}

boot_id() {
  cat /proc/sys/kernel/random/boot_id 2>/dev/null
}

space_id() {
  # shellcheck disable=SC2012 # find cannot say where links lead
  ls -l /proc/self/ns/pid 2>/dev/null | sed -n 's/.* -> //p'
}

# start_of PID: 0 when there is no such process, or nothing but its remains. (Its name may have blanks and brackets: what
# counts is behind the last.)
start_of() {
  ticks=$(sed -n -e 's/.*) //' -e '/^[ZX]/!p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20)
  echo "${ticks:-0}"
}

# owner_is_dead: of the state that was loaded. When in doubt it is alive: another host on a shared file system, another
# container. Of another boot it may be another host of the same name: one that lives renews its state every minute.
owner_is_dead() {
  own_boot=$(boot_id)
  [ -n "$own_boot" ] && [ -n "$OWNER_BOOT" ] && [ "$OWNER_HOST" = "$(uname -n)" ] || return 1
  if [ "$OWNER_BOOT" != "$own_boot" ]; then
    [ "$(seen_ago)" -gt "$QUIET_S" ]
    return
  fi
  [ "$OWNER_SPACE" = "$(space_id)" ] || return 1
  [ "$(start_of "$OWNER_PID")" != "$OWNER_START" ] || return 1
  # While its guard lives, that is what cleans up.
  [ "$OWNER_GUARD" -eq 0 ] || [ "$(start_of "$OWNER_GUARD")" != "$OWNER_GUARD_START" ]
}

# seen_ago: seconds since the state was written.
seen_ago() {
  echo $(($(date +%s) - SEEN_AT))
}

# sweep: looks at each directory of our user beside our own that a glidein on this host has made. On a file system that
# hosts share there may be thousands of others: none of them costs a process.
sweep() {
  this_host="host=$(uname -n)"
  find "$GLIDEIN_SCRATCH"/glidein.???????? -prune -type d -user "$(id -u)" 2>/dev/null | while IFS= read -r found; do
    if [ "$found" = "$SCRATCH" ] || [ ! -f "$found/state" ] || [ -L "$found/state" ]; then continue; fi
    { IFS= read -r line <"$found/state"; } 2>/dev/null || continue
    [ "$line" = "$this_host" ] || continue
    # In a process of its own, because what is known of this glidein makes room for what is known of that one.
    (sweep_one "$found")
  done
  remove_empty_directories
}

# remove_empty_directories: a kill in the middle of remove_scratch can leave a directory without its state. Directories of a
# day ago are not in use; rmdir leaves those that are not empty.
remove_empty_directories() {
  find "$GLIDEIN_SCRATCH"/glidein.???????? -prune -type d -user "$(id -u)" -mtime +0 -exec rmdir {} + 2>/dev/null || :
}

sweep_one() {
  own_site=$GLIDEIN_DEPLOYMENT/$GLIDEIN_SITE
  own_log_dir=$GLIDEIN_LOG_DIR
  OWNER_HOST='' OWNER_BOOT='' OWNER_SPACE='' OWNER_PID=0 OWNER_START=0 OWNER_GUARD=0 OWNER_GUARD_START=0
  OWNER_MASTER=0 OWNER_MASTER_START=0 SEEN_AT=0
  load_state "$1/state" && owner_is_dead || return 0
  [ "$GLIDEIN_DEPLOYMENT/$GLIDEIN_SITE" = "$own_site" ] || [ "$(seen_ago)" -gt "$FOREIGN_S" ] || return 0
  SCRATCH=$1
  say "$SCRATCH is left of $NAME, which was killed: sweeping"
  # Daemons that still run take leave of the pool if they are told to stop.
  if [ "$OWNER_BOOT" = "$(boot_id)" ] && [ "$OWNER_MASTER" -gt 1 ] &&
    [ "$(start_of "$OWNER_MASTER")" = "$OWNER_MASTER_START" ]; then
    kill -s QUIT "$OWNER_MASTER" 2>/dev/null && sleep 3
  fi
  kill_leftovers
  # Another site's log is none of our business; and one that was killed while it cleaned up has told its end itself.
  if [ "$GLIDEIN_DEPLOYMENT/$GLIDEIN_SITE" = "$own_site" ] && [ ! -e "$SCRATCH/told" ]; then
    GLIDEIN_LOG_DIR=$own_log_dir
    # shellcheck disable=SC2034 # for summary.sh
    SUMMED_UP=
    count_jobs
    [ "$SEEN_AT" -ge "$LAST_JOB_AT" ] || SEEN_AT=$LAST_JOB_AT # the daemons went on for a while
    save_logs
    sum_up "" "$SEEN_AT" "it was killed, or its node died; swept by a later glidein"
  fi
  remove_scratch
}
