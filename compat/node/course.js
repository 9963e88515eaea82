'use strict';

// A client process of node-redlock 5 on the course of ../../proof/peers, whose locker/worker.go does the same for the
// libraries in Go; the protocol is ../../proof/chaos/protocol.

const net = require('net');
const readline = require('readline');
const { default: Redlock } = require('redlock5');
const { connect, orders } = require('./connect');

// As in locker/client.go, in milliseconds.
const shortWork = 40;
const pause = 60;
const longShare = 24;
const waitShare = 2;
const patience = 3000; // The longest that the default settings wait for others: 10 retries of 200 + 100 ms.

let cfg;
let observer;
let redlock;
let stopped = false;
let calls = 0;
const answers = []; // In the order of the requests.
let drawn; // The value of the latest lock that was asked for.

const now = () => Number(process.hrtime.bigint() - BigInt(cfg.start));
const until = (lock) => now() + (lock.expiration - Date.now()) * 1e6;
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

function log(event) {
  observer.write(`${JSON.stringify({ at: now(), client: cfg.client, ...event })}\n`);
}

function ask(event) {
  return new Promise((resolve) => {
    answers.push(resolve);
    log(event);
  });
}

// call tells of a call before and after it. What succeeds may add to what is told.
async function call(event, made) {
  const id = (calls += 1);
  log({ kind: 'call', call: id, ...event });
  const { op, lock, resources } = event;
  const end = { kind: 'return', op, call: id, lock, resources };
  try {
    const result = await made(id);
    log({ ...end, ok: true, ...result });
    return id;
  } catch (err) {
    log({ ...end, err: String(err), token: err.token });
    return 0;
  }
}

// named adds to an error whose keys it may have left.
function named(err, token) {
  return Object.assign(err, { token });
}

// last works for as long as it is told, and returns whether the lock is held to the end.
async function last(id, length, signal, lock) {
  const done = Date.now() + length;
  for (;;) {
    if (signal && signal.aborted) {
      log({ kind: 'lost', lock: id });
      return false;
    }
    if (lock && Date.now() >= lock.expiration) return false;
    const left = done - Date.now();
    if (left <= 0 || stopped) return true;
    await sleep(Math.min(left, 20));
  }
}

// section reads the register, works, and writes it, unless the library has said by then that the lock is over.
async function section(id, resource, length, signal, lock) {
  const resources = [resource];
  log({ kind: 'enter', lock: id, resources });
  const read = await ask({ kind: 'read', lock: id, resources });
  if (read.ok && await last(id, length, signal, lock)) {
    await ask({ kind: 'write', lock: id, resources, value: (read.value || 0) + 1 });
  }
  log({ kind: 'leave', lock: id, resources });
}

function acquisition(resource, wait) {
  return {
    op: wait ? 'lock' : 'trylock', resources: [resource], ttl: cfg.ttl, bound: now() + (wait ? patience : 0) * 1e6 + 1e9, // More than a second is slow.
  };
}

// short acquires, works and releases.
async function short(resource, wait, length) {
  const ttl = cfg.ttl / 1e6;
  let lock;
  const id = await call(acquisition(resource, wait), async () => {
    const asked = redlock.acquire([resource], ttl, wait ? undefined : { retryCount: 0 });
    const token = drawn;
    lock = await asked.catch((err) => { throw named(err, token); });
    return { until: until(lock), token };
  });
  if (!id) return;
  await section(id, resource, length, undefined, lock);
  await call({ op: 'unlock', lock: id, resources: [resource] }, async () => { await lock.release(); });
}

// long has the library extend the lock while it works. The library does not say how long such a lock is valid: it
// aborts the signal when it is lost.
async function long(resource, wait, length) {
  const ttl = cfg.ttl / 1e6;
  let released; // Settles when using has released the lock.
  let ended; // To be called with how that went.
  const id = await call(acquisition(resource, wait), (mine) => new Promise((acquired, failed) => {
    const settings = wait ? {} : { retryCount: 0 };
    let token;
    const using = redlock.using([resource], ttl, settings, async (signal) => {
      acquired({ token });
      await section(mine, resource, length, signal);
      released = new Promise((resolve) => { ended = resolve; });
      call({ op: 'unlock', lock: mine, resources: [resource] }, async () => {
        const err = await released;
        if (err) throw err;
      });
    });
    token = drawn;
    using.then(() => ended(), (err) => (ended ? ended(err) : failed(named(err, token))));
  }));
  while (id && !ended) await sleep(5);
  if (id) await released;
}

async function work() {
  while (!stopped) {
    const resource = cfg.resources[Math.floor(Math.random() * cfg.resources.length)];
    const length = Math.random() * shortWork;
    const wait = Math.random() * waitShare < 1;
    if (Math.random() * longShare < 1) {
      await long(resource, wait, (cfg.ttl / 1e6) * (1 + 2 * Math.random()));
    } else {
      await short(resource, wait, length);
    }
    await sleep(Math.random() * pause);
  }
}

async function run() {
  const address = cfg.observer.startsWith('/') ? [cfg.observer] : cfg.observer.split(':').reverse();
  observer = net.connect(...address);
  await new Promise((resolve) => { observer.once('connect', resolve); });
  observer.setNoDelay(true);
  observer.on('error', () => {}); // The run is over.
  readline.createInterface({ input: observer }).on('line', (line) => answers.shift()(JSON.parse(line)));

  process.stdout.write('ready\n');

  redlock = new Redlock(connect(cfg.nodes, () => {})); // A server that is away is a fault of the course.
  const random = redlock._random.bind(redlock);
  redlock._random = () => { drawn = random(); return drawn; };
  await Promise.all(Array.from({ length: cfg.workers }, work));
  process.stdout.write('done\n');
}

orders((order) => {
  if (!cfg) {
    cfg = order;
    run();
  } else if (order.do === 'stop') {
    stopped = true;
  }
});
