import assert from "node:assert/strict";
import { test } from "node:test";

import { DictColumns, open, TraceError, Tuple, TupleColumns } from "../../gym_recording/readers/gym_recording.js";
import { about, Blob, complaint, Counting, NAME, plain, recording, sealed, TRACE } from "./recording.mjs";

/** Three episodes of 100 steps, in columns: 1616 bytes of observations each, 800 of actions, 800 of rewards. */
function threeEpisodes() {
  const blob = new Blob();
  const rows = (count, width) => Float32Array.from({ length: 3 * count * width }, (_, i) => i);
  const columns = {
    observations: blob.add("float32", [303, 4], rows(101, 4)),
    actions: blob.add(
      "int64",
      [300],
      BigInt64Array.from({ length: 300 }, (_, i) => BigInt(i)),
    ),
    rewards: blob.add(
      "float64",
      [300],
      Float64Array.from({ length: 300 }, (_, i) => i / 2),
    ),
  };
  const episodes = [0, 1, 2].map((number) => {
    const part = (column, count, size) => {
      const shape = [count, ...column.shape.slice(1)];
      return { ...column, shape, size: count * size, npyoff: column.npyoff + number * count * size };
    };
    return {
      observations: part(columns.observations, 101, 16),
      actions: part(columns.actions, 100, 8),
      rewards: part(columns.rewards, 100, 8),
      ended_by: "close",
    };
  });
  return recording(blob, episodes);
}

const size = (files, name) => files.get(name).length;

test("opening reads the manifest, an episode its header and its rows, and no byte more", async () => {
  const files = threeEpisodes();
  const source = new Counting(files);
  const read = await open(source);
  assert.equal(source.count, size(files, `${TRACE}.manifest.json`));
  assert.equal(read.length, 3);

  const episode = await read.episode(1);
  assert.equal(source.count, size(files, `${NAME}.json`) + 1616 + 800 + 800);
  assert.deepEqual(episode.observations.shape, [101, 4]);
  assert.deepEqual([...episode.observations.row(100).data], [804, 805, 806, 807]);
  assert.deepEqual([episode.actions.row(0), episode.rewards.row(99)], [100n, 99.5]);

  await read.episode(2); // the header is remembered
  assert.equal(source.count, 1616 + 800 + 800);
});

test("a batch that no manifest lists costs its header when the recording is opened", async () => {
  const files = threeEpisodes();
  files.delete(`${TRACE}.manifest.json`);
  const source = new Counting(files);
  assert.equal((await open(source)).length, 3);
  assert.equal(source.count, size(files, `${NAME}.json`));
});

test("arrays that lie side by side are read together", async () => {
  const blob = new Blob();
  const observations = Array.from({ length: 101 }, (_, i) => blob.add("uint8", [16], new Uint8Array(16).fill(i), 128));
  const [actions, rewards] = [0, 1].map(() => blob.add("float64", [100], new Float64Array(100)));
  const source = new Counting(recording(blob, [{ observations, actions, rewards }]));
  const episode = await (await open(source)).episode(0);
  assert.equal(source.reads.filter(([name]) => name === blob.fn).length, 3);
  assert.deepEqual(
    episode.observations.map((row) => row.data[15]),
    Array.from({ length: 101 }, (_, i) => i),
  );
});

test("blobs are read whole, and compared, on request", async () => {
  const files = threeEpisodes();
  const source = new Counting(files);
  await (await open(source, { verify: true })).episode(0);
  assert.ok(source.count > size(files, `${NAME}.bin`));
  files.get(`${NAME}.bin`)[5] ^= 1; // of nobody's
  await (await open(source)).episode(0);
  const read = await open(source, { verify: true });
  await assert.rejects(read.episode(0), complaint({ file: `${NAME}.bin`, field: /crc32/, problem: "damaged" }));
});

test("episodes come in order, and by batch", async () => {
  const read = await open(new Counting(threeEpisodes()));
  const lengths = [];
  for await (const episode of read) lengths.push(episode.length);
  for await (const episode of read.episodes(read.traces[0].batches[0])) lengths.push(episode.length);
  assert.deepEqual(lengths, [100, 100, 100, 100, 100, 100]);
  await assert.rejects(read.episode(3), RangeError);
  await assert.rejects(read.episode(-1), RangeError);
});

// ---- what is missing

test("episodes that are missing are named, and no other is touched", async () => {
  const files = threeEpisodes();
  const late = sealed('"first": 5, "blobs": [], "columns": [], "episodes": []');
  files.set(`${TRACE}.ep000000005.json`, late);
  const source = new Counting(files);
  const read = await open(source);
  assert.equal(source.looks, 4);
  assert.deepEqual([read.length, read.problems.length], [6, 1]);
  assert.equal((await read.episode(2)).length, 100);
  await assert.rejects(
    read.episode(4),
    complaint({ problem: "episodes 3..4 are missing", missing: true, file: /ep000000003/ }),
  );
});

