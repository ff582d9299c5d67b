# Becomes a program that never waits for the child that has ended.
sleep 0 &
exec sleep 600
