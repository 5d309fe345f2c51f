#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Keeps what an access point's user needs to submit to a gateway: its token, or without a schedd on the login node the SSH
# key and settings. The role glidein.ops.gateway runs it as that user. Each command prints "changed" after a change.
#
#   store SITE                                  stores the token from standard input
#   renew SITE COLLECTOR PROGRAM LIFE BEFORE    has the gateway renew its tokens, and stores that of submitters. stdin: the
#                                               token towards the pool. PROGRAM: the gateway's, on the login node; LIFE,
#                                               BEFORE: as of its command renew
#   connect SITE HOST PORT USER KEY             makes `ssh gateway-SITE` reach the login node. stdin: its host keys. KEY: a
#                                               file, or "" to make one. Prints the public key, too
#   remove SITE                                 removes the token, the key and the settings

set -eu
umask 077
# HOME is not that of the user, because runuser keeps it.
HOME=$(getent passwd "$(id -un)" | cut -d: -f6)
export HOME

# Replace the file $1 by stdin, unless it has the same content. $2: the path of the new file until it is complete.
replace() {
    cat >"$work/content"
    if ! cmp -s "$work/content" "$1"; then
        mkdir -p "${1%/*}"
        cp "$work/content" "$2"
        mv "$2" "$1"
        echo changed
    fi
}

store() {
    # Not in tokens.d, because HTCondor reads every file there as a token.
    changed=$(replace "$token" "$HOME/.condor/gateway-$site.new")
    [ -n "$changed" ] || return 0
    echo changed
    # Pilots that the gateway has refused because of an expired token.
    timeout 20 condor_release -constraint "JobStatus == 5 && regexp(\"^condor gateway-$site@ \", GridResource)
        && regexp(\"AUTHENTICATE\", HoldReason)" >/dev/null 2>&1 || true
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
    store <token
}

# The same for a file of SSH, which may be a link.
replace_setting() {
    file=$(readlink -f "$1")
    replace "$file" "$file.new"
}

connect() {
    host=$1 port=$2 user=$3 key=$4
    mkdir -p "$ssh"
    if [ -z "$key" ]; then
        key=$ssh/$name
        if [ ! -s "$key" ]; then
            ssh-keygen -q -t ed25519 -N "" -C "$name" -f "$key"
            echo changed
        fi
    fi
    case $key in
    \~/*) file=$HOME/${key#??} ;;
    *) file=$key ;;
    esac
    if ! public=$(ssh-keygen -y -P "" -f "$file"); then
        echo "glidein_gateway_ssh_key: '$key' is invalid; expected a private key without a passphrase" >&2
        exit 1
    fi
    awk -v name="gateway-$site" 'NF > 1 { print name, $1, $2 }' | replace_setting "$ssh/$name.known_hosts"
    replace_setting "$ssh/$name.config" <<END
# By glidein.ops.gateway
Host gateway-$site
    HostName $host
    Port $port
    User $user
    IdentityFile $key
    IdentitiesOnly yes
    HostKeyAlias gateway-$site
    UserKnownHostsFile $ssh/$name.known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    ForwardAgent no
    ForwardX11 no
    ConnectTimeout 20
    ServerAliveInterval 30
    ServerAliveCountMax 4
END
    # An Include below a Host would apply to that host only.
    if ! grep -qsxF "$include" "$ssh/config"; then
        { echo "$include"; cat "$ssh/config" 2>/dev/null || true; } | replace_setting "$ssh/config"
    fi
    # The comment of a key may contain anything.
    echo "$public" | cut -d " " -f 1,2
}

remove() {
    for file in "$token" "$ssh/$name" "$ssh/$name.pub" "$ssh/$name.known_hosts" "$ssh/$name.config"; do
        if [ -e "$file" ]; then
            rm "$file"
            echo changed
        fi
    done
    if grep -qsxF "$include" "$ssh/config" && [ -z "$(find "$ssh" -name 'glidein-gateway-*.config')" ]; then
        { grep -vxF "$include" "$ssh/config" || true; } | replace_setting "$ssh/config"
        [ -s "$ssh/config" ] || rm "$ssh/config"
        rmdir "$ssh" 2>/dev/null || true
    fi
}

command=$1 site=$2
shift 2
token=$HOME/.condor/tokens.d/gateway-$site
ssh=$HOME/.ssh
name=glidein-gateway-$site
include="Include glidein-gateway-*.config"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$command" "$@"
