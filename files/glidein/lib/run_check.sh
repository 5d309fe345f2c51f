#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# Run one check as a STARTD_CRON job of the startd: run_check.sh NAME ARGUMENTS... runs ../checks/NAME.
# A check may print lines GLIDEIN_Resource_<name> = True and GLIDEIN_Metric_<name> = <number or "text">. Without a line for
# NAME itself, its exit status is the result: 0 is True, 75 is undefined, any other is False, whatever was printed. A check
# that exceeds its time limit is False.

set -u
name=$1
shift
# Programs of the node must not use the tarball's libraries.
unset LD_LIBRARY_PATH CONDOR_CONFIG
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
began=$(date +%s)
# coreutils' timeout kills the check with its child processes, busybox's only the check. Without it, there is no limit.
limit="timeout -s KILL ${GLIDEIN_CHECK_TIMEOUT_S:-60}"
command -v timeout >/dev/null 2>&1 || limit=
# shellcheck disable=SC2086 # a command
$limit "${0%/*}/../checks/$name" "$@" >"$out" 2>/dev/null </dev/null
status=$?

printed=$(sed -n 's/^ *\(GLIDEIN_\(Resource\|Metric\)_[A-Za-z0-9_]*\) *= *\(.*[^ ]\) *$/\1 = \3/p' "$out")
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
