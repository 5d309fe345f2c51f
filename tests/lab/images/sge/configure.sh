#!/bin/sh
# What an administrator does once after the installation; it runs at the first start.
set -eu
cd /etc/gridengine-lab
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

tries=0
until qconf -sh >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 150 ] || { echo "qmaster gives no answer"; exit 1; }
  sleep 0.2
done

# Every two seconds, and at once after a submission and an end: fifteen seconds are long when a person is watching.
qconf -ssconf |
  sed -e 's/^\(schedule_interval\) .*/\1 0:0:2/' -e 's/^\(flush_[a-z]*_sec\) .*/\1 1/' \
    -e 's/^\(job_load_adjustments\) .*/\1 NONE/' >"$made/scheduler"
qconf -Msconf "$made/scheduler"

{ qconf -sc | grep -v '^#'; cat complexes; } >"$made/complexes"
qconf -Mc "$made/complexes"
qconf -Ae execution.host || qconf -Me execution.host # the execution daemon may have announced the host itself
qconf -Ap smp.pe
qconf -Aprj physics.project
qconf -Aq cpu.queue
qconf -Aq gpu.queue
qconf -as sge
