// The parts of the page that need no browser. What people see of it: tests/test_viewer_page.py.

import assert from "node:assert/strict";
import { test } from "node:test";

import { open } from "../../gym_recording/readers/gym_recording.js";
import { range, texts, ticks } from "../../gym_recording/viewer/axis.js";
import { Catalogue } from "../../gym_recording/viewer/catalogue.js";
import { parseFilter } from "../../gym_recording/viewer/filter.js";
import { leavesOf, treeOf } from "../../gym_recording/viewer/leaf.js";
import { layoutOf } from "../../gym_recording/viewer/picture.js";
import { digits, element, kind, rounded, text } from "../../gym_recording/viewer/value.js";
import { about, Blob, Counting, NAME, plain, recording, TRACE } from "./recording.mjs";

const ROW = {
  number: 7,
  name: "CartPole-v1",
  length: 100,
  return: -2.5,
  ended: "reset",
  seed: 12n,
  lane: null,
  started: "2026-01-02T03:04:05Z",
};

for (const [filter, isMet] of [
  ["", true],
  ["cart", true],
  ["CARTPOLE reset", true],
  ["pole2", false],
  ["length>99 return<0", true],
  ["length>100", false],
  ["length>=100 length<=100 length=100", true],
  ["length!=100", false],
  ["return=-2.5", true],
  ["seed=12", true],
  ["seed>11 seed<13", true],
  ["lane=0", false],
  ["lane<5", false],
  ["lane!=3", false],
  ["ended_by:res", true],
  ["ended_by=reset", true],
  ["ended_by=res", false],
  ["ended_by!=close", true],
  ["started>2026-01-01", true],
  ["started:2026-01", true],
  ["started<2026", false],
  ["trace:cart", true],
  ["12:34", false],
  ["episode=7", true],
]) {
  test(`the filter ${JSON.stringify(filter)} ${isMet ? "leaves" : "takes away"} the row`, () => {
    const { test: meets, problem } = parseFilter(filter);
    assert.equal(problem, "");
    assert.equal(meets(/** @type {any} */ (ROW)), isMet);
  });
}

for (const [filter, problem] of [
  ["size>3", "there is no column size"],
  ["length>", "length> what?"],
  ["length>many", "many is no number"],
  ["toString>1", "there is no column tostring"],
  ["constructor=1", "there is no column constructor"],
]) {
  test(`the filter ${filter} is a problem that is told`, () => assert.equal(parseFilter(filter).problem, problem));
}

for (const [shape, tiles, height, width, channels] of [
  [[16, 24], 1, 16, 24, 1],
  [[16, 24, 1], 1, 16, 24, 1],
  [[16, 24, 3], 1, 16, 24, 3],
  [[16, 24, 4], 1, 16, 24, 4],
  [[1, 16, 24], 1, 16, 24, 1],
  [[3, 16, 24], 1, 16, 24, 3],
  [[2, 16, 24], 2, 16, 24, 1],
  [[5, 84, 84], 5, 84, 84, 1],
  [[84, 84, 12], 4, 84, 84, 3],
  [[12, 84, 84], 4, 84, 84, 3],
  [[4, 16, 24, 3], 4, 16, 24, 3],
  [[4, 16, 24, 1], 4, 16, 24, 1],
  [[4, 3, 16, 24], 4, 16, 24, 3],
]) {
  test(`rows of shape ${shape} are ${tiles} images of ${height} × ${width}, ${channels} channels`, () => {
    const layout = layoutOf("uint8", shape);
    assert.deepEqual([layout.tiles, layout.height, layout.width, layout.channels], [tiles, height, width, channels]);
    // Every byte is at one place, and none outside.
    const [st, sy, sx, sc] = layout.strides;
    const seen = new Set();
    for (let tile = 0; tile < tiles; tile++)
      for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++)
          for (let c = 0; c < channels; c++) seen.add(tile * st + y * sy + x * sx + c * sc);
    const size = shape.reduce((a, b) => a * b);
    assert.deepEqual([seen.size, Math.min(...seen), Math.max(...seen)], [size, 0, size - 1]);
  });
}

test("what is no image is none", () => {
  for (const shape of [
    [],
    [84],
    [4, 4],
    [2, 3, 4],
    [84, 84, 100],
    [100, 84, 84],
    [3, 84],
    [2, 2, 84, 84],
    [1, 2, 3, 4, 5],
  ])
    assert.equal(layoutOf("uint8", shape), null, String(shape));
  assert.equal(layoutOf("float32", [84, 84, 3]), null);
});

