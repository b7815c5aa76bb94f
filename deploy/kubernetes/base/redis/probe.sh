#!/bin/sh
# sh probe.sh alive   the server answers, whatever it is: a restart helps against silence, and against nothing else. One that
#                     loads its data says LOADING, and would have to begin again.
# sh probe.sh ready   it takes commands
# sh probe.sh info    what INFO says, for whoever looks
set -eu

# The password goes through the environment, as command lines can be read by others.
ask() {
    REDISCLI_AUTH=$(cat /run/lock-redis/probe-password) redis-cli -h 127.0.0.1 -p 6379 --user probe "$@"
}

case $1 in
info) ask INFO ;;
alive)
    # A server whose connections are all taken says so before it hears of anybody's password, and hangs up: for redis-cli that is
    # an error, and for a restart no reason, which would come to all nodes at once.
    answer=$(ask PING 2>&1) && status=0 || status=$?
    # Kubernetes shows this in the pod's events where the probe fails.
    echo "$answer"
    case $status:$answer in
    12[67]:* | *'Could not connect to '*) exit 1 ;;
    *:?*) ;;
    *) exit 1 ;;
    esac
    ;;
ready)
    answer=$(ask PING)
    echo "$answer"
    [ "$answer" = PONG ]
    ;;
*)
    echo "alive, ready or info?" >&2
    exit 2
    ;;
esac
