#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A glidein: a batch job that starts an HTCondor startd on this node, which joins a pool and runs its users' jobs.
#
# It writes only below GLIDEIN_SCRATCH (a directory of its own, removed at its end) and GLIDEIN_LOG_DIR, listens on one
# unprivileged port, talks only to the pool, and runs as the user of the batch job. Settings come from the
# environment; `glidein.sh --help` lists them and the exit statuses. Needs sh, tar, gzip, sha256sum: no more.

set -u
umask 077
LC_ALL=C
export LC_ALL
PATH="${PATH:-/usr/bin:/bin}:/usr/bin:/bin:/usr/sbin:/sbin"
export PATH

case $0 in
*/*) PAYLOAD=$(cd "${0%/*}" && pwd) ;;
*) PAYLOAD=$(pwd) ;;
esac
for part in report limits settings granted image scratch unpack credential gpus node configure daemons memory summary sweep health; do
  if [ ! -r "$PAYLOAD/lib/$part.sh" ]; then
    echo "glidein: $PAYLOAD/lib/$part.sh is missing: deploy the site again (exit status 11)"
    exit 11
  fi
  # shellcheck source=/dev/null
  . "$PAYLOAD/lib/$part.sh"
done

case ${1-} in
'') ;;
-h | --help) show_help; exit 0 ;;
*) echo "glidein: $1: no such option; see glidein.sh --help"; exit 10 ;;
esac

catch_signals      # from here on every ending goes through `finish`
check_settings     # the environment: all of it, before anything is written
take_granted       # what jobs may use: as asked for, or as given
clean_environment  # of what another HTCondor has left in it
make_parents       # of the scratch directory
enter_image        # begin again inside an image, if there is one
plan_times         # when to retire, when to end
make_scratch       # a directory of our own with room for what was promised

# Each of these runs in a process of its own, for at most so many seconds: servers and drivers that they need may hang.
attempt 60 sweep || say "the sweep took too long: going on"          # what a killed glidein has left here
step 120 "looking at the node" check_node                            # is there what jobs need?
unpacking_cs=$(uptime_cs)
step 900 "bringing HTCondor" bring_condor                            # the tarball that fits: checked, unpacked, tried
unpacking_cs=$(($(uptime_cs) - unpacking_cs))
step 60 "copying the credential" copy_credential                     # 0600, in the scratch directory
step 180 "looking around and configuring" configure                  # GPUs, CVMFS, checks, one condor_config
step 150 "asking for the pool" check_pool                            # does its collector answer?

forget_gpus
tell_ready "$unpacking_cs"
start_master
watch_master       # until it ends or has to
