#!/bin/sh
# Becomes the command, and notes before that whether a process that was started here earlier is still there:
#   notes-others.sh NOTES COMMAND ARGUMENTS...
# writes `beside PID` for each that is, then `start PID` for itself.
notes=$1
shift
for pid in $(sed -n 's/^start //p' "$notes" 2>/dev/null); do
  # One that is dead and that nobody has waited for is gone.
  grep -q '^State:[[:space:]]*[RSDTtI]' "/proc/$pid/status" 2>/dev/null && echo "beside $pid" >>"$notes"
done
echo "start $$" >>"$notes"
exec "$@"
