#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Controls the gateway of the directory that this file is in. The role glidein.ops.gateway installs it.
#
#   gateway run                   runs the gateway in the foreground
#   gateway keep                  the same, unless it runs already: for cron
#   gateway install SUPERVISOR    starts it and keeps it alive by systemd, cron, or auto; prints "changed" after a change
#   gateway restart               ends the daemons; what keeps it alive starts them again
#   gateway uninstall             stops it, and removes the unit or the cron job
#   gateway unpack NAME FILE      makes the HTCondor in a tarball the current release
#   gateway token LIFE BEFORE     renews the submitters' token if it is older than LIFE minus BEFORE seconds
#   gateway status                prints a line of JSON
#   gateway attributes            prints the number of jobs as ClassAd attributes
#   gateway unfinished            prints the number of jobs that are queued or running
#   gateway cancel                cancels all jobs and waits until the batch system has done so
#
# Without a schedd on the login node (glidein_gateway_ssh), HTCondor on the access point starts these by SSH:
#
#   gateway ssh                   for authorized_keys: one of the next two, or status, as SSH_ORIGINAL_COMMAND says
#   gateway blahpd                submits to the batch system
#   gateway ft-gahp               transfers files

set -u
umask 077
dir=$(cd "$(dirname "$0")" && pwd) || exit 1
name=$(sed -n 's/^GLIDEIN_Site = "\(.*\)"$/\1/p' "$dir/condor_config" 2>/dev/null)
# Whether there is no schedd on the login node.
grep -q '^# BY_SSH$' "$dir/condor_config" 2>/dev/null && by_ssh=true || by_ssh=false
unit="glidein-gateway-$(basename "$dir").service"
units="${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user"
user=$(id -un)

fail() {
    echo "gateway: $*" >&2
    exit 1
}

# Run a command of HTCondor. It writes ~/.condor/known_hosts.
tool() {
    env -i HOME="$dir" USER="$user" LOGNAME="$user" LANG=C PATH="$PATH" CONDOR_CONFIG="$dir/condor_config" "$@"
}

# Print the ids of the gateway's processes: the daemons, and the commands of blahp.
processes() {
    grep -lszxF "GLIDEIN_GATEWAY=$dir" /proc/[0-9]*/environ | sed 's/[^0-9]//g'
}

end_processes() {
    # The schedd stores its queue before it ends.
    # shellcheck disable=SC2046 # a list of process ids
    set -- $(processes)
    [ $# -eq 0 ] && return
    kill -TERM "$@" 2>/dev/null
    tries=0
    while [ -n "$(processes)" ] && [ $tries -lt 100 ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
    # shellcheck disable=SC2046
    set -- $(processes)
    [ $# -eq 0 ] || kill -KILL "$@" 2>/dev/null
}

# Write the settings of blahp: those of the release, except for those of the site. Python's parser refuses duplicates.
blah_settings() {
    awk -F= 'FNR == NR { site[$1] = 1; lines = lines $0 "\n"; next } /^[[:space:]]*#/ || !($1 in site) { print }
        END { printf "%s", lines }' "$dir/blah.config.site" "$dir/release/etc/blah.config" >"$dir/blah.config.$$" ||
        fail "blah.config cannot be written"
    mv "$dir/blah.config.$$" "$dir/blah.config" || fail "blah.config cannot be written"
}

run() {
    # HTCondor writes ~/.condor/known_hosts. Without this directory before, uninstall removes the file.
    [ -e "$HOME/.condor" ] || : >"$dir/no-condor-directory"
    # If only the master was killed, its children may still have the queue open.
    end_processes
    blah_settings
    mkdir -p "$dir/local/log" "$dir/local/spool" "$dir/local/lock" "$dir/local/run" "$dir/local/execute"
    clean CONDOR_CONFIG="$dir/condor_config" "$dir/release/sbin/condor_master" -f
}

# Become a program with a clean environment, which the batch system could pass on to the pilots.
clean() {
    path=$(sed -n 's/^# PATH=//p' "$dir/condor_config")
    # GLIDEIN_GATEWAY marks the gateway's processes.
    exec env -i HOME="$HOME" USER="$user" LOGNAME="$user" LANG=C PATH="$path" GLIDEIN_GATEWAY="$dir" \
        BLAHPD_CONFIG_LOCATION="$dir/blah.config" "$@"
}

blahpd() {
    blah_settings
    clean BLAHPD_LOCATION="$dir/release" GLITE_LOCATION="$dir/release" "$dir/release/bin/blahpd"
}

ft_gahp() {
    mkdir -p "$dir/sandbox" "$dir/local/log"
    clean CONDOR_CONFIG="$dir/condor_config" "$dir/release/sbin/condor_ft-gahp" -f
}

# The commands are those of HTCondor's remote_gahp.
ssh_command() {
    case ${SSH_ORIGINAL_COMMAND:-} in
    status) status ;;
    *"/bin/blahpd "*) blahpd ;;
    *"/bin/condor_ft-gahp -f "*)
        # The gridmanager reads from this line which port the tunnel has here.
        port=$(expr "$SSH_ORIGINAL_COMMAND" : '.*Allocated port \([0-9]*\) for') || fail "no port of the tunnel"
        echo "Allocated port $port for remote forward to" >&2
        ft_gahp
        ;;
    *) fail "the key of the access point starts only HTCondor's blahpd and condor_ft-gahp" ;;
    esac
}