test("a listing that was made while a writer renamed is made again", async () => {
  const files = threeEpisodes();
  const source = new Counting(new Map([[`${TRACE}.manifest.json`, files.get(`${TRACE}.manifest.json`)]]));
  const names = source.names.bind(source);
  source.names = async () => {
    const seen = [...(await names())];
    if (source.looks === 2) files.forEach((bytes, name) => source.files.set(name, bytes));
    return seen;
  };
  assert.deepEqual((await open(source)).problems, []);
  assert.equal(source.looks, 3);
});

test("a header that is read anew names the blob that a running episode has now", async () => {
  const [before, after] = [new Blob(NAME), new Blob(`${NAME}.1`)];
  const files = recording(before, [plain(before)]);
  const source = new Counting(files);
  const read = await open(source);
  const bytes = source.bytes.bind(source);
  source.bytes = async (name, ...range) => {
    const found = await bytes(name, ...range);
    if (name === `${NAME}.json`) {
      files.delete(before.fn);
      recording(after, [{ ...plain(after), seed: 5 }]).forEach((value, key) => files.set(key, value));
    }
    return found;
  };
  assert.equal((await read.episode(0)).seed, 5);
});

test("a blob that is missing, or shorter than its arrays, is an error that names it", async () => {
  const blob = new Blob();
  const files = recording(blob, [plain(blob)]);
  files.set(blob.fn, blob.bytes.slice(0, -1));
  const read = await open(new Counting(files));
  await assert.rejects(read.episode(0), complaint({ file: blob.fn, problem: "the array is not wholly there" }));
  files.delete(blob.fn);
  await assert.rejects(read.episode(0), complaint({ file: blob.fn, missing: true, field: /^episodes\[0\]/ }));
});

test("a source that knows sizes is asked before anything is read of a blob", async () => {
  const blob = new Blob();
  const source = new Counting(recording(blob, [plain(blob)]));
  source.size = async (name) => (name === blob.fn ? blob.bytes.length - 1 : source.files.get(name).length);
  const read = await open(source);
  await assert.rejects(read.episode(0), complaint({ file: blob.fn, problem: "cut short" }));
  assert.ok(source.reads.every(([name]) => name !== blob.fn));
  source.size = async () => 2 ** 30 + 1;
  assert.match((await open(source)).traces[0].error.message, /too large/);
});

// ---- JSON

const episodeOf = async (text, options) => {
  const blob = new Blob();
  const members = JSON.stringify(plain(blob)).slice(1, -1);
  return (await open(new Counting(recording(blob, [`{${members}, ${text}}`])), options)).episode(0);
};

test("integers of any size are read exactly", async () => {
  assert.equal((await episodeOf('"seed": 9007199254740991')).seed, 9007199254740991);
  assert.equal((await episodeOf('"seed": 9007199254740993')).seed, 9007199254740993n);
  assert.equal((await episodeOf(`"seed": -${2n ** 4095n}`)).seed, -(2n ** 4095n));
  await assert.rejects(episodeOf(`"seed": ${2n ** 4096n}`), complaint({ problem: "an integer of too many bits" }));
  await assert.rejects(episodeOf('"seed": 1.0'), complaint({ field: "episodes[0].seed" }));
});

test("an integer and a float of the same value can be told apart on request", async () => {
  const text = '"options": [1, 1.0, -0.0, 1e3, 9007199254740993]';
  assert.deepEqual((await episodeOf(text)).options, [1, 1, -0, 1000, 9007199254740993n]);
  assert.deepEqual((await episodeOf(text, { bigint: true })).options, [1n, 1, -0, 1000, 9007199254740993n]);
});

test("a dict keeps its order, whatever its keys are", async () => {
  const { options } = await episodeOf('"options": {"10": 1, "9": 2, "__proto__": 3, "constructor": {"a": []}}');
  assert.deepEqual([...options.keys()], ["10", "9", "__proto__", "constructor"]);
  const odd = await episodeOf('"options": {"__type": "dict", "items": [[2, "a"], ["2", "b"], [null, 1], [2.5, true]]}');
  assert.deepEqual(
    [...odd.options],
    [
      [2, "a"],
      ["2", "b"],
      [null, 1],
      [2.5, true],
    ],
  );
});

test("tuples are told from lists, and an unknown type is an error", async () => {
  const { options } = await episodeOf('"options": [{"__type": "tuple", "items": [7]}, [7]]');
  assert.ok(options[0] instanceof Tuple && options[0][0] === 7 && options[0].length === 1);
  assert.ok(!(options[1] instanceof Tuple));
  await assert.rejects(episodeOf('"options": {"__type": "set"}'), complaint({ field: "episodes[0].options.__type" }));
});

for (const [name, text, problem] of [
  ["a key twice", '"a": 1, "\\u0061": 2', "a key stands twice"],
  [
    "a dict with 1 and true as keys",
    '"options": {"__type": "dict", "items": [[1, 1], [true, 1]]}',
    "a key stands twice",
  ],
  ["NaN", '"a": NaN', "not strict JSON"],
  ["a comma too many", '"a": [1,]', /not valid JSON/],
  ["a leading zero", '"a": 01', /not valid JSON/],
  ["no fraction", '"a": 1.', /not valid JSON/],
  ["a raw line break", '"a": "\n"', /not valid JSON/],
  ["an unknown escape", '"a": "\\x"', /not valid JSON/],
  ["a depth of 2000", `"a": ${"[".repeat(2000)}${"]".repeat(2000)}`, "the JSON nests too deeply"],
  ["a value of depth 33", `"options": ${"[".repeat(33)}${"]".repeat(33)}`, "nested too deeply"],
]) {
  test(`a header with ${name} is refused`, async () => {
    await assert.rejects(episodeOf(text), complaint({ problem, file: `${NAME}.json` }));
  });
}

