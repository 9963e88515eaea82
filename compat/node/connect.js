'use strict';

const readline = require('readline');
const Redis = require('ioredis');

// connect returns a client for each HOST:PORT, whose errors go to onError.
exports.connect = (addrs, onError) => addrs.map((addr) => {
  const [host, port] = addr.split(':');
  const client = new Redis({ host, port: Number(port) });
  client.on('error', onError);
  return client;
});

// orders hands each line of standard input to carryOut, decoded. The process ends with its input.
exports.orders = (carryOut) => {
  readline.createInterface({ input: process.stdin })
    .on('line', (line) => carryOut(JSON.parse(line)))
    .on('close', () => process.exit(0));
};
