# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The tarball: whole, unpacked, each file as its list says, and able to run here. Each failure has a status of its own.

verify_tarball() {
  tarball=$GLIDEIN_HOME/glidein.tar.gz
  for file in "$tarball" "$tarball.sha256"; do
    [ -r "$file" ] || leave 11 "$file is missing or cannot be read"
  done
  expected=
  read -r expected _ <"$tarball.sha256"
  found=$(sha256sum <"$tarball") || leave 11 "sha256sum failed on $tarball"
  found=${found%% *}
  [ "$found" = "$expected" ] ||
    leave 12 "$tarball is damaged: its sha256 is $found, expected is $expected; deploy the site again"
}

unpack_tarball() {
  output=$(tar -xzf "$GLIDEIN_HOME/glidein.tar.gz" -C "$SCRATCH/condor" 2>&1) ||
    leave 14 "$GLIDEIN_HOME/glidein.tar.gz could not be unpacked into $SCRATCH/condor: $(last_line "$output")"
  [ -s "$SCRATCH/condor/SHA256SUMS" ] || leave 14 "$GLIDEIN_HOME/glidein.tar.gz has no SHA256SUMS"
  output=$(cd "$SCRATCH/condor" && sha256sum -c SHA256SUMS 2>&1) ||
    leave 14 "unpacked files differ from SHA256SUMS: $(printf '%s\n' "$output" | grep -v ': OK$' | head -n 3 | tr '\n' ' ')"
  say "tarball verified: HTCondor $(manifest htcondor) for $(manifest platform), $(manifest arch), glibc >= $(manifest glibc)"
}

# manifest KEY: the (string) value of a top-level key of the tarball's MANIFEST.json, which has one key per line.
manifest() {
  sed -n 's/^ *"'"$1"'": "\(.*\)",*$/\1/p' "$SCRATCH/condor/MANIFEST.json" 2>/dev/null | head -n 1
}

last_line() {
  printf '%s\n' "$1" | tail -n 1
}

# use_condor: lets programs of the tarball find their own libraries and our configuration alone. Call it in a subshell:
# the node's own programs shall go on with their own libraries.
use_condor() {
  LD_LIBRARY_PATH="$SCRATCH/condor/lib:$SCRATCH/condor/lib/condor${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  CONDOR_CONFIG=$SCRATCH/condor_config
  TMPDIR=$SCRATCH/tmp
  export LD_LIBRARY_PATH CONDOR_CONFIG TMPDIR
}

# try_condor: wrong architecture, too old a glibc and noexec all show here, within a second.
try_condor() {
  : >"$SCRATCH/condor_config"
  output=$(use_condor && "$SCRATCH/condor/sbin/condor_master" -version 2>&1) ||
    leave 15 "HTCondor cannot run here: $(last_line "$output"); the tarball is for $(manifest arch) with" \
      "glibc >= $(manifest glibc), this node is $(uname -m)$(node_glibc), and $GLIDEIN_SCRATCH must not be mounted noexec"
}

node_glibc() {
  version=$(getconf GNU_LIBC_VERSION 2>/dev/null) && printf ' with %s' "$version"
}
