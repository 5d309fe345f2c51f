#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Keeps the token with which an access point's user submits to a gateway. The role glidein.ops.gateway runs it as that
# user. Each command prints "changed" after a change.
#
#   store SITE                                  stores the token from standard input
#   renew SITE COLLECTOR PROGRAM LIFE BEFORE    has the gateway renew its tokens, and stores that of submitters. stdin: the
#                                               token towards the pool. PROGRAM: the gateway's, on the login node; LIFE,
#                                               BEFORE: as of its command renew
#   remove SITE                                 removes the token

set -eu
umask 077
# HOME is not that of the user, because runuser keeps it.
HOME=$(getent passwd "$(id -un)" | cut -d: -f6)
export HOME

# Replace the user's token by a file, unless it has the same content.
replace() {
    if cmp -s "$1" "$token"; then
        return
    fi
    mkdir -p "${token%/*}"
    # Not in tokens.d, because HTCondor reads every file there as a token.
    new=$HOME/.condor/gateway-$site.new
    cp "$1" "$new"
    mv "$new" "$token"
    echo changed
    # Pilots that the gateway has refused because of an expired token.
    timeout 20 condor_release -constraint "JobStatus == 5 && regexp(\"^condor gateway-$site@ \", GridResource)
        && regexp(\"AUTHENTICATE\", HoldReason)" >/dev/null 2>&1 || true
}

store() {
    cat >"$work/token"
    replace "$work/token"
}

# The token towards the pool reaches the gateway as the input of a job, so that no login is needed.
renew() {
    collector=$1 program=$2 life=$3 before=$4
    case $program in
    \~/*) program=\$HOME/${program#??} ;;
    esac
    cd "$work"
    cat >pool
    cat >renew.sh <<END
#!/bin/sh
PATH=/usr/local/bin:/usr/bin:/bin
HOME=\$(getent passwd "\$(id -un)" | cut -d: -f6)
export PATH HOME
exec "$program" renew $life $before
END
    cat >renew.sub <<END
universe = scheduler
executable = renew.sh
input = pool
output = token
error = error
should_transfer_files = yes
queue
END
    submitted=$(timeout 60 condor_submit -remote "gateway-$site@" -pool "$collector" -spool -terse renew.sub)
    # A wrapper of condor_submit may print other lines, too.
    job=$(echo "$submitted" | sed -n 's/^\([0-9][0-9]*\.[0-9][0-9]*\) - [0-9.]*$/\1/p')
    if [ -z "$job" ]; then
        echo "condor_submit printed no id of a job: $submitted" >&2
        exit 1
    fi
    tries=0
    until [ "$(timeout 20 condor_q -name "gateway-$site@" -pool "$collector" "$job" -af JobStatus)" = 4 ]; do
        [ $tries -lt 30 ] || break
        sleep 1
        tries=$((tries + 1))
    done
    timeout 60 condor_transfer_data -name "gateway-$site@" -pool "$collector" "$job" >/dev/null || true
    timeout 20 condor_rm -name "gateway-$site@" -pool "$collector" "$job" >/dev/null || true
    if ! [ -s token ]; then
        cat error >&2 || true
        echo "job $job of the gateway printed no token" >&2
        exit 1
    fi
    # The gateway has another token towards the pool.
    grep -x changed error || true
    replace token
}

remove() {
    if [ -e "$token" ]; then
        rm "$token"
        echo changed
    fi
}

command=$1 site=$2
shift 2
token=$HOME/.condor/tokens.d/gateway-$site
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$command" "$@"
