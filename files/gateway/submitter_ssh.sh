#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes an access point's user able to reach a login node as `ssh gateway-SITE`. The role glidein.ops.gateway runs it as
# that user.
#
#   present SITE HOST PORT USER KEY    stdin: the login node's host keys. KEY: a file, or "" to make one. Prints the
#                                      public key, and "changed" after a change.
#   absent SITE                        prints "changed" after a change

set -eu
umask 077
site=$2
# HOME is not that of the user, because runuser keeps it.
ssh=$(getent passwd "$(id -un)" | cut -d: -f6)/.ssh
name=glidein-gateway-$site
include="Include glidein-gateway-*.config"

# Replace a file by stdin, unless it has the same content.
store() {
    file=$(readlink -f "$1")
    cat >"$file.new"
    if cmp -s "$file.new" "$file"; then
        rm "$file.new"
    else
        mv "$file.new" "$file"
        echo changed
    fi
}

present() {
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
    \~/*) file=${ssh%/*}/${key#??} ;;
    *) file=$key ;;
    esac
    if ! public=$(ssh-keygen -y -P "" -f "$file"); then
        echo "glidein_gateway_ssh_key: '$key' is invalid; expected a private key without a passphrase" >&2
        exit 1
    fi
    awk -v name="gateway-$site" 'NF > 1 { print name, $1, $2 }' | store "$ssh/$name.known_hosts"
    store "$ssh/$name.config" <<END
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
        { echo "$include"; cat "$ssh/config" 2>/dev/null || true; } | store "$ssh/config"
    fi
    # The comment of a key may contain anything.
    echo "$public" | cut -d " " -f 1,2
}

absent() {
    for file in "$ssh/$name" "$ssh/$name.pub" "$ssh/$name.known_hosts" "$ssh/$name.config"; do
        if [ -e "$file" ]; then
            rm "$file"
            echo changed
        fi
    done
    if grep -qsxF "$include" "$ssh/config" && [ -z "$(find "$ssh" -name 'glidein-gateway-*.config')" ]; then
        { grep -vxF "$include" "$ssh/config" || true; } | store "$ssh/config"
        [ -s "$ssh/config" ] || rm "$ssh/config"
        rmdir "$ssh" 2>/dev/null || true
    fi
}

state=$1
shift 2
"$state" "$@"
