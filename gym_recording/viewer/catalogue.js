/**
 * The episodes of a recording, a row each: what the list, the filter and the charts over episodes show. They are read
 * batch by batch, between which the page goes on. What was read once is not read again, unless its header is another.
 */

import { open, TraceArray, TraceError } from "../readers/gym_recording.js";

/** @typedef {import("../readers/gym_recording.js").Recording} Recording */
/** @typedef {import("../readers/gym_recording.js").Episode} Episode */
/** @typedef {import("../readers/gym_recording.js").Trace} Trace */
/** @typedef {import("./place.js").Place} Place */

/**
 * @typedef {object} Row
 * @property {number} number of the episode in the recording.
 * @property {string} key that it keeps when the recording grows.
 * @property {string} version of the header it was read from.
 * @property {Trace} trace
 * @property {string} name of the trace, as people tell it from others.
 * @property {number | null} length T; null if it cannot be read.
 * @property {number | null} return the sum of the rewards; null if they are no numbers.
 * @property {string} ended what ended it, `running`, or `error`; empty where that is not known.
 * @property {number | bigint | null} seed
 * @property {number | bigint | null} lane
 * @property {string} started
 * @property {TraceError | null} error
 * @property {number} count how many episodes the row stands for: more than one where a whole batch cannot be read.
 */

/** @typedef {{version: string, rows: Row[]}} Known */

const AHEAD = 5; // batches: a server is never without work, and little is in memory
const FEW = 20; // blobs that may come after their headers, as where a recording is being copied: they are looked for
const FRAME = 16; // ms that the page may wait; after more work it gets its turn
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** The rows of a recording, and what is wrong with it. */
export class Catalogue {
  /** @type {Row[]} */
  rows = [];
  /** @type {TraceError[]} */
  problems = [];
  /** @type {Recording | null} */
  recording = null;
  /** How many episodes there are; `rows` may be fewer, until all are read. */
  total = 0;
  isRead = false;
  /** @type {Map<string, string>} */
  #versions = new Map();
  /** @type {Map<string, Known>} */
  #known = new Map();

  /** @param {Place} place */
  constructor(place) {
    this.place = place;
  }

