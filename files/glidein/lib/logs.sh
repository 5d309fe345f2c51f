# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# The daemons' logs outside the scratch directory: in GLIDEIN_LOG_DIR, and in an S3 bucket. They are copied at the end, and
# with GLIDEIN_LOG_INTERVAL_S also while the glidein runs.
#
# GLIDEIN_LOG_S3 is a file with a form that the controller has signed (a POST policy of S3). It has one field in each line,
# NAME VALUE, and the lines "url ADDRESS" and "key PREFIX". Whoever has it can write objects of limited size below PREFIX
# until it expires. curl reads it from a file, so that no process list shows it.

SHIP_S=120          # time limit for one copy while the glidein runs
MOST_LOGS=30        # number of logs that are copied
COPY_BYTES=262144   # of each log, to GLIDEIN_LOG_DIR
UPLOAD_BYTES=131072 # of each log, to the bucket
STDERR_BYTES=32768  # of each log, to standard error
SHIPPER_PID=
SHIPPED_AT=

# ship_logs: if the interval is over, copy the logs in a process of its own, so that the glidein goes on if a server does
# not respond. If the previous copy still runs, leave this one out.
ship_logs() {
  [ "$GLIDEIN_LOG_INTERVAL_S" -gt 0 ] || return 0
  [ $((NOW - ${SHIPPED_AT:=$MASTER_AT})) -ge "$GLIDEIN_LOG_INTERVAL_S" ] || return 0
  SHIPPED_AT=$NOW
  if [ -n "$SHIPPER_PID" ] && kill -0 "$SHIPPER_PID" 2>/dev/null; then
    log "the previous copy of the daemons' logs has not ended: leaving this one out"
    return 0
  fi
  copy_and_upload &
  SHIPPER_PID=$!
}

# copy_and_upload: copy the logs with a low priority and a time limit. (With the lowest, a node whose cores are all busy would
# need minutes for it.)
copy_and_upload() {
  read -r self _ </proc/self/stat
  renice -n 10 -p "$self" >/dev/null 2>&1
  [ "$GLIDEIN_LOG_DIR" = - ] || run_limited "$SHIP_S" copy_logs || [ "$?" -ne 124 ] ||
    log "the daemons' logs could not be copied within $SHIP_S s"
  [ -z "$GLIDEIN_LOG_S3" ] || run_limited "$SHIP_S" upload_logs ||
    log "the daemons' logs could not be uploaded within $SHIP_S s"
}

# stop_shipping: at the end of the glidein, stop a copy that still runs. The last copy replaces it.
stop_shipping() {
  [ -z "${SHIPPER_PID-}" ] || ! kill -0 "$SHIPPER_PID" 2>/dev/null || {
    kill_tree "$SHIPPER_PID"
    wait "$SHIPPER_PID" 2>/dev/null # else bash prints a message about it
  }
  SHIPPER_PID=
}

# list_logs: print the daemons' logs, one per line.
list_logs() {
  find "$SCRATCH/log" -name '*Log*' -size +0 "$@" 2>/dev/null | sort | head -n "$MOST_LOGS"
}

# copy_logs: copy the logs that were written to since the last copy to GLIDEIN_LOG_DIR. The times are of the scratch directory,
# so the clock of a file server does not matter. Without a new time, on a full disk, the next copy includes these logs, too.
copy_logs() {
  LOGS=$GLIDEIN_LOG_DIR/$NAME
  mkdir -p "$LOGS" 2>/dev/null || {
    log "the daemons' logs are lost: $LOGS cannot be made"
    return 1
  }
  { true >"$SCRATCH/tmp/copying"; } 2>/dev/null
  set --
  [ ! -e "$SCRATCH/tmp/copied" ] || set -- -newer "$SCRATCH/tmp/copied"
  # (the loop is in a process of its own; after a failure, the next copy includes these logs)
  list_logs "$@" | while IFS= read -r log; do
    copy_log "$log" || exit 1
  done || return 1
  mv -f "$SCRATCH/tmp/copying" "$SCRATCH/tmp/copied" 2>/dev/null || :
}

# copy_log FILE: copy the end of a log to the directory LOGS, atomically and without tokens. The name of the incomplete file
# is that of a log, too, so that the cycle removes it with the others if the copy is interrupted.
copy_log() {
  { tail -c "$COPY_BYTES" "$1" | without_tokens >"$LOGS/${1##*/}.new" &&
    mv -f "$LOGS/${1##*/}.new" "$LOGS/${1##*/}"; } 2>/dev/null || {
    log "the daemons' logs are incomplete: $LOGS/${1##*/} cannot be written"
    return 1
  }
}

# save_logs: at the end of the glidein, copy the logs to GLIDEIN_LOG_DIR or, if that is '-', print their ends to standard error.
save_logs() {
  [ -s "$SCRATCH/log/MasterLog" ] || return 0
  if [ "$GLIDEIN_LOG_DIR" != - ]; then
    rm -f "$SCRATCH/tmp/copied" # all logs: times of files may have whole seconds only
    ! copy_logs || log "the daemons' logs are in $LOGS"
    return 0
  fi
  list_logs | while IFS= read -r log; do
    printf '==> %s of %s <==\n' "${log##*/}" "$NAME" && tail -c "$STDERR_BYTES" "$log" | without_tokens
  done >&2
}

# copy_form: copy the signed form, or its newer version from the controller. Return 1 if the form is missing.
copy_form() {
  form=$SCRATCH/credential/log_s3
  { [ ! -s "$GLIDEIN_LOG_S3" ] || { cp "$GLIDEIN_LOG_S3" "$form.new" && mv -f "$form.new" "$form"; }; } 2>/dev/null
  [ -s "$form" ]
}

# upload_logs: put the ends of the daemons' logs as one object into the bucket. S3 replaces the previous object when it has
# the whole new one. An upload that fails twice is one line in the log; the next interval tries it again.
upload_logs() {
  [ -s "$SCRATCH/log/MasterLog" ] || return 0
  copy_form || {
    log "the daemons' logs cannot be uploaded: GLIDEIN_LOG_S3=$GLIDEIN_LOG_S3 is missing"
    return 0
  }
  address=$(sed -n 's/^url //p' "$form")
  upload=$SCRATCH/tmp/upload
  rm -rf "$upload"
  { mkdir "$upload" "$upload/$NAME" && pack_logs && form_options >"$upload/options"; } 2>/dev/null || {
    log "the daemons' logs cannot be uploaded: $SCRATCH is full"
    rm -rf "$upload"
    return 0
  }
  retry 2 post_form >"$upload/answer" 2>&1 ||
    log "the daemons' logs cannot be uploaded to $address: $(failure_of "$?" "$(cut -c 1-300 "$upload/answer")")"
  rm -rf "$upload"
}

pack_logs() {
  list_logs | while IFS= read -r log; do
    tail -c "$UPLOAD_BYTES" "$log" | without_tokens >"$upload/$NAME/${log##*/}" || exit 1
  done || return 1
  tar -C "$upload" -cf - "$NAME" | gzip >"$upload/logs" && rm -r "${upload:?}/$NAME"
}

# form_options: print the form as a configuration file of curl.
form_options() {
  sed -e 's/^url \(.*\)/url = "\1"/' -e t -e "s/^key .*/&$NAME.tar.gz/" -e 's/^\([^ ]*\) \(.*\)/form-string = "\1=\2"/' "$form"
}

# post_form: send the form, and the file after its other fields. A proxy is taken from the environment.
post_form() (
  cd "$upload" && exec curl -q --fail --silent --show-error --connect-timeout 20 --header Expect: --config options \
    --form file=@logs
)
