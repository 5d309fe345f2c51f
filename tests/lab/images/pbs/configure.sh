#!/bin/sh
# What an administrator does once after the installation; it runs at the first start.
set -eu
tries=0
until qstat -B >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 150 ] || { echo "pbs_server gives no answer"; exit 1; }
  sleep 0.2
done
# One node that claims more than it has: 32 one-core glideins fit a laptop.
qmgr <<'END'
create resource scratch type=size, flag=hn
set node pbs resources_available.ncpus = 32
set node pbs resources_available.mem = 64gb
set node pbs resources_available.scratch = 64gb
set server flatuid = True
set server scheduler_iteration = 10
END
# The scheduler counts what it is told to count.
sed -i 's/^resources: "/&scratch, /' /var/spool/pbs/sched_priv/sched_config
kill -s HUP "$(cat /var/spool/pbs/sched_priv/sched.lock)"
