import assert from "node:assert/strict";
import { test } from "node:test";

import { open, TraceError } from "../../gym_recording/readers/gym_recording.js";
import { about, Blob, complaint, Counting, NAME, plain, recording } from "./recording.mjs";

const numbers = (count) => Float32Array.from({ length: count }, (_, i) => i);
const isWide = (array) => array.shape.length > 1;

/** Episodes of one step, whose observations have 1000 numbers each, and whose rewards lie side by side. */
function wide(count) {
  const blob = new Blob();
  const observations = blob.add("float32", [2 * count, 1000], numbers(2000 * count));
  const rewards = blob.add(
    "float64",
    [count],
    Float64Array.from({ length: count }, (_, i) => i / 2),
  );
  const episodes = Array.from({ length: count }, (_, i) => ({
    ...plain(blob),
    observations: { ...observations, shape: [2, 1000], size: 8000, npyoff: observations.npyoff + 8000 * i },
    rewards: { ...rewards, shape: [1], size: 8, npyoff: rewards.npyoff + 8 * i },
  }));
  return recording(blob, episodes);
}

test("an array that is read later costs nothing until rows are asked for, and then those", async () => {
  const source = new Counting(wide(3));
  const read = await open(source);
  const { observations, rewards } = await read.episode(1, { later: isWide });
  assert.ok(source.count < 6000);
  assert.deepEqual([rewards.row(0), observations.shape, observations.length], [0.5, [2, 1000], 2]);
  const rows = await observations.rows(1, 2);
  assert.equal(source.count, 4000);
  assert.deepEqual([rows.shape, rows.data[0], rows.data[999]], [[1, 1000], 3000, 3999]);
  assert.deepEqual((await observations.rows(2, 2)).shape, [0, 1000]);
  assert.equal(source.count, 0);
});

test("rows of an array that is there are a part of it", async () => {
  const read = await open(new Counting(wide(2)));
  const { observations } = await read.episode(0);
  const rows = await observations.rows(1, 2);
  assert.deepEqual([...rows.data], [...observations.at(1).data]);
  await assert.rejects(observations.rows(1, 3), RangeError);
  await assert.rejects(observations.rows(-1, 1), RangeError);
  await assert.rejects(observations.rows(2, 1), RangeError);
});

test("what is not read yet is never taken for nothing", async () => {
  const read = await open(new Counting(wide(1)));
  const { observations } = await read.episode(0, { later: isWide });
  for (const look of [
    () => observations.data,
    () => observations.bytes,
    () => observations.row(0).data,
    () => observations.numbers,
  ])
    assert.throws(look, complaint({ problem: "the array is not read yet", expected: "rows(from, to)" }));
});

test("rows that are read later are in little-endian too", async () => {
  const blob = new Blob();
  const observations = new Uint8Array(new Uint16Array(4).buffer);
  observations.set([1, 2, 3, 4, 5, 6, 7, 8]);
  const read = await open(new Counting(recording(blob, [about(blob, ">u2", [2, 2], observations)])));
  const episode = await read.episode(0, { later: isWide });
  assert.deepEqual([...(await episode.observations.rows(1, 2)).data], [0x0506, 0x0708]);
});

test("rows that are not there are an error when they are read", async () => {
  const files = wide(2);
  const blob = `${NAME}.bin`;
  const read = await open(new Counting(files));
  const { observations } = await read.episode(1, { later: isWide });
  files.set(blob, files.get(blob).slice(0, 12000));
  await assert.rejects(observations.rows(1, 2), complaint({ file: blob, problem: "the array is not wholly there" }));
  files.delete(blob);
  await assert.rejects(observations.rows(1, 2), complaint({ file: blob, missing: true }));
});

test("which rows infos have is read at once, because it is checked", async () => {
  const blob = new Blob();
  const infos = [{ key: "x", rows: blob.add("int64", [1], BigInt64Array.of(5n)), values: ["a"] }];
  const read = await open(new Counting(recording(blob, [{ ...plain(blob), infos }])));
  await assert.rejects(read.episode(0, { later: () => true }), complaint({ problem: "no such row" }));
});

