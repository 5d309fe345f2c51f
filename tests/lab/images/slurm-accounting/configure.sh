#!/bin/sh
# Create accounts, QOS and users of the cluster. accounts-lab.service runs this script at the first start.
#   pilot   the account `physics`, and the account of last year, which accepts no jobs
#   member  two accounts, one of them only for the partition gpu
#   guest   no account
set -eu

tries=0
until sacctmgr -nQ show cluster >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 150 ] || { echo "slurmdbd did not answer within 30 s: journalctl -u slurmdbd"; exit 1; }
  sleep 0.2
done

make() { sacctmgr -iQ add "$@"; }
make cluster campus
make qos long set MaxJobsPerUser=4 MaxSubmitJobsPerUser=10
make qos gpu
make qos limited set MaxSubmitJobsPerUser=4 MaxJobsPerUser=2 MaxWall=12:00:00 MaxTRESPerJob=cpu=8
make qos premium set Priority=100
make account physics Organization=university Description=physics GrpTRES=cpu=200
make account physics2025 Organization=university Description="physics, ended" MaxSubmitJobs=0
make account chemistry Organization=university Description=chemistry GrpTRESMins=cpu=1000000
make account astronomy Organization=university Description=astronomy QosLevel=normal,premium
make user pilot Account=physics DefaultAccount=physics MaxJobs=20 MaxSubmitJobs=50
make user pilot Account=physics2025
make user member Account=physics DefaultAccount=physics
make user member Account=chemistry Partition=gpu
