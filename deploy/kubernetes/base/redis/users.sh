#!/bin/sh
# Says who may do what on this node, whenever its pod starts. The passwords come from the Secret and stay in memory: the files
# are on a tmpfs that only this pod has.
set -eu
umask 077
export LC_ALL=C

secret=/run/secrets/lock-redis
files=/run/lock-redis

# Redis needs no more than the hash. What a URL would have to escape is refused here, as the same word is in LOCK_NODES: better
# a node that does not start than one where nobody can log in.
hash_of() {
    if ! [ -r "$1" ] || [ "$(wc -c <"$1")" -lt 16 ] || [ "$(tr -d 'A-Za-z0-9._~-' <"$1" | wc -c)" -ne 0 ]; then
        echo "$1: a password needs 16 characters or more, of A-Z a-z 0-9 . _ ~ - alone, and no line break" >&2
        exit 1
    fi
    sha256sum <"$1" | cut -d ' ' -f 1
}

passwords="#$(hash_of "$secret/shop-password")"
# While passwords are changed, the nodes take both.
if [ -e "$secret/shop-password-other" ]; then
    other="#$(hash_of "$secret/shop-password-other")"
    passwords="$passwords $other"
fi

# Nobody outside of the pod logs in as the probes do, so nobody has to know with what. It is counted, as a pipe ends well also where
# nothing came: what is made of nothing would be the same on every node.
word=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
if [ "${#word}" -ne 64 ]; then
    echo "/dev/urandom gives no password for the probes" >&2
    exit 1
fi
printf '%s' "$word" >"$files/probe-password"
# Versions of the exporter look for it under the one name or the other.
printf '{"redis://localhost:6379": "%s", "redis://probe@localhost:6379": "%s"}\n' "$word" "$word" >"$files/exporter-passwords.json"
probe="#$(hash_of "$files/probe-password")"

# The rule for `shop` is the README's, for keys that begin with `shop:`.
cat >"$files/users.acl" <<ACL
user default off
user shop on $passwords resetchannels ~shop:* ~{shop:* &shop:* &{shop:* +set +get +del +pttl +pexpire +eval +evalsha +script|load +publish +subscribe +unsubscribe +ping +info +select +wait +cluster|slots +cluster|info +asking +pubsub|numsub
user probe on $probe resetchannels -@all +ping +info
ACL