  /**
   * Looks what is there now, and reads what is new.
   * @param {() => void} progress called when rows are there that were not, or when they are others
   * @returns {Promise<boolean>} whether anything has changed
   */
  async look(progress) {
    const versions = (await this.place.versions?.()) ?? new Map();
    const isSame = this.recording !== null && same(versions, this.#versions);
    const missing = this.problems.filter(({ missing, file }) => missing && file?.endsWith(".bin"));
    if (isSame && (!missing.length || missing.length > FEW)) return false;
    const recording = await open(this.place.source);
    const isFirst = this.recording === null;
    this.total = recording.length;
    /** @type {Map<string, Known>} */
    const known = new Map();
    /** @type {Row[]} */
    const rows = [];
    const problems = /** @type {TraceError[]} */ (recording.traces.map(({ error }) => error).filter(Boolean));
    if (isFirst) [this.recording, this.rows, this.problems] = [recording, rows, problems]; // they show as they come
    let start = 0;
    const ahead = readAhead(recording, (file, count) => {
      const version = versions.get(file) ?? "";
      const found = this.#known.get(file);
      return found && found.version === version && found.rows.length === count && !found.rows.some(({ error }) => error)
        ? found
        : version;
    });
    for (const [index, trace] of recording.traces.entries()) {
      const name = nameOf(trace, index, recording.traces.length);
      for (const batch of trace.batches) {
        const found = /** @type {Known} */ ((await ahead.next()).value);
        known.set(batch.file, found);
        for (const [i, row] of found.rows.entries()) {
          rows.push(Object.assign(row, { number: start + i, trace, name }));
          if (row.error) problems.push(row.error);
        }
        start += batch.count;
        if (isFirst) progress();
      }
    }
    if (isSame && problems.length === this.problems.length) return false;
    [this.recording, this.rows, this.problems, this.isRead] = [recording, rows, problems, true];
    [this.#known, this.#versions] = [known, versions];
    progress();
    return true;
  }

  /**
   * @param {number} number
   * @returns {Row | undefined}
   */
  find(number) {
    const row = this.rows[number]; // where it is, if no row stands for many
    return row?.number === number
      ? row
      : this.rows.find((row) => row.number <= number && number < row.number + row.count);
  }
}

/**
 * What the batches have, one after the other; a few are read before they are asked for.
 * @param {Recording} recording
 * @param {(file: string, count: number) => Known | string} knownOf a batch, or its version, if it is to be read
 * @returns {AsyncGenerator<Known>}
 */
async function* readAhead(recording, knownOf) {
  /** @type {Promise<Known>[]} */
  const waiting = [];
  let paused = performance.now();
  for (const trace of recording.traces) {
    for (const batch of trace.batches) {
      const known = knownOf(batch.file, batch.count);
      const reading = async (/** @type {string} */ version) => ({
        version,
        rows: await read(recording, batch, trace, version),
      });
      waiting.push(typeof known === "string" ? reading(known) : Promise.resolve(known));
      if (waiting.length <= AHEAD) continue;
      yield /** @type {Promise<Known>} */ (waiting.shift());
      if (performance.now() - paused < FRAME) continue; // a pause takes 4 ms at least
      await pause();
      paused = performance.now();
    }
  }
  yield* waiting;
}

/**
 * @param {Map<string, string>} a
 * @param {Map<string, string>} b
 */
function same(a, b) {
  return a.size === b.size && [...a].every(([name, version]) => b.get(name) === version);
}

/**
 * Whether it is of version 2; older ones do not say how episodes ended, nor whether more will come.
 * @param {Trace} trace
 */
const isCurrent = ({ name }) => /-[0-9a-f]{12}$/.test(name);

/**
 * Whether more may come.
 * @param {Trace} trace
 */
export const mayGrow = (trace) => isCurrent(trace) && !trace.closed && !trace.repaired;

/**
 * @param {Trace} trace
 * @param {number} index
 * @param {number} count
 */
function nameOf(trace, index, count) {
  const id = trace.env.get("id");
  const agent = trace.metadata instanceof Map ? trace.metadata.get("agent") : null;
  const parts = [typeof id === "string" ? id : null, typeof agent === "string" ? agent : null].filter(Boolean);
  const name = parts.join(" ") || trace.name.replace(/^openaigym\.trace\./, "");
  return count > 1 ? `${index}: ${name}` : name;
}

/**
 * @param {Recording} recording
 * @param {import("../readers/gym_recording.js").Batch} batch
 * @param {Trace} trace
 * @param {string} version
 * @returns {Promise<Row[]>}
 */
async function read(recording, batch, trace, version) {
  const blank = {
    number: 0,
    version,
    trace,
    name: "",
    length: null,
    return: null,
    seed: null,
    lane: null,
    started: "",
  };
  /** @param {TraceError} error */
  const failed = (error, i = 0, count = 1) => ({ ...blank, key: `${batch.file} ${i}`, ended: "error", error, count });
  let outlines;
  try {
    outlines = await recording.outlines(batch);
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    return [failed(error, 0, batch.count)];
  }
  return outlines.map((outline, i) => {
    if (outline instanceof TraceError) return failed(outline, i);
    const { length, ended_by, seed, lane, started } = outline;
    const ended = ended_by ?? (mayGrow(trace) ? "running" : "");
    const more = { return: total(outline.rewards), key: `${batch.file} ${i}`, started: started ?? "", error: null };
    return { ...blank, length, ended, seed, lane, count: 1, ...more };
  });
}

/**
 * The numbers of a column, one for each row; null where it has others, or more.
 * @param {any} column
 * @returns {ArrayLike<number> | null}
 */
export function numbersOf(column) {
  if (column instanceof TraceArray) {
    const isOne = !column.length || column.shape.slice(1).every((length) => length === 1);
    if (!isOne || column.fields || /^complex|^[<|][US]/.test(column.dtype)) return null;
    const data = column.data;
    return typeof data[0] === "bigint" ? Float64Array.from(data, Number) : data;
  }
  if (!Array.isArray(column)) return null;
  const numbers = new Float64Array(column.length);
  for (const [t, value] of column.entries()) {
    const number = value instanceof TraceArray && !value.shape.length && !value.fields ? value.item() : value;
    if (!["number", "bigint", "boolean"].includes(typeof number)) return null;
    numbers[t] = Number(number);
  }
  return numbers;
}

/**
 * The sum of the rewards if each is one number, as `total_reward` in Python, without the error that adds up when many are summed (Neumaier).
 * @param {any} rewards
 */
function total(rewards) {
  const numbers = numbersOf(rewards);
  if (!numbers) return null;
  let [sum, lost] = [0, 0];
  for (let t = 0; t < numbers.length; t++) {
    const next = sum + numbers[t];
    lost += Math.abs(sum) >= Math.abs(numbers[t]) ? sum - next + numbers[t] : numbers[t] - next + sum;
    sum = next;
  }
  return Number.isFinite(sum) ? sum + lost : sum;
}
