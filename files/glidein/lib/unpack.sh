# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The tarball: one that fits this node, whole, unpacked, each file as its list says, and able to run here. Each failure has
# a status of its own.
#
# tarballs.list in the payload has a line for each that there is, NAME ARCH GLIBC HTCONDOR SHA256 FILE, where GLIBC is the
# least that a node must have. FILE is in `tarballs` of the payload; unless there is a line "from ADDRESS": then it is fetched
# from ADDRESS/NAME-<first 12 digits of SHA256>.tar.gz. The checksum is in the payload, so that it does not matter who else
# could write there.

TARBALLS=tarballs.list
FETCH_S=300 # how long one may take to come from a web server
TRY_S=60    # how long HTCondor may take to say its version; it takes a tenth of a second

# bring_condor: the tarball for the newest glibc that this node has, else the next one that does.
bring_condor() {
  [ -r "$GLIDEIN_HOME/$TARBALLS" ] || leave 11 "$GLIDEIN_HOME/$TARBALLS is missing or cannot be read"
  arch=$(uname -m)
  glibc=$(node_glibc)
  fitting=$(fitting_tarballs "$arch" "$glibc" <"$GLIDEIN_HOME/$TARBALLS")
  [ -n "$fitting" ] || leave 15 "no tarball fits this node, which is $arch with glibc ${glibc:-of unknown version};" \
    "there are: $(tarballs_there <"$GLIDEIN_HOME/$TARBALLS")"
  failures=
  unset FITTED # a name that a site might export
  while read -r name its_arch its_glibc htcondor sha256 file; do
    unpack_tarball
    say "tarball $name verified: HTCondor $htcondor for $its_arch, glibc >= $its_glibc"
    if try_condor; then
      FITTED=$name
      break
    fi
    failures="$failures $name: $(last_line "$output");"
    rm -rf "$SCRATCH/condor"
  done <<FITTING
$fitting
FITTING
  [ -n "${FITTED-}" ] || leave 15 "HTCondor cannot run here:$failures this node is $arch with glibc" \
    "${glibc:-of unknown version}$(noexec_hint "$output")"
}

# fitting_tarballs ARCH GLIBC: the lines of the list (standard input) that fit, the newest glibc first. GLIBC may be empty:
# unknown.
fitting_tarballs() {
  awk -v arch="$1" -v glibc="$2" '
    function number(version, part) { split(version, part, "."); return part[1] * 1000 + part[2] }
    NF == 6 && $1 !~ /^#/ && $2 == arch && (glibc == "" || number($3) <= number(glibc)) {
      print number($3), NR, $0
    }' | sort -k1,1nr -k2,2n | cut -d ' ' -f 3-
}

# tarballs_there: the list (standard input) in words.
tarballs_there() {
  awk 'NF == 6 && $1 !~ /^#/ { printf "%s%s (%s, glibc >= %s)", sep, $1, $2, $3; sep = ", " }'
}

# node_glibc: its version, such as 2.34; nothing where there is no glibc, or nobody to ask.
node_glibc() {
  {
    getconf GNU_LIBC_VERSION || ldd --version
  } 2>/dev/null | sed -n '1s/.* \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p'
}