test("four channels are a stack if the last is not 255 everywhere", () => {
  const bytes = new Uint8Array(16 * 24 * 4).fill(255);
  assert.equal(layoutOf("uint8", [16, 24, 4], bytes).channels, 4);
  bytes[7] = 254;
  assert.deepEqual(
    [layoutOf("uint8", [16, 24, 4], bytes).tiles, layoutOf("uint8", [16, 24, 4], bytes).channels],
    [4, 1],
  );
});

/** The column of an episode that is recorded so. */
async function column(dtype, shape, data, more) {
  const blob = new Blob();
  const read = await open(new Counting(recording(blob, [about(blob, dtype, shape, data, more)])));
  return (await read.episode(0)).observations;
}

test("values are written with the digits that tell them from all others of their dtype", async () => {
  assert.equal(text((await column("float32", [2], Float32Array.of(0.1, 1 / 3))).at(0)), "0.1");
  assert.equal(text((await column("float32", [2], Float32Array.of(0.1, 1 / 3))).at(1)), "0.33333334");
  assert.equal(text((await column("float64", [2], Float64Array.of(0.1 + 0.2, NaN))).at(0)), "0.30000000000000004");
  assert.equal(text((await column("float32", [2], Float32Array.of(-0.111341625, 16777217))).at(0)), "-0.111341625");
  assert.equal(text(await column("float64", [2], Float64Array.of(-Infinity, NaN))), "[-inf, nan]");
  assert.equal(text(await column("float64", [2], Float64Array.of(-0, 0))), "[-0, 0]");
  assert.equal(text(await column("int64", [2], BigInt64Array.of(2n ** 62n + 1n, -1n))), `[${2n ** 62n + 1n}, -1]`);
  assert.equal(text(await column("bool", [2], Uint8Array.of(0, 1))), "[False, True]");
  assert.equal(text(await column("complex64", [2], Float32Array.of(0.1, -2, 3, 4))), "[0.1-2j, 3+4j]");
  assert.equal(text(await column("<U1", [2], Uint32Array.of(97, 98))), "[a, b]");
  assert.equal(text(await column("[('x', '<f4')]", [2], Float32Array.of(1, 2))), "{x: [1, 2]}");
  assert.equal(text(new Map([["a", [1, null, "x"]]])), '{"a": [1, None, "x"]}');
  assert.equal(text(Array.from({ length: 30 }, (_, i) => i)), `[${[...Array(24).keys()].join(", ")}, … 6 more]`);
  assert.equal(element((await column("int64", [2, 2], BigInt64Array.of(1n, 2n, 3n, 4n))).at(1), 1), "4");
  assert.equal(kind((await column("float32", [2, 3], new Float32Array(6))).at(0)), "float32 (3,)");
  assert.deepEqual(
    [rounded(326528123.4), rounded(1e6), rounded(1 / 3), rounded(null), rounded(NaN)],
    ["326528123", "1000000", "0.333333", "–", "nan"],
  );
});

test("leaves know their names, and which are drawn as steps", async () => {
  const vector = await column("float32", [2, 3], new Float32Array(6));
  const [leaf] = leavesOf(treeOf("observation", vector, null));
  assert.deepEqual(
    [leaf.label(2, "position"), leaf.isNumeric, leaf.isDiscrete, leaf.count],
    ["position[2]", true, false, 3],
  );
  const whole = await column("int64", [2], new BigInt64Array(2));
  const spaces = [null, new Map([["type", "Discrete"]]), new Map([["type", "Box"]]), "nonsense"];
  assert.deepEqual(
    spaces.map((space) => leavesOf(treeOf("action", whole, space))[0].isDiscrete),
    [true, true, false, true],
  );
  const matrix = await column("float32", [2, 2, 3], new Float32Array(12));
  assert.equal(leavesOf(treeOf("grid", matrix, null))[0].label(5, "grid"), "grid[1,2]");
});

test("numbers of a leaf are those of its rows, however they are read and stored", async () => {
  const blob = new Blob();
  const data = Float32Array.from({ length: 300_000 }, (_, i) => i % 1000);
  const observations = blob.add("float32", [30_000, 10], data);
  const actions = { ...plain(blob), actions: blob.add("int64", [29_999], new BigInt64Array(29_999)) };
  const rewards = blob.add("float64", [29_999], new Float64Array(29_999));
  const read = await open(new Counting(recording(blob, [{ ...actions, observations, rewards }])));
  for (const later of [() => false, (array) => array.shape.length > 1]) {
    const episode = await read.episode(0, { later });
    const [leaf] = leavesOf(treeOf("observation", episode.observations, null));
    const [first, last] = await leaf.lines([0, 9]);
    assert.ok(
      first.every((value, t) => value === (10 * t) % 1000) && last.every((value, t) => value === (10 * t + 9) % 1000),
    );
    for (const t of [0, 26_213, 26_214, 29_999, 5]) assert.equal((await leaf.at(t)).data[3], (10 * t + 3) % 1000);
    assert.equal(await leaf.at(30_000), undefined);
  }
});

