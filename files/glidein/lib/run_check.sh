#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# Run one check as a STARTD_CRON job of the startd: run_check.sh NAME ARGUMENTS... runs NAME in the directory of this script.
# A check may print lines GLIDEIN_Resource_<name> = True and GLIDEIN_Metric_<name> = <number or "text">. Without a line for
# NAME itself, its exit status is the result: 0 is True, 75 is undefined, any other is False, whatever was printed. A check
# that exceeds its time limit is False, even if it cannot be killed.

set -u
name=$1
shift
directory=${0%/*}
# Programs of the node must not use the tarball's libraries.
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

printed=$(sed -n 's/^ *\(GLIDEIN_\(Resource\|Metric\)_[A-Za-z0-9_]*\) *= *\(.*[^ ]\) *$/\1 = \3/p' "$found/out" 2>/dev/null)
case $status in
0) result=True ;;
75) result=Undefined ;;
*) result=False ;;
esac
if [ "$status" -ne 0 ]; then
  printed=$(printf '%s\n' "$printed" | grep -v '^GLIDEIN_Resource_')
fi
printf '%s\n' "$printed" | grep -qi "^GLIDEIN_Resource_$name = " || printed="GLIDEIN_Resource_$name = $result
$printed"
printf '%s\n' "$printed" | grep .
echo "GLIDEIN_Metric_${name}_seconds = $(($(date +%s) - began))"
# PyGlidein's names.
printf '%s\n' "$printed" | sed -n 's/^GLIDEIN_Resource_\([A-Za-z0-9_]*\) = /\1 = /p' | while read -r resource rest; do
  echo "PYGLIDEIN_RESOURCE_$(printf '%s' "$resource" | tr '[:lower:]' '[:upper:]') $rest"
done
echo "-"
