"""A neighbour in Python, told line by line what to do; tests/tests/interop says what it is asked.

client.py redis PORT       the Lock of redis-py, on one node
client.py pottery PORT...  pottery's Redlock, on several
"""

import os
import random
import sys
import time

import redis


class RedisPy:
    def __init__(self, ports):
        (port,) = ports
        self.redis = redis.Redis(port=port)

    def lock(self, key, ttl):
        return self.redis.lock(key, timeout=ttl)

    def acquire(self, lock):
        return lock.acquire(blocking=False)

    def release(self, lock):
        try:
            lock.release()
            return True
        except redis.exceptions.LockNotOwnedError:
            return False


class Pottery:
    def __init__(self, ports):
        import pottery

        # One connection each: what pottery leaves under way when it has its majority is seldom executed after the release then,
        # to stay until it runs out.
        self.nodes = {
            redis.Redis(
                connection_pool=redis.BlockingConnectionPool(port=port, max_connections=1, timeout=None)
            )
            for port in ports
        }
        self.pottery = pottery

    def lock(self, key, ttl):
        # Its keys are `redlock:KEY`.
        prefix, key = key.split(":", 1)
        assert prefix == "redlock"
        return self.pottery.Redlock(key=key, masters=self.nodes, auto_release_time=ttl)

    def acquire(self, lock):
        return lock.acquire(blocking=False)

    def release(self, lock):
        try:
            lock.release()
            return True
        except self.pottery.ReleaseUnlockedLock:
            return False


def say(words):
    print(words, flush=True)


def count(client, key, ttl, path, place):
    """Adds to its own of several counters in a file, under the lock, until there is a file that says that it is enough."""
    mine, refused = 0, 0
    while not os.path.exists(path + ".enough"):
        lock = client.lock(key, int(ttl) / 1000)
        if not client.acquire(lock):
            refused += 1
            time.sleep(random.uniform(0, 0.02))
            continue
        with open(path) as file:
            counters = [int(word) for word in file.read().split()]
        time.sleep(0.001)
        counters[place] += 1
        mine += 1
        with open(path, "w") as file:
            file.write(" ".join(map(str, counters)))
        if not client.release(lock):
            sys.exit("lost while it was held")
        time.sleep(random.uniform(0, 0.004))
    say(f"counted {mine} refused {refused}")


def main():
    name, *ports = sys.argv[1:]
    client = {"redis": RedisPy, "pottery": Pottery}[name]([int(port) for port in ports])
    lock = None
    say("ready")
    for line in sys.stdin:
        match line.split():
            case ["acquire", key, ttl]:
                lock = client.lock(key, int(ttl) / 1000)
                say("acquired" if client.acquire(lock) else "busy")
            case ["release"]:
                say("released" if client.release(lock) else "not ours")
            case ["count", key, ttl, path, place]:
                count(client, key, ttl, path, int(place))


main()