test("frames are read later one by one, whatever their sizes, and where one is missing", async () => {
  const blob = new Blob();
  const size = (rows, height, first) => ({
    rows: blob.add("int64", [rows.length], BigInt64Array.from(rows)),
    values: blob.add(
      "uint8",
      [rows.length, height, 2],
      Uint8Array.from({ length: rows.length * height * 2 }, (_, i) => first + i),
    ),
  });
  const whole = { ...plain(blob), frames: [size([0n, 1n], 3, 0)] };
  const uneven = { ...plain(blob), frames: [size([1n], 4, 20)] };
  const wrong = { ...plain(blob), frames: [size([2n], 3, 0)] };
  const source = new Counting(recording(blob, [whole, uneven, wrong]));
  const read = await open(source);
  const later = (array) => array.shape.length > 1;
  const { frames } = await read.episode(0, { later });
  assert.deepEqual(frames.shape, [2, 3, 2]);
  source.count;
  assert.deepEqual([...(await frames.rows(1, 2)).data], [6, 7, 8, 9, 10, 11]);
  assert.deepEqual([...(await frames.at(1).rows(0, 3)).data], [6, 7, 8, 9, 10, 11]);
  assert.equal(source.count, 12);
  const some = (await read.episode(1, { later })).frames;
  assert.equal(some[0], null);
  source.count;
  assert.deepEqual([...(await some[1].rows(0, 4)).data], [20, 21, 22, 23, 24, 25, 26, 27]);
  assert.equal(source.count, 8);
  await assert.rejects(read.episode(2, { later }), complaint({ problem: "no such row" }));
});

test("outlines of a batch cost its header and one range", async () => {
  const source = new Counting(wide(50));
  const read = await open(source);
  source.count;
  const outlines = await read.outlines(read.traces[0].batches[0]);
  assert.deepEqual(
    source.reads.map(([name, , size]) => (name === `${NAME}.bin` ? size : name)),
    [`${NAME}.json`, 400],
  );
  assert.deepEqual(
    outlines.map((episode) => episode.rewards.row(0)),
    Array.from({ length: 50 }, (_, i) => i / 2),
  );
  assert.deepEqual([outlines[3].length, outlines[3].ended_by], [1, "close"]);
  assert.throws(() => outlines[3].observations.data, TraceError);
});

test("a damaged episode is an error among the outlines, and no other is touched", async () => {
  const blob = new Blob();
  const good = plain(blob);
  const outside = { ...plain(blob), rewards: { ...good.rewards, npyoff: 10 ** 6 } };
  const malformed = { ...plain(blob), ended_by: "nothing" };
  const read = await open(new Counting(recording(blob, [good, outside, malformed, good])));
  const outlines = await read.outlines(read.traces[0].batches[0]);
  assert.deepEqual(
    outlines.map((outline) => outline instanceof TraceError),
    [false, true, true, false],
  );
  assert.match(outlines[1].field, /^episodes\[1\]/);
  assert.match(outlines[2].field, /^episodes\[2\]/);
});

test("of a blob that is cut short, the outlines before the cut are there", async () => {
  const blob = new Blob();
  const files = recording(blob, [plain(blob), plain(blob), plain(blob)]); // the last bytes are the last reward
  files.set(blob.fn, files.get(blob.fn).slice(0, -8));
  const read = await open(new Counting(files));
  const [first, second, third] = await read.outlines(read.traces[0].batches[0]);
  assert.deepEqual([first.rewards.row(0), second.rewards.row(0)], [0.5, 0.5]);
  assert.ok(complaint({ file: blob.fn, field: "episodes[2]", problem: "the array is not wholly there" })(third));
});

test("rewards of every kind are in outlines", async () => {
  const blob = new Blob();
  const parts = { a: blob.add("float64", [1], Float64Array.of(1)), b: [2] };
  const loose = [blob.add("float64", [], Float64Array.of(NaN))];
  const read = await open(
    new Counting(
      recording(blob, [
        { ...plain(blob), rewards: parts },
        { ...plain(blob), rewards: loose },
      ]),
    ),
  );
  const [dict, list] = await read.outlines(read.traces[0].batches[0]);
  assert.deepEqual([dict.rewards.get("a").row(0), dict.rewards.get("b")[0]], [1, 2]);
  assert.ok(Number.isNaN(list.rewards[0].item()));
});
