# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The tarball: choose one that fits this node, verify and unpack it, and test whether HTCondor runs. Each failure has a status
# of its own.
#
# README.md has the format of tarballs.list. GLIBC is the oldest glibc that the node may have. The checksum of a downloaded
# tarball is in the payload, so the server need not be trusted.
#
# The credential: an IDTOKEN outside the tarball, which may be renewed while the glidein runs, or the pool password in the
# tarball. It is only in files of mode 0600, never in an argument, an environment variable or a log.

TARBALLS=tarballs.list
DOWNLOADS=5 # attempts to download a tarball or an image
FETCH_S=300 # time limit for a download
TRY_S=60    # time limit for condor_master -version, which takes a tenth of a second

# install_condor: install the tarball for the newest glibc that this node has. If HTCondor does not run, try the next one.
install_condor() {
  [ -r "$GLIDEIN_HOME/$TARBALLS" ] || end_with 11 "$GLIDEIN_HOME/$TARBALLS is missing or cannot be read"
  arch=$(uname -m)
  glibc=$(node_glibc)
  fitting=$(fitting_tarballs "$arch" "$glibc" <"$GLIDEIN_HOME/$TARBALLS")
  [ -n "$fitting" ] || end_with 15 "no tarball fits this node, which is $arch with glibc ${glibc:-of unknown version};" \
    "there are: $(list_tarballs <"$GLIDEIN_HOME/$TARBALLS")"
  failures=
  unset INSTALLED # a site may export a variable of this name
  while read -r name its_arch its_glibc htcondor _ sha256 file; do
    unpack_tarball
    log "tarball $name verified: HTCondor $htcondor for $its_arch, glibc >= $its_glibc"
    if try_condor; then
      INSTALLED=$name
      break
    fi
    failures="$failures $name: $(failure_of "$tried" "$output");"
    rm -rf "$SCRATCH/condor"
  done <<FITTING
$fitting
FITTING
  [ -n "${INSTALLED-}" ] || end_with 15 "HTCondor cannot run on this node:$failures this node is $arch with glibc" \
    "${glibc:-of unknown version}$(noexec_hint "$output")"
}

# fitting_tarballs ARCH GLIBC: read the list from standard input; print the lines that fit, the newest glibc first. GLIBC is
# empty if it is unknown.
fitting_tarballs() {
  awk -v arch="$1" -v glibc="$2" '
    function number(version, part) { split(version, part, "."); return part[1] * 1000 + part[2] }
    NF == 7 && $1 !~ /^#/ && $2 == arch && (glibc == "" || number($3) <= number(glibc)) {
      print number($3), NR, $0
    }' | sort -k1,1nr -k2,2n | cut -d ' ' -f 3-
}

# list_tarballs: read the list from standard input; print it for a message.
list_tarballs() {
  awk 'NF == 7 && $1 !~ /^#/ { printf "%s%s (%s, glibc >= %s)", sep, $1, $2, $3; sep = ", " }'
}

# node_glibc: print the version of glibc, such as 2.34, or nothing.
node_glibc() {
  {
    getconf GNU_LIBC_VERSION || ldd --version
  } 2>/dev/null | sed -n '1s/.* \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p'
}

# unpack_tarball: download the tarball $name if it is not in the payload, verify it, and unpack it into the scratch directory.
unpack_tarball() {
  address=$(sed -n 's/^from //p' "$GLIDEIN_HOME/$TARBALLS" | head -n 1)
  if [ -n "$address" ]; then
    where=$address/$name-$(printf '%.12s' "$sha256").tar.gz
    tarball=$SCRATCH/tmp/$name.tar.gz
    fetch "$where" "$tarball"
  else
    tarball=$GLIDEIN_HOME/tarballs/$file
    where=$tarball
    [ -r "$tarball" ] || end_with 11 "$tarball is missing or cannot be read"
  fi
  found=$(sha256sum <"$tarball") || end_with 11 "sha256sum failed on $tarball"
  found=${found%% *}
  [ "$found" = "$sha256" ] ||
    end_with 12 "$where is damaged: its sha256 is $found, expected $sha256; deploy the site again"
  mkdir -p "$SCRATCH/condor" || end_with 13 "the directory $SCRATCH/condor cannot be made"
  # (-m: the files get the time of now. Nodes remove old files in /tmp.)
  output=$(tar -xmzf "$tarball" -C "$SCRATCH/condor" 2>&1 </dev/null) || {
    why=$(failure_of "$?" "$output")
    is_disk_full "$output" && end_with 13 "$GLIDEIN_SCRATCH is full: $why"
    end_with 14 "$where could not be unpacked into $SCRATCH/condor: $why"
  }
  [ -s "$SCRATCH/condor/SHA256SUMS" ] || end_with 14 "$where has no SHA256SUMS"
  output=$(cd "$SCRATCH/condor" && sha256sum -c SHA256SUMS 2>&1 </dev/null) ||
    end_with 14 "unpacked files differ from SHA256SUMS: $(printf '%s\n' "$output" | grep -v ': OK$' | head -n 3 | tr '\n' ' ')"
  [ "${tarball#"$SCRATCH/"}" = "$tarball" ] || rm -f "$tarball"
}

