#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# One check of this node, as a STARTD_CRON job of the startd: run_check.sh NAME ARGUMENTS... runs NAME of its own directory.
# A check may print lines GLIDEIN_Resource_<name> = True and GLIDEIN_Metric_<name> = <number or "text">; HTCondor takes only
# what is ClassAd. Without any of its own about NAME, its exit status tells: 0 is True, 75 that it cannot be told, any other
# False, whatever was printed. One that takes too long is False, also when it cannot be killed.

set -u
name=$1
shift
directory=${0%/*}
# The node's own programs shall not find the tarball's libraries.
unset LD_LIBRARY_PATH CONDOR_CONFIG
found=$(mktemp -d) || exit 1
trap 'rm -rf "$found"' EXIT
began=$(date +%s)

session=
if command -v setsid >/dev/null 2>&1; then session=setsid; fi
(
  $session "$directory/$name" "$@" >"$found/out" 2>"$found/err" </dev/null &
  echo "$!" >"$found/pid"
  wait "$!"
  echo "$?" >"$found/new"
  mv "$found/new" "$found/status"
) >/dev/null 2>&1 &

limit=${GLIDEIN_CHECK_TIMEOUT_S:-60}
waited=0
while [ ! -s "$found/status" ] && [ "$waited" -lt "$limit" ]; do
  sleep 1
  waited=$((waited + 1))
done
if [ -s "$found/status" ]; then
  read -r status <"$found/status"
else
  read -r process <"$found/pid"
  kill -s KILL -- "-$process" 2>/dev/null || kill -s KILL "$process" 2>/dev/null
  status=124
fi

said=$(sed -n 's/^ *\(GLIDEIN_\(Resource\|Metric\)_[A-Za-z0-9_]*\) *= *\(.*[^ ]\) *$/\1 = \3/p' "$found/out" 2>/dev/null)
case $status in
0) result=True ;;
75) result=Undefined ;;
*) result=False ;;
esac
if [ "$status" -ne 0 ]; then
  said=$(printf '%s\n' "$said" | grep -v '^GLIDEIN_Resource_')
fi
printf '%s\n' "$said" | grep -qi "^GLIDEIN_Resource_$name = " || said="GLIDEIN_Resource_$name = $result
$said"
printf '%s\n' "$said" | grep .
echo "GLIDEIN_Metric_${name}_seconds = $(($(date +%s) - began))"
# PyGlidein's names, which jobs may ask for.
printf '%s\n' "$said" | sed -n 's/^GLIDEIN_Resource_\([A-Za-z0-9_]*\) = /\1 = /p' | while read -r resource rest; do
  echo "PYGLIDEIN_RESOURCE_$(printf '%s' "$resource" | tr '[:lower:]' '[:upper:]') $rest"
done
echo "-"