# unpack_tarball: brings the tarball $name, checks it, and unpacks it into the scratch directory.
unpack_tarball() {
  address=$(sed -n 's/^from //p' "$GLIDEIN_HOME/$TARBALLS" | head -n 1)
  if [ -n "$address" ]; then
    where=$address/$name-$(printf '%.12s' "$sha256").tar.gz
    tarball=$SCRATCH/tmp/$name.tar.gz
    fetch "$where" "$tarball"
  else
    tarball=$GLIDEIN_HOME/tarballs/$file
    where=$tarball
    [ -r "$tarball" ] || leave 11 "$tarball is missing or cannot be read"
  fi
  found=$(sha256sum <"$tarball") || leave 11 "sha256sum failed on $tarball"
  found=${found%% *}
  [ "$found" = "$sha256" ] ||
    leave 12 "$where is damaged: its sha256 is $found, expected is $sha256; deploy the site again"
  mkdir -p "$SCRATCH/condor" || leave 13 "the directory $SCRATCH/condor cannot be made"
  output=$(tar -xzf "$tarball" -C "$SCRATCH/condor" 2>&1 </dev/null) || {
    is_full "$output" && leave 13 "$GLIDEIN_SCRATCH is full: $(last_line "$output")"
    leave 14 "$where could not be unpacked into $SCRATCH/condor: $(last_line "$output")"
  }
  [ -s "$SCRATCH/condor/SHA256SUMS" ] || leave 14 "$where has no SHA256SUMS"
  output=$(cd "$SCRATCH/condor" && sha256sum -c SHA256SUMS 2>&1 </dev/null) ||
    leave 14 "unpacked files differ from SHA256SUMS: $(printf '%s\n' "$output" | grep -v ': OK$' | head -n 3 | tr '\n' ' ')"
  [ "${tarball#"$SCRATCH/"}" = "$tarball" ] || rm -f "$tarball"
}

# fetch ADDRESS FILE: with what the node has. A proxy is taken from the environment.
fetch() {
  if command -v curl >/dev/null 2>&1; then
    set -- "$2" curl --fail --silent --show-error --location --connect-timeout 20 --output "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    set -- "$2" wget -T 60 -O "$2" "$1"
  else
    leave 20 "$1 cannot be fetched: this node has neither curl nor wget"
  fi
  fetched=$1
  shift
  within "$FETCH_S" "$@" >"$SCRATCH/tmp/fetch.out" 2>&1
  status=$?
  [ "$status" -ne 124 ] || leave 20 "$where cannot be fetched: not within $FETCH_S s"
  [ "$status" -eq 0 ] || {
    output=$(cat "$SCRATCH/tmp/fetch.out")
    is_full "$output" && leave 13 "$GLIDEIN_SCRATCH is full: $(last_line "$output")"
    leave 20 "$where cannot be fetched: $(last_line "$output")"
  }
  [ -s "$fetched" ] || leave 20 "$where cannot be fetched: nothing came"
}

is_full() {
  case $1 in
  *'No space left'* | *'uota exceeded'*) return 0 ;;
  esac
  return 1
}

last_line() {
  printf '%s\n' "$1" | grep . | tail -n 1
}

# use_condor: lets programs of the tarball find their own libraries and our configuration alone. Call it in a subshell:
# the node's own programs shall go on with their own libraries.
use_condor() {
  LD_LIBRARY_PATH="$SCRATCH/condor/lib:$SCRATCH/condor/lib/condor${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  CONDOR_CONFIG=$SCRATCH/condor_config
  TMPDIR=$SCRATCH/tmp
  export LD_LIBRARY_PATH CONDOR_CONFIG TMPDIR
}

# try_condor: wrong architecture, too old a glibc, a missing library and noexec all show here, within a second.
try_condor() {
  : >"$SCRATCH/condor_config"
  within "$TRY_S" run_condor sbin/condor_master -version >"$SCRATCH/tmp/try.out" 2>&1
  tried=$?
  output=$(cat "$SCRATCH/tmp/try.out")
  [ "$tried" -ne 124 ] || output="condor_master -version took longer than $TRY_S s"
  return "$tried"
}

# run_condor PROGRAM ARGUMENT...: a program of the tarball.
run_condor() {
  program=$1
  shift
  use_condor && exec "$SCRATCH/condor/$program" "$@"
}

# noexec_hint TEXT: what a shell says when the file system is mounted so that nothing can be executed.
noexec_hint() {
  case $1 in
  *'ermission denied'*) printf ', and %s is mounted noexec: use another scratch directory' "$GLIDEIN_SCRATCH" ;;
  esac
}