# fetch ADDRESS FILE: download with curl or wget. A proxy is taken from the environment, and nothing from ~/.curlrc or
# ~/.wgetrc.
fetch() {
  if command -v curl >/dev/null 2>&1; then
    set -- "$2" curl -q --fail --silent --show-error --location --connect-timeout 20 --speed-limit 1 --speed-time 60 \
      --output "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    set -- "$2" env HOME="$SCRATCH/tmp" wget -T 60 -O "$2" "$1"
  else
    end_with 20 "$1 cannot be downloaded: this node has neither curl nor wget"
  fi
  fetched=$1
  shift
  run_limited "$FETCH_S" retry "$DOWNLOADS" "$@" >"$SCRATCH/tmp/fetch.out" 2>&1
  status=$?
  [ "$status" -ne 124 ] || end_with 20 "$where cannot be downloaded: it took longer than $FETCH_S s"
  [ "$status" -eq 0 ] || {
    output=$(cat "$SCRATCH/tmp/fetch.out")
    why=$(failure_of "$status" "$output")
    is_disk_full "$output" && end_with 13 "$GLIDEIN_SCRATCH is full: $why"
    end_with 20 "$where cannot be downloaded: $why"
  }
  [ -s "$fetched" ] || end_with 20 "$where cannot be downloaded: the file is empty"
}

is_disk_full() {
  case $1 in
  *'No space left'* | *'uota exceeded'*) return 0 ;;
  esac
  return 1
}

# use_condor: set the library path and the configuration for programs of the tarball. Call it in a subshell, because programs
# of the node need their own libraries.
use_condor() {
  LD_LIBRARY_PATH="$SCRATCH/condor/lib:$SCRATCH/condor/lib/condor${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  CONDOR_CONFIG=$SCRATCH/condor_config
  TMPDIR=$SCRATCH/tmp
  export LD_LIBRARY_PATH CONDOR_CONFIG TMPDIR
}

# try_condor: run condor_master -version. A wrong architecture, an old glibc, a missing library or noexec make it fail.
try_condor() {
  true >"$SCRATCH/condor_config"
  run_limited "$TRY_S" run_condor sbin/condor_master -version >"$SCRATCH/tmp/try.out" 2>&1
  tried=$?
  output=$(cat "$SCRATCH/tmp/try.out")
  [ "$tried" -ne 124 ] || output="condor_master -version took longer than $TRY_S s"
  return "$tried"
}

# run_condor PROGRAM ARGUMENT...: replace this process by a program of the tarball.
run_condor() {
  program=$1
  shift
  use_condor && exec "$SCRATCH/condor/$program" "$@"
}

# noexec_hint TEXT: print a remedy if TEXT is the error for a file system that is mounted noexec.
noexec_hint() {
  case $1 in
  *'ermission denied'*) printf ', and %s is mounted noexec: use another scratch directory' "$GLIDEIN_SCRATCH" ;;
  esac
}

# --- The credential

copy_credential() {
  mkdir "$SCRATCH/credential/tokens.d"
  if [ -z "$GLIDEIN_CREDENTIAL" ]; then
    [ -s "$SCRATCH/condor/etc/pool_password" ] ||
      end_with 16 "GLIDEIN_CREDENTIAL is empty, and the tarball has no etc/pool_password"
    chmod 600 "$SCRATCH/condor/etc/pool_password" || end_with 16 "the mode of the pool password cannot be set to 0600"
    mv "$SCRATCH/condor/etc/pool_password" "$SCRATCH/credential/pool_password" ||
      end_with 16 "the pool password cannot be moved to $SCRATCH/credential"
    return 0
  fi
  [ -s "$GLIDEIN_CREDENTIAL" ] || end_with 16 "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL is missing or empty"
  replace_token || end_with 16 "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL cannot be copied to $SCRATCH/credential"
}

# replace_token: copy the token atomically and under the same name. HTCondor reads a renewed token only from the file that it
# has read before. The new copy is made outside tokens.d, because HTCondor reads every file there as a token.
replace_token() {
  cp "$GLIDEIN_CREDENTIAL" "$SCRATCH/credential/new" 2>/dev/null && [ -s "$SCRATCH/credential/new" ] &&
    chmod 600 "$SCRATCH/credential/new" && mv "$SCRATCH/credential/new" "$SCRATCH/credential/tokens.d/token"
}

# renew_credential: copy the token if it has changed. If the source is missing, keep the copy.
renew_credential() {
  [ -n "$GLIDEIN_CREDENTIAL" ] && [ -s "$GLIDEIN_CREDENTIAL" ] || return 0
  [ "$(cat "$GLIDEIN_CREDENTIAL")" != "$(cat "$SCRATCH/credential/tokens.d/token")" ] || return 0
  if replace_token; then
    log "credential renewed"
  else
    log "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL has changed and cannot be copied; the glidein keeps its copy"
  fi
}