test("values of infos are found by the rows that have them", async () => {
  const values = await column("float64", [2], Float64Array.of(5, 6));
  const [leaf] = leavesOf(treeOf("info", values, null, "", Float64Array.of(3, 9)));
  const found = await Promise.all([0, 3, 4, 9, 10].map(async (t) => (await leaf.at(t))?.item()));
  assert.deepEqual(found, [undefined, 5, undefined, 6, undefined]);
});

test("lists of numbers are numbers, with NaN and integers beyond 2^53; of others there are none", async () => {
  const blob = new Blob();
  const nan = blob.add("float64", [], Float64Array.of(NaN));
  const episodes = [
    { ...plain(blob), observations: [1, nan] },
    { ...plain(blob), observations: ["a", "b"] },
    {
      ...plain(blob),
      observations: [blob.add("uint8", [2], Uint8Array.of(1, 2)), blob.add("uint8", [2], Uint8Array.of(3, 4))],
    },
  ];
  const read = await open(new Counting(recording(blob, episodes)));
  const leaves = [];
  for (let i = 0; i < 3; i++) leaves.push(...leavesOf(treeOf("x", (await read.episode(i)).observations, null)));
  assert.deepEqual(
    leaves.map(({ isNumeric }) => isNumeric),
    [true, false, true],
  );
  const [[numbers], [, second]] = await Promise.all([leaves[0].lines([0]), leaves[2].lines([0, 1])]);
  assert.deepEqual([numbers[0], Number.isNaN(numbers[1]), [...second]], [1, true, [2, 4]]);
});

/** A place whose files can be changed. */
function place(files) {
  const source = new Counting(files);
  const versions = async () =>
    new Map(
      [...source.files].filter(([name]) => name.endsWith(".json")).map(([name, bytes]) => [name, String(bytes.length)]),
    );
  return { name: "", source, versions };
}

test("the catalogue reads what is new, and nothing twice", async () => {
  const blob = new Blob();
  const here = place(recording(blob, [plain(blob), plain(blob)]));
  const catalogue = new Catalogue(here);
  assert.equal(await catalogue.look(() => {}), true);
  assert.deepEqual(
    catalogue.rows.map((row) => [row.number, row.length, row.return, row.ended]),
    [
      [0, 1, 0.5, "close"],
      [1, 1, 0.5, "close"],
    ],
  );
  here.source.count;
  assert.equal(await catalogue.look(() => {}), false);
  assert.equal(here.source.count, 0);

  const grown = new Blob();
  here.source.files = recording(grown, [plain(grown), plain(grown), plain(grown)]);
  assert.equal(await catalogue.look(() => {}), true);
  assert.equal(catalogue.rows.length, 3);
  assert.equal(catalogue.find(2), catalogue.rows[2]);
  assert.equal(catalogue.find(3), undefined);
});

test("a batch that cannot be read is one row for all its episodes, however many", async () => {
  const blob = new Blob();
  const files = recording(blob, [plain(blob)], { batches: [{ first: 0, len: 10 ** 9, fn: `${NAME}.json` }] });
  const catalogue = new Catalogue(place(files));
  await catalogue.look(() => {});
  assert.deepEqual(
    catalogue.rows.map(({ number, count, ended }) => [number, count, ended]),
    [[0, 10 ** 9, "error"]],
  );
  assert.equal(catalogue.problems.length, 1);
  assert.equal(catalogue.find(12345), catalogue.rows[0]);
});

test("a manifest that cannot be read is a problem, and its episodes are there", async () => {
  const blob = new Blob();
  const files = recording(blob, [plain(blob)]);
  files.set(`${TRACE}.manifest.json`, new TextEncoder().encode("{"));
  const catalogue = new Catalogue(place(files));
  await catalogue.look(() => {});
  assert.deepEqual([catalogue.rows.length, catalogue.problems.length], [1, 1]);
});

test("the sum of rewards has no error that adds up", async () => {
  const blob = new Blob();
  const rewards = blob.add("float64", [1000], new Float64Array(1000).fill(0.1));
  const actions = blob.add("int64", [1000], new BigInt64Array(1000));
  const observations = blob.add("uint8", [1001], new Uint8Array(1001));
  const catalogue = new Catalogue(place(recording(blob, [{ ...plain(blob), observations, actions, rewards }])));
  await catalogue.look(() => {});
  assert.equal(catalogue.rows[0].return, 100);
});

