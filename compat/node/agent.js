'use strict';

// A node-redlock that is told what to do.
//
//   node agent.js 4|5 HOST:PORT...
//
// Each line on standard input is a request, {"id", "op", ...}; each line on standard output
// is the answer to one, {"id"} with "error" if it failed. The process ends with its standard
// input.

const { connect, orders } = require('./connect');

const [version, ...addrs] = process.argv.slice(2);

const clients = connect(addrs, fail);

// Each attempt is a call of its own. Version 5 keeps the votes of an attempt that failed
// while it waits for the next one, so that several that split the votes wait for their ttl.
const settings = { retryCount: 0 };

const library = {
  4: () => {
    const Redlock = require('redlock4');
    const redlock = new Redlock(clients, settings);
    redlock.on('clientError', fail);
    return {
      acquire: (keys, ttl) => redlock.lock(keys, ttl),
      extend: (lock, ttl) => lock.extend(ttl),
      release: (lock) => lock.unlock(),
      isTaken: (err) => err instanceof Redlock.LockError,
    };
  },
  5: () => {
    const { default: Redlock, ExecutionError, ResourceLockedError } = require('redlock5');
    const redlock = new Redlock(clients, settings);
    redlock.on('error', (err) => {
      if (!(err instanceof ResourceLockedError)) fail(err);
    });
    return {
      acquire: (keys, ttl) => redlock.acquire(keys, ttl),
      extend: (lock, ttl) => lock.extend(ttl),
      release: (lock) => lock.release(),
      isTaken: (err) => err instanceof ExecutionError,
    };
  },
}[version]();

const locks = new Map(); // By the id of the request that acquired them.

const ops = {
  lock: async ({ id, keys, ttl }) => {
    for (;;) {
      try {
        locks.set(id, await library.acquire(keys, ttl));
        return;
      } catch (err) {
        if (!library.isTaken(err)) throw err;
      }
      await new Promise((resolve) => setTimeout(resolve, 5 + 10 * Math.random()));
    }
  },
  extend: async ({ lock, ttl }) => locks.set(lock, await library.extend(locks.get(lock), ttl)),
  unlock: async ({ lock }) => {
    const held = locks.get(lock);
    locks.delete(lock);
    await library.release(held);
  },
};

// What is neither a lock nor a refusal must not look like one.
function fail(err) {
  console.error(err);
  process.exit(1);
}

orders(async (request) => {
  const answer = { id: request.id };
  try {
    await ops[request.op](request);
  } catch (err) {
    answer.error = String(err);
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
});
