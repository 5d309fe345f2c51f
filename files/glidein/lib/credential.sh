# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The credential: an IDTOKEN outside the tarball (renewed under running glideins), or the pool password inside it.
# It is only ever a file, 0600: never an argument, an environment variable or a line of a log.

copy_credential() {
  mkdir "$SCRATCH/credential/tokens.d"
  if [ -z "$GLIDEIN_CREDENTIAL" ]; then
    [ -s "$SCRATCH/condor/etc/pool_password" ] ||
      leave 16 "GLIDEIN_CREDENTIAL is empty, and the tarball has no etc/pool_password"
    chmod 600 "$SCRATCH/condor/etc/pool_password" || leave 16 "the pool password cannot be protected"
    mv "$SCRATCH/condor/etc/pool_password" "$SCRATCH/credential/pool_password" ||
      leave 16 "the pool password cannot be put in place"
    return 0
  fi
  [ -s "$GLIDEIN_CREDENTIAL" ] || leave 16 "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL is missing or empty"
  replace_token || leave 16 "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL cannot be read, or not be copied to $SCRATCH"
}

# replace_token: atomically, under the same name: HTCondor takes a renewed token only from the file it knows.
# The new copy is made outside tokens.d, because every file in there is taken for a token.
replace_token() {
  cp "$GLIDEIN_CREDENTIAL" "$SCRATCH/credential/new" 2>/dev/null && [ -s "$SCRATCH/credential/new" ] &&
    chmod 600 "$SCRATCH/credential/new" && mv "$SCRATCH/credential/new" "$SCRATCH/credential/tokens.d/token"
}

# renew_credential: a source that is away for a moment changes nothing.
renew_credential() {
  [ -n "$GLIDEIN_CREDENTIAL" ] && [ -s "$GLIDEIN_CREDENTIAL" ] || return 0
  cmp -s "$GLIDEIN_CREDENTIAL" "$SCRATCH/credential/tokens.d/token" && return 0
  if replace_token; then
    say "credential renewed"
  else
    say "the renewed credential cannot be copied; the old one stays"
  fi
}
