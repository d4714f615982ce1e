import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { directorySource, fileSource, nodeSource, open, urlSource } from "../../gym_recording/readers/gym_recording.js";
import { Blob, complaint, NAME, plain, recording, TRACE } from "./recording.mjs";

const MANIFEST = `${TRACE}.manifest.json`;

function files() {
  const blob = new Blob();
  return recording(blob, [plain(blob), plain(blob)]);
}

/** A server of files at /recording/, which answers as `answer` says, or as it should. It counts requests and bytes. */
async function serve(served, answer = () => undefined) {
  const log = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://127.0.0.1");
    const name = url.pathname.replace("/recording/", "");
    const range = /^bytes=([0-9]+)-([0-9]+)$/.exec(request.headers.range ?? "");
    log.push({ name, range: range?.[0], query: url.search, header: request.headers["x-test"] });
    const bytes = served.get(name);
    const [status, body, headers] = answer(name, bytes, range) ?? normal(bytes, range);
    response.writeHead(status, headers);
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}/recording`, log };
}

function normal(bytes, range) {
  if (!bytes) return [404, "none"];
  if (!range) return [200, bytes];
  const [start, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, bytes.length)];
  if (start >= bytes.length) return [416, "beyond"];
  return [206, bytes.slice(start, end), { "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}` }];
}

const noRange = (name, bytes) => (bytes ? [200, bytes] : undefined);
const check = async (read) => {
  assert.deepEqual([...(await read.episode(0)).observations.data, (await read.episode(1)).actions.row(0)], [1, 2, 3n]);
};

test("a server with ranges sends rows alone; the manifest is name enough", async () => {
  const served = files();
  const { url, log } = await serve(served);
  const read = await open(urlSource(`${url}/?token=7`, [MANIFEST], { headers: { "X-Test": "here" } }));
  assert.equal(read.length, 2);
  await check(read);
  const blobs = log.filter(({ name }) => name.endsWith(".bin"));
  assert.deepEqual(log.map(({ name }) => name).slice(0, 2), [MANIFEST, `${NAME}.json`]);
  assert.equal(blobs.length, 6);
  assert.ok(blobs.every(({ range }) => /^bytes=([0-9]+)-[0-9]+$/.test(range)));
  assert.equal(new Set(blobs.map(({ range }) => range)).size, 6);
  assert.ok(log.every(({ query, header }) => query === "?token=7" && header === "here"));
});

test("a server without ranges sends a blob once, whatever is read of it, and how much at once", async () => {
  const { url, log } = await serve(files(), noRange);
  const read = await open(urlSource(url, [MANIFEST]));
  await Promise.all([check(read), check(read)]);
  assert.equal(log.filter(({ name }) => name === `${NAME}.bin`).length, 1);
});

test("a blob that has grown is asked for again, of a server without ranges", async () => {
  const served = files();
  const { url, log } = await serve(served, noRange);
  const source = urlSource(url, []);
  const whole = served.get(`${NAME}.bin`);
  served.set(`${NAME}.bin`, whole.slice(0, 10));
  assert.equal((await source.bytes(`${NAME}.bin`, 0, 10)).length, 10);
  served.set(`${NAME}.bin`, whole);
  assert.equal((await source.bytes(`${NAME}.bin`, 5, 20)).length, 15);
  assert.equal(log.length, 2);
});

test("names may come from a JSON list", async () => {
  const served = files();
  served.set("names", new TextEncoder().encode(JSON.stringify([...served.keys(), "other.txt", 3])));
  served.set("none", new TextEncoder().encode("{}"));
  const { url } = await serve(served);
  await check(await open(urlSource(url, new URL(`${url}/names`))));
  await assert.rejects(open(urlSource(url, new URL(`${url}/none`))), complaint({ problem: "not a list of names" }));
  await assert.rejects(open(urlSource(url, new URL(`${url}/absent`))), complaint({ problem: "not a list of names" }));
});

test("headers that no manifest lists are read if they are named", async () => {
  const served = files();
  const { url } = await serve(served);
  const read = await open(urlSource(url, [`${NAME}.json`]));
  await check(read);
});

test("what a server does not have is missing, and what it fails at is an error", async () => {
  const served = files();
  served.delete(`${NAME}.bin`);
  const { url } = await serve(served);
  await assert.rejects(
    (await open(urlSource(url, [MANIFEST]))).episode(0),
    complaint({ file: `${NAME}.bin`, missing: true }),
  );
  served.delete(`${NAME}.json`);
  await assert.rejects(
    (await open(urlSource(url, [MANIFEST]))).episode(0),
    complaint({ file: `${NAME}.json`, missing: true }),
  );
  const broken = await serve(files(), () => [500, "no"]);
  const read = await open(urlSource(broken.url, [MANIFEST]));
  assert.match(read.problems[0].message, /manifest.json: cannot be fetched \(expected status 200 or 206, found 500\)/);
  await assert.rejects(
    urlSource("http://127.0.0.1:1/", []).bytes(MANIFEST, 0, 1),
    complaint({ problem: "cannot be fetched" }),
  );
});

