# Helpers of the sessions.

# What a real server needs a moment for, such as a new definition: until COMMAND succeeds.
until_it_does() {
    until "$@" >/dev/null 2>&1; do :; done
}

# watch_while LINES WATCH CHANGE: what the command WATCH prints up to so many lines, where the command CHANGE is run when
# the first two, the header and a row, are there. Nobody waits longer than for 20 seconds.
watch_while() {
    coproc WATCH { exec $2; }
    local pid=$WATCH_PID line
    for ((count = 1; count <= $1; count++)); do
        IFS= read -r -t 20 -u "${WATCH[0]}" line || break
        printf '%s\n' "$line"
        if ((count == 2)); then eval "$3" >/dev/null; fi
    done
    kill "$pid"
}

# wait_while WAIT CHANGE: what the command WAIT prints, where the command CHANGE is run once WAIT has seen that it has to
# wait: its log has a request that watches, or one that finds nothing.
wait_while() {
    local line is_changed=
    while IFS= read -r -t 20 line; do
        if [[ ! $line =~ ^[IWE][0-9]{4}\  ]]; then
            printf '%s\n' "$line"
        elif [[ ! $is_changed && $line =~ watch=true|status=\"404 ]]; then
            is_changed=yes
            eval "$2" >/dev/null
        fi
    done < <($1 -v=6 2>&1)
}