# wait: how many seconds it waits for the end of the gateway that runs.
keep() {
    wait=$1
    # In a session of its own. flock closes the file in the daemons, so that the lock ends with the master.
    cd / || exit 1
    setsid flock -w "$wait" -o "$dir/lock" "$dir/gateway" run </dev/null >>"$dir/gateway.log" 2>&1 &
}

user_systemd() {
    XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
    export XDG_RUNTIME_DIR
    systemctl --user "$@" 2>/dev/null
}

has_systemd() {
    [ -e "/var/lib/systemd/linger/$user" ] && user_systemd show-environment >/dev/null
}

# Have systemd run the user's services without a login, where that is allowed.
linger() {
    has_systemd && return
    loginctl --no-ask-password enable-linger 2>/dev/null || return
    : >"$dir/linger"
    tries=0
    until has_systemd; do
        [ $tries -lt 10 ] || break
        sleep 0.5
        tries=$((tries + 1))
    done
    has_systemd || unlinger
}

unlinger() {
    [ -e "$dir/linger" ] || return 0
    loginctl --no-ask-password disable-linger 2>/dev/null
    rm -f "$dir/linger"
}

unit_text() {
    cat <<END
[Unit]
Description=Gateway of the site $name (glidein.ops)
StartLimitIntervalSec=0

[Service]
ExecStart=$dir/gateway run
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target
END
}

cron_lines() {
    echo "@reboot $dir/gateway keep"
    echo "* * * * * $dir/gateway keep"
}

others_cron_lines() {
    crontab -l 2>/dev/null | grep -vF " $dir/gateway keep"
}

install_cron() {
    if [ "$(crontab -l 2>/dev/null | grep -F " $dir/gateway keep")" != "$(cron_lines)" ]; then
        { others_cron_lines; cron_lines; } | crontab - || fail "the cron job cannot be installed"
        echo changed
    fi
    if [ -z "$(processes)" ]; then
        keep 5
        echo changed
    fi
}

install_unit() {
    if [ "$(cat "$units/$unit" 2>/dev/null)" != "$(unit_text)" ]; then
        mkdir -p "$units"
        unit_text >"$units/$unit"
        user_systemd daemon-reload
        echo changed
    fi
    if ! user_systemd is-active --quiet "$unit" || ! user_systemd is-enabled --quiet "$unit"; then
        user_systemd enable --now "$unit" || fail "$unit cannot be started: systemctl --user status $unit"
        echo changed
    fi
}

remove_cron() {
    command -v crontab >/dev/null 2>&1 || return 0
    crontab -l 2>/dev/null | grep -qF " $dir/gateway keep" || return 0
    if [ -n "$(others_cron_lines)" ]; then
        others_cron_lines | crontab -
    else
        crontab -r
    fi
}

remove_unit() {
    [ -e "$units/$unit" ] || return 0
    user_systemd disable --now "$unit"
    rm -f "$units/$unit"
    user_systemd daemon-reload
    # Empty directories that the unit needed.
    parent=$(dirname "$units")
    rmdir "$units/default.target.wants" "$units" "$parent" "$(dirname "$parent")" 2>/dev/null
    return 0
}

supervise() {
    case $1 in
    auto)
        linger
        if has_systemd; then
            supervise systemd
        else
            supervise cron
        fi
        ;;
    systemd)
        linger
        has_systemd || fail "systemd does not run services of $user without a login: ask the administrator for" \
            "'loginctl enable-linger $user', or use cron"
        remove_cron
        install_unit
        ;;
    cron)
        command -v crontab >/dev/null 2>&1 || fail "no crontab, and no systemd that runs services of $user without a" \
            "login: nothing can keep the gateway alive. Ask the administrator for 'loginctl enable-linger $user'"
        remove_unit
        install_cron
        ;;
    *) fail "supervisor '$1' is invalid; expected auto, systemd or cron" ;;
    esac
}

supervisor() {
    if [ -e "$units/$unit" ]; then
        echo systemd
    elif command -v crontab >/dev/null 2>&1 && crontab -l 2>/dev/null | grep -qF " $dir/gateway keep"; then
        echo cron
    else
        echo none
    fi
}

restart() {
    if [ "$(supervisor)" = systemd ]; then
        user_systemd restart "$unit" || fail "$unit cannot be restarted: systemctl --user status $unit"
    else
        end_processes
        keep 10
    fi
}

