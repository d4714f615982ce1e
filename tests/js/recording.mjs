// Recordings in memory for the tests: written from FORMAT.md, with no more than the tests need.

import { TraceError } from "../../gym_recording/readers/gym_recording.js";

export const TRACE = "openaigym.trace.0.12-0123456789ab";
export const NAME = `${TRACE}.ep000000000`;
const FORMAT = '{"name": "gym-recording", "version": [2, 0]}';

/** Bit by bit, so that it is not the one of the reader. */
export function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

/** A document of version 2 around the text of its members, `"a": 1, "b": 2`. */
export function sealed(members) {
  const text = `{"format": ${FORMAT}, "crc32": "00000000", ${members}}\n`;
  const crc = crc32(new TextEncoder().encode(text));
  return new TextEncoder().encode(text.replace('"crc32": "00000000"', `"crc32": "${crc}"`));
}

/** Arrays that are put into one blob, one behind the other. */
export class Blob {
  constructor(name = NAME) {
    this.fn = `${name}.bin`;
    this.bytes = new Uint8Array(0);
  }

  /** The record of an array. Before it lie `space` bytes that belong to nobody. */
  add(dtype, shape, data, space = 1024) {
    const bytes = new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength);
    const npyoff = Math.ceil((this.bytes.length + space) / 64) * 64;
    const joined = new Uint8Array(npyoff + bytes.length);
    joined.set(this.bytes);
    joined.set(bytes, npyoff);
    this.bytes = joined;
    return { __type: "ndarray", shape, order: "C", dtype, npyfile: this.fn, npyoff, size: bytes.length };
  }
}

/** The files of a recording of one batch, by name. Episodes are objects, or texts of JSON. */
export function recording(blob, episodes, manifest = {}) {
  const entry = { fn: blob.fn, size: blob.bytes.length, crc32: crc32(blob.bytes) };
  const texts = episodes.map((episode) => (typeof episode === "string" ? episode : JSON.stringify(episode)));
  const header = `"first": 0, "blobs": [${JSON.stringify(entry)}], "columns": [], "episodes": [${texts.join(", ")}]`;
  const batches = [{ first: 0, len: episodes.length, fn: `${NAME}.json` }];
  return new Map([
    [`${TRACE}.manifest.json`, sealed(JSON.stringify({ batches, ...manifest }).slice(1, -1))],
    [`${NAME}.json`, sealed(header)],
    [blob.fn, blob.bytes],
  ]);
}

/** An episode of one step, about its observations. */
export function about(blob, dtype, shape, data, more = {}) {
  const observations = { ...blob.add(dtype, shape, data), ...more };
  return { ...plain(blob), observations };
}

/** Two observations, one step. */
export function plain(blob) {
  return {
    observations: blob.add("uint8", [2], Uint8Array.of(1, 2)),
    actions: blob.add("int64", [1], BigInt64Array.of(3n)),
    rewards: blob.add("float64", [1], Float64Array.of(0.5)),
    ended_by: "close",
  };
}

/** A source that counts what is asked for. */
export class Counting {
  constructor(files) {
    this.files = files;
    this.looks = 0;
    this.reads = [];
  }

  async names() {
    this.looks++;
    return this.files.keys();
  }

  async bytes(name, start, end) {
    const bytes = this.files.get(name)?.slice(start, end) ?? null;
    this.reads.push([name, start, bytes?.length ?? 0]);
    return bytes;
  }

  /** The bytes that were read since the last time. */
  get count() {
    const sum = this.reads.reduce((total, [, , size]) => total + size, 0);
    this.reads = [];
    return sum;
  }
}

/** For `assert.rejects`: a TraceError with these members. */
export function complaint(members) {
  return (error) => {
    if (!(error instanceof TraceError)) throw error;
    for (const [key, expected] of Object.entries(members)) {
      const found = error[key];
      if (expected instanceof RegExp ? !expected.test(found) : found !== expected) {
        throw new Error(`${key} is ${found}, not ${expected}: ${error.message}`);
      }
    }
    return true;
  };
}
