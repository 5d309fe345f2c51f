# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The credential: an IDTOKEN outside the tarball, which may be renewed while the glidein runs, or the pool password in the
# tarball. It is only in files of mode 0600, never in an argument, an environment variable or a log.

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
  cmp -s "$GLIDEIN_CREDENTIAL" "$SCRATCH/credential/tokens.d/token" && return 0
  if replace_token; then
    log "credential renewed"
  else
    log "GLIDEIN_CREDENTIAL=$GLIDEIN_CREDENTIAL has changed and cannot be copied; the glidein keeps its copy"
  fi
}
