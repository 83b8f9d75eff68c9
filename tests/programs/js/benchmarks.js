// What node's own directory benchmark/ exercises, in small: each says a number that is the same in each round. Rounds
// go on until the file that is named exists; then each result is printed once.
'use strict';
const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const path = require('path');
const querystring = require('querystring');
const url = require('url');
const util = require('util');
const vm = require('vm');
const zlib = require('zlib');
const { AsyncLocalStorage } = require('async_hooks');
const { EventEmitter } = require('events');
const { StringDecoder } = require('string_decoder');
const { Readable, Transform, pipeline } = require('stream');
const { Worker } = require('worker_threads');

const sum = (text) => [...Buffer.from(text)].reduce((sum, byte) => (sum * 31 + byte) >>> 0, 7);

const benchmarks = {
  buffers() {
    let n = 0;
    for (let i = 0; i < 100; i++) {
      const buffer = Buffer.alloc(256, i & 255);
      buffer.writeDoubleLE(i / 3, 8);
      buffer.write('wörter', 32, 'utf8');
      n += buffer.readDoubleLE(8) + buffer.indexOf('ter') + buffer.swap16().toString('base64').length;
      n += Buffer.compare(buffer, Buffer.concat([buffer.subarray(0, 100), buffer.subarray(50)]));
    }
    return n;
  },
  urls() {
    let n = 0;
    for (let i = 0; i < 30; i++) {
      const at = new URL(`https://user:pass@example.com:${8000 + i}/a/../b%20c?x=${i}&y=ä#z`);
      at.searchParams.append('more', `${i * 7}`);
      n += at.href.length + url.parse(at.href).pathname.length + querystring.stringify({ i, a: ['b', 'c'] }).length;
    }
    return n;
  },
  events() {
    const emitter = new EventEmitter();
    let n = 0;
    for (let i = 0; i < 8; i++) emitter.on('event', (value) => { n += value * i; });
    emitter.once('event', () => { n += 1e6; });
    for (let i = 0; i < 300; i++) emitter.emit('event', i);
    return n;
  },
  strings() {
    let text = '';
    for (let i = 0; i < 2000; i++) text += i.toString(36) + 'ß';
    const words = text.split(/ß|(?<=0)1/u).map((word) => word.padStart(4, '·').toUpperCase());
    return sum(words.join(',').replace(/(\w)(\d)/g, '$2$1').normalize('NFD').slice(0, 3000));
  },
  json() {
    const value = Array.from({ length: 100 }, (_, i) => ({ i, text: `"${i}"\n`, more: [i / 3, null, { deep: [true] }] }));
    const text = JSON.stringify(value, (_, value) => value, 1);
    assert.deepStrictEqual(JSON.parse(text), value);
    return sum(text.slice(0, 3000)) + structuredClone(value).length;
  },
  errors() {
    class Wrong extends Error {}
    const fails = (n) => { if (n === 0) throw new Wrong('wrong'); return fails(n - 1) + 1; };
    let n = 0;
    for (let i = 0; i < 50; i++) {
      try { fails(i % 40); } catch (why) { n += [why.stack, util.inspect(why)].join().match(/ fails /g)?.length ?? 0; }
      try { JSON.parse('{'); } catch (why) { n += why.message.length; }
      try { fs.readFileSync('/no/such/file'); } catch (why) { n += why.code.length; }
    }
    try { (function deep() { return deep() + 1; })(); } catch (why) { n += why instanceof RangeError; }
    return n;
  },
  collections() {
    // Much for the garbage collector, from JavaScript and from functions in C++.
    const map = new Map(), weak = new WeakMap();
    for (let i = 0; i < 3000; i++) {
      const key = { i, big: new Array(50).fill(i) };
      map.set(i % 500, key);
      weak.set(key, [i, BigInt(i) ** 5n]);
    }
    const sorted = [...map.values()].sort((a, b) => a.big[7] % 101 - b.big[7] % 101 || a.i - b.i);
    return sorted.reduce((n, key) => (n * 3 + Number(weak.get(key)[1] % 1009n)) % 1e9, 1);
  },
  calls() {
    const sandbox = vm.createContext({ n: 0, add: (a, b) => a + b });
    vm.runInContext('for (let i = 0; i < 100; i++) n = add(n, eval("i * 2"))', sandbox);
    // Exported function of a module: `(i32, i32) -> i32`, their sum.
    const module = Buffer.from('0061736d0100000001070160027f7f017f03020100070701036164640000' +
                               '0a09010700200020016a0b', 'hex');
    const add = new WebAssembly.Instance(new WebAssembly.Module(module)).exports.add;
    for (let i = 0; i < 1000; i++) sandbox.n = add(sandbox.n, i);
    return sandbox.n + Reflect.ownKeys(new Proxy({ a: 1, b: 2 }, { ownKeys: () => ['a', 'b'] })).length;
  },
  crypto() {
    let hex = 'begin';
    for (let i = 0; i < 100; i++) {
      hex = crypto.createHash(['md5', 'sha1', 'sha256', 'sha512'][i % 4]).update(hex).digest('hex');
    }
    const cipher = crypto.createCipheriv('aes-128-cbc', hex.slice(0, 16), hex.slice(16, 32));
    return sum(cipher.update(hex, 'utf8', 'hex') + cipher.final('hex')) +
      sum(crypto.createHmac('sha256', 'key').update(hex).digest());
  },
  async streams() {
    const decoder = new StringDecoder('utf8');
    const upper = new Transform({ transform(chunk, _, done) { done(null, decoder.write(chunk).toUpperCase()); } });
    const chunks = [];
    await util.promisify(pipeline)(Readable.from(Array.from({ length: 50 }, (_, i) => Buffer.from(`zeile ${i}ä\n`))),
      upper, zlib.createGzip(), zlib.createGunzip(), async (from) => { for await (const one of from) chunks.push(one); });
    return sum(Buffer.concat(chunks));
  },
  async files() {
    const directory = fs.mkdtempSync(path.join(process.argv[2], '..', 'files-'));
    await Promise.all(Array.from({ length: 20 }, (_, i) =>
      fs.promises.writeFile(path.join(directory, `${i}`), 'x'.repeat(i * 100))));
    const sizes = fs.readdirSync(directory).map((name) => fs.statSync(path.join(directory, name)).size);
    const text = await fs.promises.readFile(path.join(directory, '7'), 'latin1');
    fs.rmSync(directory, { recursive: true });
    return sizes.reduce((a, b) => a + b) + text.length;
  },
  async timers() {
    const storage = new AsyncLocalStorage();
    const one = (i) => storage.run(i, async () => {
      await new Promise(i % 2 ? setImmediate : process.nextTick);
      await new Promise((done) => setTimeout(done, i % 3));
      return storage.getStore();
    });
    return (await Promise.all(Array.from({ length: 50 }, (_, i) => one(i)))).reduce((a, b) => a + b);
  },
  async http() {
    const server = http.createServer((request, response) => {
      let size = 0;
      request.on('data', (data) => { size += data.length; });
      request.on('end', () => response.end(`${request.url} ${size}`));
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
    const ask = (i) => new Promise((done, fail) => {
      const at = { host: '127.0.0.1', port: server.address().port, path: `/${i}`, method: 'POST', agent };
      http.request(at, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (data) => { text += data; }).on('end', () => done(sum(text)));
      }).on('error', fail).end('y'.repeat(i * 50));
    });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i)));
    agent.destroy();
    await new Promise((done) => server.close(done));
    return answers.reduce((a, b) => (a + b) % 1e9);
  },
  async workers() {
    const source = `const { parentPort, workerData } = require('worker_threads');
      const big = []; for (let i = 0; i < 5000; i++) big.push({ i, text: 'w' + i });
      parentPort.on('message', (n) => { parentPort.postMessage(big[n].text + JSON.stringify(big[n + 1])); });`;
    const worker = new Worker(source, { eval: true });
    worker.postMessage(7);
    const answer = await new Promise((done, fail) => worker.on('message', done).on('error', fail));
    await worker.terminate();
    return sum(answer);
  },
};

async function main() {
  const results = {};
  let rounds = 0;
  do {
    for (const [name, benchmark] of Object.entries(benchmarks)) {
      const result = await benchmark();
      results[name] ??= result;
      assert.strictEqual(result, results[name], name);
    }
    rounds += 1;
    process.stderr.write(`round ${rounds}\n`);
  } while (!fs.existsSync(process.argv[2]));
  for (const [name, result] of Object.entries(results)) console.log(name, result);
}

main();
