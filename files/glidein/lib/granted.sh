# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# What jobs may use here. Most batch systems give what was asked for. An outer HTCondor may give more (it rounds up) or a
# machine of fixed size, and says so in the machine ad; what is offered to jobs is that, and never more.

SANDBOX_MB=100 # of the disk that was given: payload, tarball unpacked, logs. It is asked for on top of the jobs' disk

# take_granted: with GLIDEIN_GRANTED=machine_ad, replaces what was asked for by what the ad says, where that makes sense.
# shellcheck disable=SC2034 # the settings are read in other files
take_granted() {
  [ "$GLIDEIN_GRANTED" = machine_ad ] || return 0
  MACHINE_AD=${_CONDOR_MACHINE_AD-}
  if [ ! -r "$MACHINE_AD" ]; then
    say "there is no machine ad to read (_CONDOR_MACHINE_AD='$MACHINE_AD'): going by what was asked for"
    return 0
  fi
  granted Cpus 1 10000 && GLIDEIN_CPUS=$value
  granted Memory 1 100000000 && GLIDEIN_MEMORY_MB=$value
  # Disk is in KiB.
  granted Disk $(((SANDBOX_MB + 1) * 1024)) 100000000000000 && GLIDEIN_DISK_MB=$((value / 1024 - SANDBOX_MB))
  granted GPUs 0 1000 && GLIDEIN_GPUS=$value
  return 0
}

# granted ATTRIBUTE LEAST MOST: true if the ad has it once, as a number in these bounds; its whole part is in `value`.
granted() {
  value=$(sed -n 's/^'"$1"' = //p' "$MACHINE_AD" 2>/dev/null)
  case $value in
  '')
    return 1
    ;;
  *.*)
    case ${value#*.} in
    *[!0-9]*) value=nonsense ;;
    *) value=${value%%.*} ;;
    esac
    ;;
  esac
  case $value in
  '' | *[!0-9]* | 0?* | ????????????????*) ;;
  *) [ "$value" -lt "$2" ] || [ "$value" -gt "$3" ] || return 0 ;;
  esac
  say "the machine ad's $1 makes no sense: going by what was asked for"
  return 1
}