unpack() {
    release="$dir/releases/$1"
    if [ ! -d "$release" ]; then
        rm -rf "$release.new"
        mkdir -p "$release.new"
        tar -xzf "$2" -C "$release.new" || fail "$2 cannot be unpacked"
        (cd "$release.new" && sha256sum --quiet -c SHA256SUMS) || fail "$2 is damaged"
        mv "$release.new" "$release"
    fi
    ln -sfn "releases/$1" "$dir/release.new"
    mv -T "$dir/release.new" "$dir/release"
    for other in "$dir"/releases/*; do
        [ "$other" = "$release" ] || rm -rf "$other"
    done
}

# The key signs the submitters' tokens. The base64 form has no byte that ends a password.
token() {
    key="$dir/passwords.d/POOL"
    if [ ! -s "$key" ]; then
        mkdir -p "$dir/passwords.d"
        head -c 48 /dev/urandom | base64 -w 0 >"$key.new" || fail "$key cannot be written"
        mv "$key.new" "$key" || fail "$key cannot be written"
        rm -f "$dir/submit-token"
    fi
    if [ -s "$dir/submit-token" ] && [ -n "$(find "$dir/submit-token" -mmin -$((($1 - $2) / 60)))" ]; then
        return
    fi
    tool "$dir/release/bin/condor_token_create" -key POOL -identity "$user@gateway-$name" -lifetime "$1" \
        -authz READ -authz WRITE >"$dir/submit-token.new" || fail "no token could be made"
    mv "$dir/submit-token.new" "$dir/submit-token"
    echo changed
}

queue() {
    tool timeout 20 "$dir/release/bin/condor_q" -allusers "$@" 2>/dev/null
}

# A job that has completed waits until the access point has fetched its output.
unfinished() {
    queue -constraint 'JobStatus =?= 1 || JobStatus =?= 2 || JobStatus =?= 6' -af ClusterId
}

# The schedd's ad does not count jobs of the grid universe. The schedd adds this output to its ad.
attributes() {
    found=$(queue -af JobStatus) || exit 1
    echo "$found" | awk '{ n[$1]++ }
        END { printf "JobsIdle = %d\nJobsRunning = %d\nJobsHeld = %d\n- update:true\n", n[1], n[2] + n[6], n[5] }'
}

# A file transfer makes the directory of a job. It stays until the access point has fetched the job's output.
sandboxes() {
    find "$dir/sandbox" -mindepth 3 -maxdepth 3 -type d 2>/dev/null | wc -l
}

status() {
    state=stopped
    counts='null'
    version=$(sed -n 's/^ *"htcondor": "\(.*\)",$/\1/p' "$dir/release/MANIFEST.json" 2>/dev/null)
    if $by_ssh; then
        [ -n "$(processes)" ] && connected=true || connected=false
        echo "{\"state\": \"installed\", \"version\": \"$version\", \"connected\": $connected," \
            "\"jobs\": $(sandboxes)}"
        return
    fi
    if [ -n "$(processes)" ]; then
        state=running
        if found=$(queue -af JobStatus); then
            counts=$(echo "$found" | awk '{ n[$1]++ }
                END { printf "{\"idle\": %d, \"running\": %d, \"held\": %d}", n[1], n[2] + n[6], n[5] }')
        else
            state=unresponsive
        fi
    fi
    echo "{\"state\": \"$state\", \"version\": \"$version\", \"supervisor\": \"$(supervisor)\", \"jobs\": $counts}"
}

cancel() {
    tool timeout 20 "$dir/release/bin/condor_rm" -all >/dev/null 2>&1
    tries=0
    while [ -n "$(queue -constraint 'JobStatus =!= 4' -af ClusterId)" ]; do
        [ $tries -lt 90 ] || fail "jobs are still in the queue after 90 s: $(queue -totals | tail -n 1)"
        sleep 1
        tries=$((tries + 1))
    done
}

case ${1:-} in
run) run ;;
keep) keep 0 ;;
install) supervise "${2:?}" ;;
restart) restart ;;
uninstall)
    remove_unit
    remove_cron
    end_processes
    unlinger
    if [ -e "$dir/no-condor-directory" ]; then
        rm -f "$HOME/.condor/known_hosts"
        rmdir "$HOME/.condor" 2>/dev/null
    fi
    rm -f "$dir/no-condor-directory"
    ;;
unpack) unpack "${2:?}" "${3:?}" ;;
token) token "${2:?}" "${3:?}" ;;
status) status ;;
attributes) attributes ;;
unfinished)
    if $by_ssh; then
        sandboxes
    else
        unfinished | wc -l
    fi
    ;;
cancel) cancel ;;
ssh) ssh_command ;;
blahpd) blahpd ;;
ft-gahp) ft_gahp ;;
*)
    fail "expected run, keep, install, restart, uninstall, unpack, token, status, attributes, unfinished, cancel, ssh," \
        "blahpd or ft-gahp"
    ;;
esac
