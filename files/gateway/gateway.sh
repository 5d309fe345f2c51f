#!/bin/sh
# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Controls the gateway of the directory that this file is in. The role glidein.ops.gateway installs it.
#
#   gateway run                   runs the gateway in the foreground
#   gateway keep                  the same, unless it runs already: for cron
#   gateway restart               ends the daemons; what keeps it alive starts them again
#   gateway stop REASON           stops it until the next run of the playbook; status prints the reason
#   gateway unpack NAME FILE      makes the HTCondor in a tarball the current release
#   gateway token LIFE BEFORE     renews the submitters' token if it expires in less than BEFORE seconds
#   gateway renew LIFE BEFORE     stores the token towards the pool from standard input, renews the submitters' token as
#                                 above, and prints it; prints "changed" to standard error for another first token
#   gateway status                prints lines NAME VALUE; an unknown value has no line
#   gateway attributes SECONDS    prints the number of jobs as ClassAd attributes, cancels untracked batch jobs, stops
#                                 the gateway if its queue has been empty for so long (0: never)
#   gateway unfinished            prints the number of jobs that are queued or running; 0 if the gateway is stopped
#   gateway cancel                cancels all jobs and waits until the batch system has done so
#   gateway check                 fails with HTCondor's message if it refuses the routes of a condor_config, which is read
#                                 from standard input
#   gateway route [FILE]          prints the route that accepts each job of a file (or standard input) of ClassAds, and
#                                 the attributes that it sets; submits nothing
#
# Without a schedd on the login node (glidein_gateway_ssh), HTCondor on the access point starts these by SSH:
#
#   gateway ssh                   for authorized_keys: one of the next two, or status, as SSH_ORIGINAL_COMMAND says
#   gateway blahpd                submits to the batch system
#   gateway ft-gahp               transfers files

set -u
umask 077
# Unset variables that change the output of the programs used here.
unset CDPATH GREP_OPTIONS GZIP POSIXLY_CORRECT QUOTING_STYLE TAR_OPTIONS
dir=$(cd "$(dirname "$0")" && pwd) || exit 1
name=$(sed -n 's/^GLIDEIN_Site = "\(.*\)"$/\1/p' "$dir/condor_config" 2>/dev/null)
# Whether there is no schedd on the login node.
grep -q '^# BY_SSH$' "$dir/condor_config" 2>/dev/null && by_ssh=true || by_ssh=false
user=$(id -un)

fail() {
    echo "gateway: $*" >&2
    exit 1
}

# Run a command of HTCondor, without the user's own settings in ~/.condor.
tool() {
    env -i HOME="$dir" USER="$user" LOGNAME="$user" LANG=C PATH="$PATH" CONDOR_CONFIG="$dir/condor_config" "$@"
}

# Print the ids of the gateway's processes: the daemons, and the commands of blahp.
processes() {
    grep -lszxF "GLIDEIN_GATEWAY=$dir" /proc/[0-9]*/environ | sed 's/[^0-9]//g'
}

signal() {
    # shellcheck disable=SC2046 # a list of process ids
    kill -s "$1" $(processes) 2>/dev/null || return 0
}

