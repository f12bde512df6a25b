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

# while_forwarding COUNT ARGUMENTS COMMAND: what COMMAND prints while `kubectl port-forward ARGUMENTS` forwards so many ports, whose local
# numbers are $1, $2 and so on. If kubectl ends because of an error, then what it says about it.
while_forwarding() {
    local count=$1 command=$3 ports=() line
    coproc FORWARD { exec kubectl port-forward $2 2>&1; }
    local pid=$FORWARD_PID
    exec {said}<&"${FORWARD[0]}"
    while ((${#ports[@]} < count)) && IFS= read -r -t 20 -u "$said" line; do
        if [[ $line =~ ^Forwarding\ from\ 127\.0\.0\.1:([0-9]+) ]]; then ports+=("${BASH_REMATCH[1]}"); fi
    done
    set -- "${ports[@]}"
    eval "$command"
    if [[ $command == *'# fails' ]]; then
        while IFS= read -r -t 20 -u "$said" line; do printf '%s\n' "$line"; done
    else
        kill "$pid"
    fi
}

# fetch PORT PATH: a file that is served on a port of this machine.
fetch() {
    busybox wget -qO- "http://127.0.0.1:$1/$2"
}