test("texts are read with every escape, half characters too", async () => {
  const { options } = await episodeOf('"options": ["\\ud83d\\ude00", "\\ud800", "\\"\\\\\\n\\u0000", "ä😀"]');
  assert.deepEqual(options, ["😀", "\ud800", '"\\\n\0', "ä😀"]);
});

test("an error has all its parts, also where nobody catches it", async () => {
  const caught = await episodeOf('"seed": 1.5').catch((error) => error);
  assert.ok(
    caught.stack.startsWith(`TraceError: ${NAME}.json: episodes[0].seed: malformed (found 1.5)\n`),
    caught.stack,
  );
  const error = new TraceError("malformed", { file: "f", field: "a.b", expected: "c", found: "d" });
  assert.equal(error.message, "f: a.b: malformed (expected c, found d)");
  assert.equal(String(error), "TraceError: f: a.b: malformed (expected c, found d)");
});

// ---- columns, infos, traces

test("columns of dicts and tuples give rows", async () => {
  const blob = new Blob();
  const one = plain(blob);
  const observations = { image: blob.add("uint8", [2, 2], Uint8Array.of(1, 2, 3, 4)), text: ["a", null] };
  const actions = { __type: "tuple", items: [one.actions, { 1: one.rewards }] };
  const episode = await (await open(new Counting(recording(blob, [{ ...one, observations, actions }])))).episode(0);
  assert.ok(episode.observations instanceof DictColumns && episode.actions instanceof TupleColumns);
  assert.deepEqual(episode.observations.get("image").shape, [2, 2]);
  assert.deepEqual([...episode.observations.row(1).get("image").data], [3, 4]);
  assert.equal(episode.observations.row(1).get("text"), null);
  assert.deepEqual([...episode.actions.row(0)], [3n, new Map([["1", 0.5]])]);
  assert.throws(() => episode.observations.row(2), RangeError);
});

test("infos give a dict for each observation", async () => {
  const blob = new Blob();
  const infos = [
    {
      key: "lives",
      rows: blob.add("int64", [2], BigInt64Array.of(0n, 1n)),
      values: blob.add("int8", [2], Int8Array.of(5, 4)),
    },
    { key: 2, rows: blob.add("int64", [1], BigInt64Array.of(1n)), values: ["x"] },
  ];
  const episode = await (await open(new Counting(recording(blob, [{ ...plain(blob), infos }])))).episode(0);
  assert.equal(episode.infos.length, 2);
  assert.deepEqual([...episode.infos.row(0)], [["lives", 5]]);
  assert.deepEqual(
    [...episode.infos.row(1)],
    [
      ["lives", 4],
      [2, "x"],
    ],
  );
});

test("traces say what manifests do", async () => {
  const blob = new Blob();
  const manifest = {
    created: "2026-01-02T03:04:05.000000Z",
    closed: true,
    env: { id: "Tiny-v0" },
    metadata: [2 ** 53 - 1],
  };
  const { traces } = await open(new Counting(recording(blob, [plain(blob)], manifest)));
  assert.deepEqual([traces[0].created, traces[0].closed, traces[0].env.get("id")], [manifest.created, true, "Tiny-v0"]);
  assert.deepEqual([traces[0].metadata, traces[0].length, traces[0].error], [[2 ** 53 - 1], 1, null]);
});

test("a manifest that cannot be read hides no episode, but iterating tells of it", async () => {
  const files = threeEpisodes();
  files.set(`${TRACE}.manifest.json`, new TextEncoder().encode("{"));
  const read = await open(new Counting(files));
  assert.equal((await read.episode(2)).length, 100);
  await assert.rejects(read[Symbol.asyncIterator]().next(), complaint({ file: `${TRACE}.manifest.json` }));
});

test("an array is not read from bytes that no checksum covers", async () => {
  const blob = new Blob();
  const files = recording(blob, [plain(blob)]);
  const text = new TextDecoder().decode(files.get(`${NAME}.json`)).replace(`"size":${blob.bytes.length}`, '"size":8');
  files.set(`${NAME}.json`, sealed(text.slice(text.indexOf('"first"'), text.lastIndexOf("}"))));
  await assert.rejects((await open(new Counting(files))).episode(0), complaint({ field: /npyoff/ }));
});

test("what an episode says of a kind it has not is refused", async () => {
  const blob = new Blob();
  const more = { view: "bfloat16" };
  const source = new Counting(recording(blob, [about(blob, "int16", [2], Int16Array.of(1, 2), more)]));
  await assert.rejects((await open(source)).episode(0), complaint({ field: "episodes[0].observations.view" }));
});
