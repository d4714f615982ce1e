import assert from "node:assert/strict";
import { test } from "node:test";

import { open } from "../../gym_recording/readers/gym_recording.js";
import { about, Blob, Counting, recording } from "./recording.mjs";

/** The observations of an episode that has these. */
async function read(dtype, shape, data, more) {
  const blob = new Blob();
  const source = new Counting(recording(blob, [about(blob, dtype, shape, data, more)]));
  return (await (await open(source)).episode(0)).observations;
}

const HALVES = Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000, 0xfc00);
const FLOATS = [1, -2, 2 ** -24, 65504, -0, -Infinity];

for (const [dtype, data] of [
  ["int8", Int8Array.of(-1, 127)],
  ["int16", Int16Array.of(-1, 300)],
  ["int32", Int32Array.of(-1, 70000)],
  ["int64", BigInt64Array.of(-1n, 2n ** 62n)],
  ["uint8", Uint8Array.of(1, 255)],
  ["uint16", Uint16Array.of(1, 65535)],
  ["uint32", Uint32Array.of(1, 2 ** 32 - 1)],
  ["uint64", BigUint64Array.of(1n, 2n ** 64n - 1n)],
  ["float32", Float32Array.of(1.5, NaN)],
  ["float64", Float64Array.of(-0, 1e300)],
  ["<f8", Float64Array.of(0.1, 2)],
]) {
  test(`${dtype} is ${data.constructor.name}`, async () => {
    const array = await read(dtype, [2], data);
    assert.deepEqual(array.data, data);
    assert.equal(array.row(1), data[1]);
    assert.deepEqual([array.length, array.at(1).shape, array.at(0).item()], [2, [], data[0]]);
  });
}

test("big-endian numbers are swapped", async () => {
  const array = await read(">i4", [2], Uint8Array.of(0, 0, 1, 2, 255, 255, 255, 254));
  assert.deepEqual([...array.data], [258, -2]);
  assert.deepEqual([array.dtype, array.code], ["int32", "<i4"]);
  const complex = await read(">c8", [2], Uint8Array.of(63, 128, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 191, 128, 0, 0));
  assert.deepEqual([...complex.data], [1, 2, 0, -1]);
});

test("int64 is given as Numbers where that loses nothing", async () => {
  assert.deepEqual(
    (await read("int64", [2], BigInt64Array.of(-5n, 2n ** 53n - 1n))).numbers,
    Float64Array.of(-5, 2 ** 53 - 1),
  );
  assert.equal((await read("int64", [2], BigInt64Array.of(0n, 2n ** 53n + 1n))).numbers, null);
  assert.equal((await read("uint64", [2], BigUint64Array.of(0n, 2n ** 53n))).numbers, null);
  assert.deepEqual((await read("uint8", [2], Uint8Array.of(1, 2))).numbers, Uint8Array.of(1, 2));
  assert.equal((await read("complex64", [2], new Float32Array(4))).numbers, null);
  assert.equal((await read("<U1", [2], Uint32Array.of(97, 98))).numbers, null);
});

test("small floats are decoded", async () => {
  assert.deepEqual([...(await read("float16", [2, 3], HALVES)).data], FLOATS);
  const bfloat16 = await read("uint16", [2], Uint16Array.of(0x3fc0, 0xff80), { view: "bfloat16" });
  assert.deepEqual([...bfloat16.data], [1.5, -Infinity]);
  assert.deepEqual([bfloat16.dtype, bfloat16.view, bfloat16.row(0)], ["uint16", "bfloat16", 1.5]);
  const bytes = Uint8Array.of(0x38, 0x80);
  for (const [view, first, second] of [
    ["float8_e3m4", 1.5, -0],
    ["float8_e4m3", 1, -0],
    ["float8_e4m3b11fnuz", 2 ** -4, NaN],
    ["float8_e4m3fn", 1, -0],
    ["float8_e4m3fnuz", 0.5, NaN],
    ["float8_e5m2", 0.5, -0],
    ["float8_e5m2fnuz", 0.25, NaN],
    ["float8_e8m0fnu", 2 ** -71, 2],
  ]) {
    assert.deepEqual([...(await read("uint8", [2], bytes, { view })).data], [first, second], view);
  }
});

test("booleans, complex numbers and texts have rows of their own", async () => {
  const booleans = await read("bool", [2], Uint8Array.of(1, 0));
  assert.deepEqual([booleans.row(0), booleans.row(1), ...booleans.data], [true, false, 1, 0]);
  assert.deepEqual([...(await read("bool", [2], Uint8Array.of(0, 7))).data], [0, 1]);
  const complex = await read("complex128", [2], Float64Array.of(1, 2, 3, 4));
  assert.deepEqual([...complex.row(1)], [3, 4]);
  const texts = await read("<U2", [2], Uint32Array.of(0x1f600, 97, 0, 0));
  assert.deepEqual(texts.data, ["😀a", ""]);
  assert.equal(texts.row(0), "😀a");
  assert.deepEqual((await read("|S3", [2], Uint8Array.of(97, 0, 255, 98, 0, 0))).data, ["a\0ÿ", "b"]);
  assert.deepEqual((await read(">U1", [2], Uint8Array.of(0, 0, 0, 97, 0, 1, 246, 0))).data, ["a", "😀"]);
});

test("fields of a structure are arrays of their own", async () => {
  const bytes = Uint8Array.of(1, 0, 9, 9, 5, 6, 2, 0, 9, 9, 7, 8);
  const array = await read("[('a', '<i2'), ('', '|V2'), ('b', [('c', '|u1')], (2,))]", [2], bytes);
  assert.deepEqual(array.fields, ["a", "b"]);
  assert.equal(array.dtype, "[('a', '<i2'), ('', '|V2'), ('b', [('c', '|u1')], (2,))]");
  assert.deepEqual([...array.field("a").data], [1, 2]);
  assert.deepEqual(array.field("b").shape, [2, 2]);
  assert.deepEqual([...array.field("b").field("c").data], [5, 6, 7, 8]);
  assert.deepEqual([...array.row(1).field("a").data], [2]);
  assert.deepEqual([array.data.length, array.numbers], [12, null]);
});

test("an array without a byte is read without reading", async () => {
  const array = await read("float32", [2, 0, 5], new Float32Array(0));
  assert.deepEqual([array.shape, array.data.length, array.row(1).shape], [[2, 0, 5], 0, [0, 5]]);
});
