# Grows a tree of processes while somebody tries to end it: each of them forks again before it waits.
depth=$1
while [ "$depth" -gt 0 ]; do
  depth=$((depth - 1))
  sleep 0.01
  sh "$0" "$depth" &
done
exec sleep 600