for (const [name, answer, problem] of [
  ["another range", [206, new Uint8Array(2), { "Content-Range": "bytes 0-1/9000" }], "the server sent another range"],
  ["more than was asked for", [206, new Uint8Array(9000)], "the server sent more than was asked for"],
  ["less", [206, new Uint8Array(1)], "the array is not wholly there"],
  ["nothing", [416, ""], "the array is not wholly there"],
]) {
  test(`a server that sends ${name} is not believed`, async () => {
    const { url } = await serve(files(), (file) => (file.endsWith(".bin") ? answer : undefined));
    await assert.rejects(
      (await open(urlSource(url, [MANIFEST]))).episode(0),
      complaint({ file: `${NAME}.bin`, problem }),
    );
  });
}

// ---- files of a browser; objects that are as those

function browserFile(name, bytes, path = "") {
  const slice = (start, end) => ({ arrayBuffer: async () => bytes.slice(start, end).buffer });
  return { name, webkitRelativePath: path, size: bytes.length, slice };
}

test("files that a user chose are read, not those of folders inside", async () => {
  const chosen = [...files()].map(([name, bytes]) => browserFile(name, bytes, `folder/${name}`));
  chosen.push(browserFile(MANIFEST, new Uint8Array(3), `folder/inside/${MANIFEST}`));
  await check(await open(fileSource(chosen)));
  await check(await open(fileSource([...files()].map(([name, bytes]) => browserFile(name, bytes)))));
});

test("a folder that a user chose is read", async () => {
  const inside = files();
  const named = (name, problem) => Object.assign(new Error(problem), { name: problem });
  const folder = {
    async *entries() {
      for (const name of inside.keys()) yield [name, { kind: "file" }];
      yield [`${TRACE}.ep000000009.json`, { kind: "directory" }];
    },
    async getFileHandle(name) {
      if (!inside.has(name)) throw named(name, "NotFoundError");
      if (name === "locked") throw named(name, "NotReadableError");
      return { getFile: async () => browserFile(name, inside.get(name)) };
    },
  };
  await check(await open(directorySource(folder)));
  inside.set("locked", new Uint8Array(1));
  await assert.rejects(directorySource(folder).bytes("locked", 0, 1), complaint({ problem: "cannot be opened" }));
  const read = await open(directorySource(folder));
  inside.delete(`${NAME}.bin`);
  await assert.rejects(read.episode(0), complaint({ missing: true, file: `${NAME}.bin` }));
});

// ---- Node

test("a directory is read, no link is followed, and nothing but a recording is opened", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "recording-"));
  t.after(() => rm(directory, { recursive: true }));
  for (const [name, bytes] of files()) await writeFile(join(directory, name), bytes);
  const source = nodeSource(directory);
  await check(await open(source));
  assert.deepEqual((await source.bytes(`${NAME}.bin`, 10 ** 9, 2 ** 40)).length, 0);
  assert.equal(await source.bytes(`${NAME}.1.bin`, 0, 1), null);
  await mkdir(join(directory, `${NAME}.2.bin`));
  await symlink(`${NAME}.bin`, join(directory, `${NAME}.3.bin`));
  for (const name of [`${NAME}.2.bin`, `${NAME}.3.bin`]) {
    await assert.rejects(source.bytes(name, 0, 1), complaint({ file: name, expected: "a regular file" }));
  }
  for (const name of ["/etc/passwd", `../${NAME}.bin`, `${NAME}.bin\0`, ".."]) {
    await assert.rejects(source.bytes(name, 0, 1), complaint({ problem: "not a name of a recording" }));
    await assert.rejects(urlSource("http://127.0.0.1:1/", []).bytes(name, 0, 1), complaint({ problem: /not a name/ }));
  }
});

test("a directory that does not exist has no episodes", async () => {
  assert.equal((await open(nodeSource(join(tmpdir(), "no such recording")))).length, 0);
});

test("a file that has changed since it was chosen is told by name; one that is gone is missing", async () => {
  const failing = (file, name) => ({
    name: file,
    slice: () => ({ arrayBuffer: () => Promise.reject(new DOMException("", name)) }),
  });
  const source = fileSource([failing("a", "NotReadableError"), failing("b", "NotFoundError"), failing("c", "Other")]);
  await assert.rejects(source.bytes("a", 0, 1), complaint({ file: "a", found: "NotReadableError" }));
  assert.equal(await source.bytes("b", 0, 1), null);
  await assert.rejects(source.bytes("c", 0, 1), { name: "Other" });
});
