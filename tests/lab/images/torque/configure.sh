#!/bin/sh
# What an administrator does once after the installation; it runs before the first start of the server.
set -eu
PATH=/opt/torque/bin:/opt/torque/sbin:$PATH
pbs_server -t create -f
tries=0
until qmgr -c 'list server' >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 150 ] || { echo "pbs_server gives no answer"; exit 1; }
  sleep 0.2
done
# One node that claims more than it has: 32 one-core glideins fit a laptop.
qmgr <<'END'
create node torque np=32
set server scheduling = true
set server keep_completed = 30
set server mom_job_sync = true
set server scheduler_iteration = 5
set server submit_hosts = torque
create queue batch
set queue batch queue_type = execution
set queue batch resources_default.walltime = 1:00:00
set queue batch resources_default.nodes = 1
set queue batch enabled = true
set queue batch started = true
set server default_queue = batch
END
qterm -t quick
