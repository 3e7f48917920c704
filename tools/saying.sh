#!/bin/sh
# Run a command that is silent for long, and say every 15 seconds that it goes on.  Its own output is shown if it fails.
# usage: tools/saying.sh WHAT COMMAND...
set -eu
what=$1
shift
log=$(mktemp)
"$@" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null; rm -f "$log"; exit 130' INT TERM
echo "$what"
seconds=0
while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    [ $((seconds % ${SAYING_SECONDS:-15})) -ne 0 ] || echo "$what: $seconds s"
done
code=0
wait "$pid" || code=$?
[ "$code" -eq 0 ] || cat "$log"
rm -f "$log"
exit "$code"
