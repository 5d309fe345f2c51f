#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# A glidein: a batch job that starts an HTCondor startd on this node. The startd joins a pool and runs the pool's jobs.
#
# The glidein writes only to a scratch directory in GLIDEIN_SCRATCH, which it removes at its end, and to GLIDEIN_LOG_DIR. It
# listens on one unprivileged port. It connects to the pool, and to the servers of the tarball, the image and the logs if the
# settings name them. lib/settings.sh has the settings, docs/glidein.md the exit statuses. It needs sh, tar, gzip and sha256sum.

set -u
umask 077
# Unset variables that change the output of the programs used here.
unset CDPATH BLOCK_SIZE LS_BLOCK_SIZE GREP_OPTIONS GZIP POSIXLY_CORRECT QUOTING_STYLE TAR_OPTIONS TIME_STYLE WGETRC
LC_ALL=C
export LC_ALL
PATH="${PATH:-/usr/bin:/bin}:/usr/bin:/bin:/usr/sbin:/sbin"
export PATH

case $0 in
*/*) PAYLOAD=$(cd "${0%/*}" && pwd) ;;
*) PAYLOAD=$(pwd) ;;
esac
for part in run limits settings machine resources scratch node install configure daemons logs summary; do
  if [ ! -r "$PAYLOAD/lib/$part.sh" ]; then
    echo "glidein: $PAYLOAD/lib/$part.sh is missing: deploy the site again (exit status 11)"
    exit 11
  fi
  # shellcheck source=/dev/null
  . "$PAYLOAD/lib/$part.sh"
done

case ${1-} in
'') ;;
-h | --help) echo "glidein: see https://github.com/glidein/ops/tree/main/files/glidein, and lib/settings.sh"; exit 0 ;;
*) echo "glidein: $1: no such option; see glidein.sh --help"; exit 10 ;;
esac

catch_signals        # after this, every ending runs `finish`
check_settings       # all of them, before anything is written
apply_granted        # the jobs' resources: requested or granted
clean_environment    # remove settings of another HTCondor
make_scratch_parents
enter_image          # start again inside an image if GLIDEIN_IMAGE is set
set_times            # when to retire and when to end
make_scratch

# Each step runs in a process of its own with a time limit (seconds), because servers and drivers may not respond.
try_step 60 remove_stale || log "removing stale scratch directories took more than 60 s: continuing without it"
run_step 120 "checking the node" check_node
read -r unpacked_from _ </proc/uptime
run_step 900 "installing HTCondor" install_condor
unpacked_s=$(seconds_since "$unpacked_from")
run_step 60 "copying the credential" copy_credential
run_step 180 "configuring HTCondor" configure

unset_gpu_variables
log "ready to start HTCondor after $(seconds_since "$STARTED_UPTIME") s, $unpacked_s s of them to unpack it"
start_master
watch_master         # until the glidein ends
