# Helpers of the sessions.

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
