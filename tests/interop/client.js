// A neighbour in JavaScript, told line by line what to do; tests/tests/interop says what it is asked.
//
// client.js redlock PORT...    node-redlock 4 with ioredis
// client.js redlock-5 PORT...  node-redlock 5 with ioredis
"use strict";

const { existsSync } = require("node:fs");
const fs = require("node:fs/promises");
const path = require("node:path");
const readline = require("node:readline");
const { createRequire } = require("node:module");

// Where scripts/test has installed them.
const installed = createRequire(path.join(process.env.LOCK_TEST_NODE, "here.js"));
const Redis = installed("ioredis");

const [name, ...ports] = process.argv.slice(2);
const nodes = ports.map((port) => new Redis({ port: Number(port), host: "127.0.0.1" }));
const once = { retryCount: 0 };

const clients = {
  redlock(nodes) {
    const Redlock = installed("redlock");
    const redlock = new Redlock(nodes, once);
    return {
      acquire: (key, ttl) => redlock.lock(key, ttl),
      release: (lock) => lock.unlock(),
      refused: (error) => error instanceof Redlock.LockError,
    };
  },
  "redlock-5"(nodes) {
    const { default: Redlock, ExecutionError } = installed("redlock-5");
    const redlock = new Redlock(nodes, { ...once, automaticExtensionThreshold: 0 });
    return {
      acquire: (key, ttl) => redlock.acquire([key], ttl),
      release: (lock) => lock.release(),
      refused: (error) => error instanceof ExecutionError,
    };
  },
};
const client = clients[name](nodes);

const say = (words) => process.stdout.write(`${words}\n`);
const pause = (longest) => new Promise((resolve) => setTimeout(resolve, Math.random() * longest));

/** The lock, or nothing where somebody else has it. */
async function acquire(key, ttl) {
  try {
    return await client.acquire(key, ttl);
  } catch (error) {
    if (client.refused(error)) return undefined;
    throw error;
  }
}

/** Whether it was still its own. */
async function release(lock) {
  try {
    await client.release(lock);
    return true;
  } catch (error) {
    if (client.refused(error)) return false;
    throw error;
  }
}

/** Adds to its own of several counters in a file, under the lock, until there is a file that says that it is enough. */
async function count(key, ttl, file, place) {
  let mine = 0;
  let refused = 0;
  while (!existsSync(`${file}.enough`)) {
    const lock = await acquire(key, ttl);
    if (!lock) {
      refused += 1;
      await pause(20);
      continue;
    }
    const counters = (await fs.readFile(file, "utf8")).split(" ").map(Number);
    await pause(2);
    counters[place] += 1;
    mine += 1;
    await fs.writeFile(file, counters.join(" "));
    if (!(await release(lock))) throw new Error("lost while it was held");
    await pause(4);
  }
  say(`counted ${mine} refused ${refused}`);
}

/**
 * Its scripts are sent where a node does not know them, which takes a second request. In front of that a release may come
 * that was sent meanwhile, where others had a majority already, and what is taken then stays until it runs out.
 */
async function haveScripts(node) {
  const alone = clients[name]([node]);
  await alone.release(await alone.acquire(`scripts:${process.pid}`, 60_000));
}

async function main() {
  let lock;
  await Promise.all(nodes.map(haveScripts));
  say("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, key, ...rest] = line.split(" ");
    if (word === "acquire") {
      lock = await acquire(key, Number(rest[0]));
      say(lock ? "acquired" : "busy");
    } else if (word === "release") {
      say((await release(lock)) ? "released" : "not ours");
    } else if (word === "count") {
      const [ttl, file, place] = rest;
      await count(key, Number(ttl), file, Number(place));
    }
  }
  nodes.forEach((node) => node.disconnect());
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
