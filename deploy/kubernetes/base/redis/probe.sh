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
alive | ready)
    answer=$(ask PING)
    # Kubernetes shows this in the pod's events where the probe fails.
    echo "$answer"
    case $1:$answer in
    ready:PONG | alive:?*) ;;
    *) exit 1 ;;
    esac
    ;;
esac