test("a number is rounded to digits that are so: zeros do not stand in for others", () => {
  assert.deepEqual(
    [rounded(2 ** 55), rounded(-1e300), digits(2 ** 55, 12), digits(0.1 + 0.2, 12), digits(NaN, 6), digits(1e15, 6)],
    ["3.60288e+16", "-1e+300", "3.6028797019e+16", "0.3", "nan", "1e+15"],
  );
});

for (const [low, high] of [
  [1, 18],
  [0, 0],
  [null, null],
  [-3, 2],
  [5e-324, 5e-324],
  [2e-323, 9e-323],
  [1e-7, 1.000003e-7],
  [1, 1 + 2 ** -52],
  [1e16, 1e16 + 2],
  [-(2 ** 63), 2 ** 63],
  [1e300, 1e300],
  [-Number.MAX_VALUE, Number.MAX_VALUE],
]) {
  test(`the axis of numbers from ${low} to ${high} has a range and few ticks`, () => {
    const [min, max] = range(low, high);
    assert.ok(Number.isFinite(max - min) && max > min);
    if (Math.abs(high) < 1e308) assert.ok(min <= low && high <= max);
    const found = ticks(min, max, 100);
    assert.ok(found.length <= 8 && found.every((tick) => min <= tick && tick <= max));
    assert.equal(texts(found).length, found.length);
  });
}

test("ticks are told apart by texts that are short", () => {
  assert.deepEqual(texts(ticks(...range(0, 18), 100)), ["0", "5", "10", "15"]);
  assert.deepEqual(texts([0, 2e5, 4e5]), ["0", "200K", "400K"]);
  assert.deepEqual(texts([1e18, 2e18]), ["1e+18", "2e+18"]);
  assert.deepEqual(texts([1, 1.00000002]), ["1", "1.00000002"]);
});

test("only rewards that are one number a step have a sum, as in Python", async () => {
  const blob = new Blob();
  const base = plain(blob);
  const column = (shape) => blob.add("float64", shape, new Float64Array(shape.reduce((a, b) => a * b)).fill(0.5));
  const three = {
    ...base,
    observations: blob.add("uint8", [4], new Uint8Array(4)),
    actions: blob.add("uint8", [3], new Uint8Array(3)),
  };
  const rewards = [column([3]), column([3, 1]), column([3, 2]), [1, 2.5, true], [1, null, 2], ["1", 1, 1]];
  const catalogue = new Catalogue(
    place(
      recording(
        blob,
        rewards.map((item) => ({ ...three, rewards: item })),
      ),
    ),
  );
  await catalogue.look(() => {});
  assert.deepEqual(
    catalogue.rows.map((row) => row.return),
    [1.5, 1.5, null, 4.5, null, null],
  );
});

test("a blob that comes after its header is found, and until then nothing is said to be new", async () => {
  const blob = new Blob();
  const here = place(recording(blob, [plain(blob)]));
  const name = `${NAME}.bin`;
  const bytes = here.source.files.get(name);
  here.source.files.delete(name);
  const catalogue = new Catalogue(here);
  assert.equal(await catalogue.look(() => {}), true);
  assert.equal(catalogue.rows[0].ended, "error");
  assert.equal(await catalogue.look(() => {}), false);
  here.source.files.set(name, bytes);
  assert.equal(await catalogue.look(() => {}), true);
  assert.deepEqual([catalogue.rows[0].return, catalogue.problems.length], [0.5, 0]);
  const { looks } = here.source;
  assert.equal(await catalogue.look(() => {}), false);
  assert.equal(here.source.looks, looks);
});

test("headers that are missing are not asked for again and again", async () => {
  const blob = new Blob();
  const files = recording(blob, [plain(blob)], { batches: [{ first: 0, len: 1, fn: `${NAME}.json` }] });
  files.delete(`${NAME}.json`);
  const here = place(files);
  const catalogue = new Catalogue(here);
  await catalogue.look(() => {});
  assert.equal(catalogue.problems.length, 1);
  const { looks } = here.source;
  assert.equal(await catalogue.look(() => {}), false);
  assert.equal(here.source.looks, looks);
});

test("an episode of a closed trace that does not say what ended it is not called running", async () => {
  const blob = new Blob();
  const { ended_by, ...open } = plain(blob);
  for (const [more, ended] of [
    [{}, "running"],
    [{ closed: true }, ""],
    [{ repaired: "2026-01-02T03:04:05.000000Z" }, ""],
  ]) {
    const catalogue = new Catalogue(place(recording(blob, [open], more)));
    await catalogue.look(() => {});
    assert.deepEqual([ended_by, catalogue.rows.map((row) => row.ended)], ["close", [ended]]);
  }
});