end_processes() {
    # The schedd stores its queue before it ends.
    signal TERM
    tries=0
    while [ -n "$(processes)" ] && [ $tries -lt 100 ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
    signal KILL
}

# Write the settings of blahp: those of the release, except for those of the site. Python's parser refuses duplicates.
# By default, blahp kills a submission after 30 s and holds the job, but the batch system may have accepted it. The
# gridmanager waits for 300 s (GRIDMANAGER_GAHP_CALL_TIMEOUT).
blah_settings() {
    awk -F= 'FNR == NR { site[$1] = 1; lines = lines $0 "\n"; next }
        /^[[:space:]]*#/ || !($1 in site) { print; set[$1] = 1 }
        END { if (!(limit in site) && !(limit in set)) print limit "=200"; printf "%s", lines }' \
        limit=blah_child_poll_timeout "$dir/blah.config.site" "$dir/release/etc/blah.config" >"$dir/blah.config.$$" ||
        fail "blah.config cannot be written"
    mv "$dir/blah.config.$$" "$dir/blah.config" || fail "blah.config cannot be written"
}

# Print a checksum of what the daemons read when they start.
configuration() {
    { cat "$dir/gateway" "$dir/condor_config" "$dir/blah.config.site"; readlink "$dir/release"; } 2>/dev/null | sha256sum
}

run() {
    [ ! -e "$dir/stopped" ] || exit 0
    rm -f "$dir/idle"
    # If only the master was killed, its children may still have the queue open.
    end_processes
    configuration >"$dir/started"
    blah_settings
    mkdir -p "$dir/local/log" "$dir/local/spool" "$dir/local/lock" "$dir/local/run" "$dir/local/execute"
    exec_clean CONDOR_CONFIG="$dir/condor_config" "$dir/release/sbin/condor_master" -f
}

# Become a program with a clean environment, which the batch system could pass on to the pilots.
exec_clean() {
    # GLIDEIN_GATEWAY marks the gateway's processes.
    exec env -i HOME="$HOME" USER="$user" LOGNAME="$user" LANG=C GLIDEIN_GATEWAY="$dir" \
        PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin \
        BLAHPD_CONFIG_LOCATION="$dir/blah.config" "$@"
}

blahpd() {
    blah_settings
    exec_clean BLAHPD_LOCATION="$dir/release" GLITE_LOCATION="$dir/release" "$dir/release/bin/blahpd"
}

ft_gahp() {
    mkdir -p "$dir/sandbox" "$dir/local/log"
    exec_clean CONDOR_CONFIG="$dir/condor_config" "$dir/release/sbin/condor_ft-gahp" -f
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

# $1: for how many seconds to wait for the end of the gateway that runs.
keep() {
    [ ! -e "$dir/stopped" ] || return 0
    # In a session of its own. flock closes the file in the daemons, so that the lock ends with the master.
    cd / || exit 1
    setsid flock -w "$1" -o "$dir/lock" "$dir/gateway" run </dev/null >>"$dir/gateway.log" 2>&1 &
}

unit="glidein-gateway-$(basename "$dir").service"

supervisor() {
    if [ -e "$HOME/.config/systemd/user/$unit" ]; then
        echo systemd
    elif crontab -l 2>/dev/null | grep -qF " $dir/gateway keep"; then
        echo cron
    else
        echo none
    fi
}

# systemd starts an active unit again by itself.
restart() {
    end_processes
    if [ "$(supervisor)" != systemd ]; then
        keep 10
    else
        XDG_RUNTIME_DIR=/run/user/$(id -u) systemctl --user start "$unit" || fail "systemd cannot start $unit"
    fi
}

# Neither systemd nor cron starts a gateway that has the file `stopped`.
stop() {
    printf "%s\n" "$1" >"$dir/stopped"
    end_processes
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
    end=$(expiry "$dir/submit-token")
    [ -z "$end" ] || [ "$end" -le $(($(date +%s) + $2)) ] || return 0
    tool "$dir/release/bin/condor_token_create" -key POOL -identity "$user@gateway-$name" -lifetime "$1" \
        -authz READ -authz WRITE >"$dir/submit-token.new" || fail "no token could be made"
    mv "$dir/submit-token.new" "$dir/submit-token"
    echo changed
}

# The token is overwritten, because HTCondor would prefer an expired token to a valid one in another file.
renew() {
    cat >"$dir/tokens.d/.pool.new" && [ -s "$dir/tokens.d/.pool.new" ] || fail "no token on standard input"
    if cmp -s "$dir/tokens.d/.pool.new" "$dir/tokens.d/pool"; then
        rm "$dir/tokens.d/.pool.new"
    else
        mv "$dir/tokens.d/.pool.new" "$dir/tokens.d/pool" || fail "$dir/tokens.d/pool cannot be written"
        echo changed >&2
    fi
    token "$1" "$2" >/dev/null
    cat "$dir/submit-token"
}

# Print when a token expires, in epoch seconds. The payload has no padding, so that base64 reports an error.
expiry() {
    cut -d. -f2 "$1" 2>/dev/null | tr -- '-_' '+/' | base64 -d 2>/dev/null | sed -n 's/.*"exp":\([0-9]*\).*/\1/p'
}

# A routed pilot is two jobs: the received one, which has the id of its copy, and the copy for the batch system. Only the
# copy is counted.
not_copied='RoutedToJobId is undefined'

queue() {
    tool timeout 20 "$dir/release/bin/condor_q" -allusers "$@" 2>/dev/null
}

# A job that has completed waits until the access point has fetched its output.
unfinished() {
    # The queue of a stopped gateway cannot be read.
    [ -n "$(processes)" ] || { echo 0; return; }
    counted="($not_copied) && (JobStatus =?= 1 || JobStatus =?= 2 || JobStatus =?= 6)"
    tries=0
    until found=$(queue -constraint "$counted" -af ClusterId); do
        [ $tries -lt 5 ] ||
            fail "the queue cannot be read: restart the gateway with '$dir/gateway restart', or give up its jobs with" \
                "'$dir/gateway stop REASON'"
        sleep 1 # a gateway that has just started
        tries=$((tries + 1))
    done
    echo "$found" | awk 'NF { n++ } END { print n + 0 }'
}

# The schedd's ad does not count jobs of the grid universe. The schedd adds this output to its ad.
attributes() {
    found=$(queue -af "$not_copied" JobStatus) || exit 1
    echo "$found" | awk '$1 == "true" { n[$2]++ }
        END { printf "JobsIdle = %d\nJobsRunning = %d\nJobsHeld = %d\n- update:true\n", n[1], n[2] + n[6], n[5] }'
    if [ -n "$found" ]; then
        rm -f "$dir/idle"
    elif [ ! -e "$dir/idle" ]; then
        : >"$dir/idle"
    fi
    cancel_untracked >>"$dir/gateway.log" 2>&1
    stop_if_idle "$1"
}

# Stop a gateway whose queue has been empty for $1 seconds. `idle` is as old as that.
stop_if_idle() {
    [ "$1" -gt 0 ] && [ -e "$dir/idle" ] || return 0
    since=$(stat -c %Y "$dir/idle")
    [ $(($(date +%s) - since)) -ge "$1" ] || return 0
    # This process is one of the gateway's, which are ended.
    setsid env -u GLIDEIN_GATEWAY "$dir/gateway" stop "idle since $(date -u -d "@$since" '+%Y-%m-%d %H:%M:%S UTC')" \
        </dev/null >>"$dir/gateway.log" 2>&1 &
}

# Cancel jobs of Slurm that this gateway has submitted and does not track: blahp ended sbatch after its time limit, and
# held the job, but Slurm had accepted it. Their working directory is in the spool, so that no other job is cancelled.
# A job without a batch id that is not held is being submitted now.
cancel_untracked() {
    # blah.config uses variables that may be unset.
    # shellcheck source=/dev/null
    squeue=$(set +u; . "$dir/blah.config" >/dev/null 2>&1; echo "${slurm_binpath:-/usr/bin}")/squeue
    [ -x "$squeue" ] || return 0
    # Slurm is read first: a job that is submitted meanwhile is not in this list.
    batch=$(timeout 20 "$squeue" -h -u "$user" -o '%A %Z' | grep -F " $dir/local/spool/") || return 0
    jobs=$(queue -af 'GridJobId ?: "none"' 'JobStatus == 5' Iwd) || return 0
    echo "$batch" | while read -r id place; do
        echo "$jobs" | awk -v id="$id" -v place="$place" '
            { n = split($0, word, " "); has_id = match($0, "slurm/[0-9]+/" id "(@[^ ]*)? ") }
            has_id || (word[n - 1] == "false" && word[n] == place && $0 !~ /slurm\/[0-9]+\/[0-9]+/) { found = 1 }
            END { exit !found }'
        # Any status other than 1 does not mean that the job was not found.
        [ $? -eq 1 ] || continue
        timeout 20 "${squeue%/squeue}/scancel" "$id" || continue
        echo "$(date -u '+%F %T') cancelled the untracked job $id of $place"
    done
}

# Print why the queue cannot be written, for example because a file system is full or a quota is used up.
spool_problem() {
    [ -d "$dir/local/spool" ] || return 0
    # The queue and the files of new pilots are written there.
    reason=$({ head -c 1048576 /dev/zero >"$dir/local/spool/.space"; } 2>&1)
    rm -f "$dir/local/spool/.space"
    [ -n "$reason" ] || return 0
    echo "$dir/local/spool: ${reason##*: } (file system $(df -P "$dir/local/spool" | awk 'END { print $NF }'))"
}

# A file transfer makes the directory of a job. It stays until the access point has fetched the job's output.
sandboxes() {
    find "$dir/sandbox" -mindepth 3 -maxdepth 3 -type d 2>/dev/null | wc -l
}

# Print a line NAME VALUE, if there is a value.
item() {
    [ -z "$2" ] || printf '%s %s\n' "$1" "$(printf %s "$2" | tr '[:cntrl:]' ' ')"
}

status() {
    item version "$(sed -n 's/^ *"htcondor": "\(.*\)",$/\1/p' "$dir/release/MANIFEST.json" 2>/dev/null)"
    if $by_ssh; then
        item state installed
        item jobs "$(sandboxes)"
        return
    fi
    if [ -e "$dir/stopped" ] || [ -z "$(processes)" ]; then
        item state stopped
        item reason "$(cat "$dir/stopped" 2>/dev/null)"
    # An idle job of the vanilla universe (5) without a copy: no route accepts it, or the job router has not read it.
    elif found=$(queue -constraint "$not_copied" -af JobStatus JobUniverse); then
        item state running
        echo "$found" | awk '{ n[$1]++; unrouted += $1 == 1 && $2 == 5 } END {
            printf "idle %d\nrunning %d\nheld %d\nunrouted %d\n", n[1], n[2] + n[6], n[5], unrouted }'
    else
        item state unresponsive
    fi
    # The role was interrupted after it had changed the configuration, or has just changed it.
    [ -z "$(processes)" ] || [ "$(configuration)" = "$(cat "$dir/started" 2>/dev/null)" ] || item stale yes
    item supervisor "$(supervisor)"
    item pool_token_ends "$(expiry "$dir/tokens.d/pool")"
    item submit_token_ends "$(expiry "$dir/submit-token")"
    item problem "$(spool_problem)"
}

cancel() {
    tool timeout 20 "$dir/release/bin/condor_rm" -all >/dev/null 2>&1
    until=$(($(date +%s) + 90))
    # A schedd that removes many jobs may not answer.
    until left=$(queue -constraint 'JobStatus =!= 4' -af ClusterId) && [ -z "$left" ]; do
        [ "$(date +%s)" -lt "$until" ] || fail "jobs are still in the queue after 90 s: $(queue -totals | tail -n 1)"
        sleep 1
    done
}

# Print the jobs of a file, numbered, with the attributes that the gateway's schedd gives them.
received() {
    awk -v user="$user" 'BEGIN { RS = "" }
        { printf "%s\nJobUniverse = 5\nOwner = \"%s\"\nClusterId = %d\nProcId = 0\n\n", $0, user, NR }' "$1"
}

# Run HTCondor's tool for routes with the configuration $1.
router_info() {
    config=$1
    shift
    tool timeout 60 env CONDOR_CONFIG="$config" "$dir/release/bin/condor_job_router_info" "$@"
}

# Run it in the directory $1, and print the errors. Those of a route are in `out`, because the job router logs them and
# continues without the route.
router_errors() {
    (
        cd "$1" || exit
        shift
        router_info "$@" -diagnostic >out 2>err
        result=$?
        [ $result -eq 0 ] || [ -s err ] || echo "condor_job_router_info failed: exit status $result" >err
        cat err
        grep -E '^(CONFIGURATION )?ERROR: |^WARNING: none of |^JOB_ROUTER_.* error: |^route .* not found |^failure in ' out
        line=$(sed -n 's/^Configuration Error Line \([0-9]*\) .*/\1/p' err)
        [ -z "$line" ] || sed -n "${line}s/^/line $line: /p" condor_config
    )
}

# HTCondor reads the commands of routes and transforms when it applies them. So each route is applied to a job, and its
# requirements, with those of the transforms, become an attribute of this job.
check() {
    new=$(mktemp -d "$dir/check.XXXXXX") || fail "$dir cannot be written"
    cat >"$new/condor_config"
    errors=$(router_errors "$new" "$new/condor_config" -config)
    echo 'RequestCpus = 1' | received - >"$new/job"
    for name in $(sed -n 's/^Routes will be matched in this order: //p' "$new/out" | tr -d ,); do
        sed -E 's/^([[:space:]]*)REQUIREMENTS[[:space:]]/\1SET GatewayRequirements /I' "$new/condor_config" >"$new/applied"
        printf '%s\n' "JOB_ROUTER_ROUTE_NAMES = $name" 'JOB_ROUTER_SOURCE_JOB_CONSTRAINT = true' >>"$new/applied"
        errors="$errors
$(router_errors "$new" "$new/applied" -ignore-prior-routing -route-jobs /dev/null -jobads "$new/job")"
    done
    rm -r "$new"
    errors=$(echo "$errors" | awk 'NF && !printed[$0]++')
    [ -z "$errors" ] || fail "HTCondor refuses the routes:
$errors"
}

route() {
    grep -q '^DAEMON_LIST = .*JOB_ROUTER' "$dir/condor_config" || fail "the gateway has no routes (glidein_gateway_routes)"
    set_by_routes=$(sed -nE 's/^[[:space:]]*(SET|EVALSET|DEFAULT)[[:space:]]+([A-Za-z0-9_]+)[[:space:]].*/\2/Ip' \
        "$dir/condor_config" | tr '\n' ' ')
    jobs=$(received "$1") && [ -n "$jobs" ] || fail "expected ClassAds, separated by empty lines"
    # The jobs of the file would use up the limits of a route.
    sed -E '/^[[:space:]]*Max(Idle)?Jobs[[:space:]]*=/Id' "$dir/condor_config" >"$dir/condor_config.$$" || exit 1
    routed=$(printf '%s\n\n' "$jobs" | router_info "$dir/condor_config.$$" -ignore-prior-routing -route-jobs - -jobads -)
    result=$?
    rm "$dir/condor_config.$$"
    [ $result -eq 0 ] || fail "condor_job_router_info failed: $routed"
    printf '%s\n\n' "$jobs" "$routed" | awk -v attributes="$set_by_routes GridResource RequestGPUs" '
        BEGIN { split(attributes, names); RS = ""; FS = "\n"; for (i in names) shown[names[i]] = 1 }
        {
            found = job = name = ""
            for (i = 1; i <= NF; i++) {
                at = index($i, " = ")
                attribute = substr($i, 1, at - 1)
                value = substr($i, at + 3)
                if (attribute == "RoutedFromJobId") job = int(substr(value, 2))
                if (attribute == "RouteName") name = substr(value, 2, length(value) - 2)
                if (attribute == "ClusterId") jobs = int(value)
                if (attribute in shown) found = found "  " $i "\n"
            }
            if (name) result[job] = "route " name "\n" found
        }
        END {
            for (job = 1; job <= jobs; job++)
                printf "job %d: %s", job, job in result ? result[job] : "no route\n"
        }'
}

case ${1:-} in
run) run ;;
keep) keep 0 ;;
restart) restart ;;
stop) stop "${2:?}" ;;
unpack) unpack "${2:?}" "${3:?}" ;;
token) token "${2:?}" "${3:?}" ;;
renew) renew "${2:?}" "${3:?}" ;;
status) status ;;
attributes) attributes "${2:-0}" ;;
unfinished)
    if $by_ssh; then
        sandboxes
    else
        unfinished
    fi
    ;;
cancel) cancel ;;
check) check ;;
route) route "${2:--}" ;;
ssh) ssh_command ;;
blahpd) blahpd ;;
ft-gahp) ft_gahp ;;
*)
    fail "expected run, keep, restart, stop, unpack, token, renew, status, attributes, unfinished, cancel, check," \
        "route, ssh, blahpd or ft-gahp"
    ;;
esac
