/**
 * Reads recordings of gym_recording, format versions 0, 1 and 2, in browsers and in Node 18 or later. FORMAT.md is the
 * text that this module implements. No dependencies, no build step; `tsc --checkJs --strict` checks its types. Before
 * Node 20.19 a copy of it needs the ending `.mjs`, or the `package.json` that lies beside it.
 *
 *     import { open, nodeSource } from "./gym_recording.js";
 *     const recording = await open(nodeSource("recordings"));
 *     for await (const episode of recording) console.log(episode.length, episode.ended_by);
 *     const { observations, actions } = await recording.episode(0);
 *     observations.shape; observations.data; observations.row(3);
 *
 * - Names are those of FORMAT.md. `recording` has `length`, `traces`, `problems`, `episode(i)` and `episodes(batch)`, and
 *   can be iterated.
 * - A column is a `TraceArray`, `DictColumns` or `TupleColumns`, or an Array with one value for each step. All have
 *   `length`; the first three have `row(t)`.
 * - `array.data` is a typed array over the bytes: BigInt64Array for int64 (`array.numbers` has them as Numbers, where
 *   that loses nothing), Float32Array for float16, bfloat16 and float8. Complex numbers are pairs, text is strings.
 * - A dict is a Map, a tuple a `Tuple`, an integer beyond 2^53 a BigInt.
 * - An episode costs its header, and its own rows of the blobs. A few headers are remembered. With
 *   `episode(i, {later: (array) => array.shape.length > 3})` such arrays are not read until `await array.rows(from, to)`.
 *   `outlines(batch)` has the episodes of a batch of `traces` with their rewards alone.
 * - Every byte is untrusted. What is wrong or missing is a `TraceError`, where it is reached.
 *
 * A source is where the files are: `nodeSource(directory)`, `fileSource(files)` of a browser's FileList,
 * `directorySource(handle)`, `urlSource(url, names)`, or any object like `Source`.
 */

/**
 * @typedef {object} Source
 * @property {() => Promise<Iterable<string>>} names the names of the files.
 * @property {(name: string, start: number, end: number) => Promise<Uint8Array | null>} bytes of a file, from `start` up
 *   to `end`, fewer where it ends before; null if it is not there. It must not allocate what is not there.
 * @property {(name: string) => Promise<number | null>} [size] of a file; null if it is not there. Without this, what is
 *   cut short or not there is found when it is read.
 * @property {boolean} [partial] whether there may be files that `names` does not show.
 */

/**
 * @typedef {object} Options
 * @property {boolean} [verify] whether to compare the checksums of blobs too, which reads them whole.
 * @property {boolean} [bigint] whether to give every integer of JSON as BigInt, which tells 1 from 1.0.
 */

/** @typedef {(array: TraceArray) => boolean} Later whether an array is read later, by its `rows`. */

/** @typedef {TraceArray | DictColumns | TupleColumns | any[]} Column */

/**
 * @typedef {object} Dtype
 * @property {string} name `float32`, `<U5`, `[('x', '<f4')]`; always little-endian.
 * @property {string} code NumPy's type code in little-endian: `<f4`, `<U5`; of a structure as `name`.
 * @property {string} stored the code with the byte order of the file.
 * @property {number} size of an element, bytes.
 * @property {number} unit bytes that are swapped together if `big`.
 * @property {boolean} big whether it is big-endian.
 * @property {Field[] | null} fields of a structure.
 */

/** @typedef {{name: string, dtype: Dtype, shape: number[], offset: number, size: number}} Field */
/** @typedef {{trace: string, kind: "manifest" | "header" | "blob", first: bigint}} Name */
/** @typedef {{file: string, first: bigint, count: number, error: TraceError | null}} Batch */
/** @typedef {{size: number, crc32: string, start: number}} BlobEntry */
/** @typedef {{array: TraceArray, blob: string, offset: number, shape: number[], dtype: Dtype, isNpy: boolean}} Place */
/** @typedef {{file: string, version: number, blobs: Map<string, BlobEntry>, episodes: Map<string, any>[]}} Header */
/** @typedef {{rows: TraceArray, values: Column}} Sparse what only some rows of the observations have */
/** @typedef {{key: any} & Sparse} InfoColumn */

const MAX_JSON_BYTES = 2 ** 30;
const MAX_JSON_DEPTH = 1000; // Python's own limit; a deeper document would use up the stack
const MAX_INT_DIGITS = 1234; // of an integer of 4096 bits
const MAX_INT = 2n ** 4096n;
const MAX_EPISODES = 10 ** 9; // of a batch
const MAX_NDIM = 32;
const MAX_DTYPE_TEXT = 8192;
const MAX_DEPTH = 32; // of containers in one value
const FREE_ROWS = 10 ** 6; // of an episode with infos or frames, beside those that its arrays have bytes for
const MAX_WHOLE = 2 ** 31; // bytes of a file that a server does not give in parts
const LISTINGS = 4; // a listing that is made while a writer renames may show a batch without the one before it
const CACHED_HEADERS = 8;
const CACHED_FILES = 8; // whole ones, of a server that does not know Range
const PARALLEL = 8; // requests
const GAP = 256; // bytes: a .npy header and its padding. To read them costs less than one request more

// ---- errors

/** What is wrong with a recording: in which `file`, at which `field`, what was `expected`, what was `found`. */
export class TraceError extends Error {
  /**
   * @param {string} problem
   * @param {{file?: string, field?: string, expected?: string, found?: string, missing?: boolean}} [where]
   */
  constructor(problem, { file, field, expected, found, missing = false } = {}) {
    super(problem);
    this.name = "TraceError";
    this.problem = problem;
    this.file = file;
    this.field = field;
    this.expected = expected;
    this.found = found;
    /** Whether a file is not there. */
    this.missing = missing;
    this.locate(file, field);
  }

  /**
   * Says where it is, if that is not said yet.
   * @param {string | undefined} file
   * @param {string | undefined} field
   */
  locate(file, field) {
    this.file = this.file ?? file;
    this.field = field;
    const where = [this.file, this.field, this.problem].filter(Boolean).join(": ");
    const details = [];
    if (this.expected !== undefined) details.push(`expected ${this.expected}`);
    if (this.found !== undefined) details.push(`found ${this.found}`);
    this.message = details.length ? `${where} (${details.join(", ")})` : where;
    const frames = this.stack?.indexOf("\n    at ") ?? -1; // V8 puts the message before them, and prints that
    if (frames >= 0) this.stack = `${this.name}: ${this.message}${this.stack?.slice(frames)}`;
  }
}

/**
 * A value as a message has it.
 * @param {any} value
 * @returns {string}
 */
function shown(value) {
  if (value === undefined) return "nothing";
  if (value instanceof Map) return "an object";
  if (Array.isArray(value)) return "a list";
  if (value instanceof Float) return String(value.value);
  return (typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : String(value)).slice(0, 80);
}

/**
 * Reads a part; an error tells where it is.
 * @template T
 * @param {any} part a key or a number
 * @param {() => T} read
 * @returns {T}
 */
function within(part, read) {
  try {
    return read();
  } catch (error) {
    if (error instanceof TraceError) error.locate(undefined, joined(part, error.field));
    throw error;
  }
}

/**
 * @param {any} part
 * @param {string | undefined} rest
 */
function joined(part, rest) {
  const text = typeof part === "number" ? `[${part}]` : shown(part).replace(/^"|"$/g, "");
  return `${text}${rest && rest[0] !== "[" ? "." : ""}${rest ?? ""}`.slice(0, 200);
}

// ---- names

const TRACE = String.raw`openaigym\.trace\.[0-9]{1,20}\.[0-9]{1,20}(?:-[0-9a-f]{12})?`;
const NAME = new RegExp(
  String.raw`^(${TRACE})\.(?:manifest\.json|ep([0-9]{9,18})(?:\.(json)|(?:\.[0-9]{1,6})?\.bin))$`,
);

/**
 * The parts of a file name; null for files that are none of ours.
 * @param {unknown} name
 * @returns {Name | null}
 */
function parseName(name) {
  const match = typeof name === "string" ? NAME.exec(name) : null;
  if (!match) return null;
  if (match[2] === undefined) return { trace: match[1], kind: "manifest", first: 0n };
  return { trace: match[1], kind: match[3] ? "header" : "blob", first: BigInt(match[2]) };
}

/**
 * Whether the name of a trace is of version 2.
 * @param {string} trace
 */
const isCurrent = (trace) => /-[0-9a-f]{12}$/.test(trace);

/**
 * By code points, as Python compares.
 * @param {string} a
 * @param {string} b
 */
function compareText(a, b) {
  const [left, right] = [[...a], [...b]];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i])
      return /** @type {number} */ (left[i].codePointAt(0)) - /** @type {number} */ (right[i].codePointAt(0));
  }
  return left.length - right.length;
}

/**
 * With the numbers in them compared as numbers.
 * @param {string} a
 * @param {string} b
 */
function compareNames(a, b) {
  const [left, right] = [a.split(/([0-9]+)/), b.split(/([0-9]+)/)];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (i % 2) {
      const [m, n] = [BigInt(left[i]), BigInt(right[i])];
      if (m !== n) return m < n ? -1 : 1;
    } else if (left[i] !== right[i]) {
      return compareText(left[i], right[i]);
    }
  }
  return left.length - right.length;
}

// ---- JSON. `JSON.parse` does not tell 1 from 1.0, rounds large integers, and lets a key stand twice.

/** A number with a fraction or an exponent. All other numbers are integers: a number, or a BigInt beyond 2^53. */
class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

/**
 * The value of a JSON text. Objects become Maps. `lenient` is the first NaN or infinity, which strict JSON has not.
 * @param {string} text
 * @returns {{value: any, lenient: string | null}}
 */
function parseJson(text) {
  let at = 0;
  /** @type {string | null} */
  let lenient = null;

  /**
   * @param {string} [what]
   * @returns {never}
   */
  function fail(what = "unexpected text") {
    throw new TraceError(`not valid JSON: ${what} at character ${at}`);
  }

  function skip() {
    for (;;) {
      const c = text.charCodeAt(at);
      if (c !== 32 && c !== 10 && c !== 13 && c !== 9) return c;
      at++;
    }
  }

  /** The first character behind the digits that begin at `at`, of which there must be one. */
  function digits() {
    const start = at;
    for (let c = text.charCodeAt(at); c >= 48 && c <= 57; c = text.charCodeAt(at)) at++;
    if (at === start) fail("a number without a digit");
    return at - start;
  }

  function number() {
    const start = at;
    if (text[at] === "-") at++;
    const first = text[at];
    const count = digits();
    if (first === "0" && count > 1) fail("a number that begins with 0");
    let isFloat = false;
    if (text[at] === ".") {
      isFloat = true;
      at++;
      digits();
    }
    if (text[at] === "e" || text[at] === "E") {
      isFloat = true;
      at++;
      if (text[at] === "-" || text[at] === "+") at++;
      digits();
    }
    const source = text.slice(start, at);
    if (isFloat) return new Float(Number(source));
    if (count <= 15) return Number(source) + 0; // + 0: there is no integer -0
    const big = count <= MAX_INT_DIGITS ? BigInt(source) : MAX_INT;
    if (big >= MAX_INT || big <= -MAX_INT)
      throw new TraceError("an integer of too many bits", { expected: "at most 4096" });
    return Number.isSafeInteger(Number(big)) ? Number(big) : big;
  }

  function string() {
    const start = at++;
    let end = text.indexOf('"', at);
    if (end < 0) fail("a text without an end");
    const quick = text.slice(at, end);
    // eslint-disable-next-line no-control-regex
    if (!/[\\\x00-\x1f]/.test(quick)) {
      at = end + 1;
      return quick;
    }
    end = at;
    for (let c = text[end]; c !== '"'; c = text[end]) {
      if (c === undefined) fail("a text without an end");
      end += c === "\\" ? 2 : 1;
    }
    try {
      const value = /** @type {string} */ (JSON.parse(text.slice(start, end + 1)));
      at = end + 1;
      return value;
    } catch {
      return fail("a text with a character that must be escaped, or an unknown escape");
    }
  }

  /**
   * @param {string} word
   * @param {any} value
   */
  function literal(word, value) {
    if (!text.startsWith(word, at)) fail();
    at += word.length;
    return value;
  }

  /**
   * @param {string} word
   * @param {number} value
   */
  function constant(word, value) {
    literal(word, value);
    lenient ??= word;
    return new Float(value);
  }

  /**
   * @param {number} depth
   * @returns {any}
   */
  function value(depth) {
    if (depth > MAX_JSON_DEPTH) throw new TraceError("the JSON nests too deeply");
    const c = skip();
    switch (c) {
      case 34: // "
        return string();
      case 91: {
        // [
        /** @type {any[]} */
        const list = [];
        at++;
        if (skip() === 93) return (at++, list);
        for (;;) {
          list.push(value(depth + 1));
          const next = skip();
          at++;
          if (next === 93) return list;
          if (next !== 44) (at--, fail());
        }
      }
      case 123: {
        // {
        const members = new Map();
        at++;
        if (skip() === 125) return (at++, members);
        for (;;) {
          if (skip() !== 34) fail();
          const key = string();
          if (skip() !== 58) fail();
          at++;
          if (members.has(key)) throw new TraceError("a key stands twice", { field: key.slice(0, 80) });
          members.set(key, value(depth + 1));
          const next = skip();
          at++;
          if (next === 125) return members;
          if (next !== 44) (at--, fail());
        }
      }
      case 116:
        return literal("true", true);
      case 102:
        return literal("false", false);
      case 110:
        return literal("null", null);
      case 78:
        return constant("NaN", NaN);
      case 73:
        return constant("Infinity", Infinity);
      default:
        if (c === 45 && text[at + 1] === "I") return constant("-Infinity", -Infinity);
        return number();
    }
  }

  const result = value(0);
  skip();
  if (at !== text.length) fail("something behind the end");
  return { value: result, lenient };
}

/**
 * A value of JSON as users get it.
 * @param {any} value
 * @param {boolean} bigint
 * @returns {any}
 */
function plain(value, bigint) {
  if (value instanceof Float) return value.value;
  if (Array.isArray(value)) return value.map((item) => plain(item, bigint));
  if (value instanceof Map) return new Map([...value].map(([key, item]) => [key, plain(item, bigint)]));
  return bigint && typeof value === "number" ? BigInt(value) : value;
}

// ---- documents

/** @type {Uint32Array | undefined} */
let crcTable;

/**
 * The CRC-32 of zlib, going on from `crc`.
 * @param {Uint8Array} bytes
 * @param {number} [crc]
 */
function crc32(bytes, crc = 0) {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, n) => {
    for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
    return n;
  });
  crc = ~crc;
  for (let i = 0; i < bytes.length; i++) crc = (crc >>> 8) ^ crcTable[(crc ^ bytes[i]) & 255];
  return ~crc >>> 0;
}

/** @param {number} crc */
const hex8 = (crc) => crc.toString(16).padStart(8, "0");

/** @param {any} value */
const isInteger = (value) => typeof value === "number" || typeof value === "bigint";
/** @param {any} value */
const isCount = (value) => isInteger(value) && value >= 0;
/** @param {any} value */
const isSmallCount = (value) => isCount(value) && value < 2n ** 63n;

/** @type {Record<string, (value: any) => boolean>} */
const KINDS = {
  text: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  count: isCount,
  list: Array.isArray,
  object: (value) => value instanceof Map,
};

/**
 * `document[key]`, which must be of a kind; `absent` where it is not there, if that is given.
 * @param {Map<string, any>} document
 * @param {string} key
 * @param {keyof typeof KINDS} kind
 * @param {string} file
 * @param {any} [absent]
 * @returns {any}
 */
function member(document, key, kind, file, absent) {
  const value = document.has(key) ? document.get(key) : absent;
  if (!KINDS[kind](value)) {
    throw new TraceError("malformed", { file, field: key, expected: `a ${kind}`, found: shown(value) });
  }
  return value;
}

/**
 * The members of a manifest or header of any version, whose seal is right if it has one; and its major version.
 * @param {Uint8Array} bytes
 * @param {string} file
 * @returns {{document: Map<string, any>, version: number}}
 */
function readDocument(bytes, file) {
  if (bytes.length > MAX_JSON_BYTES) {
    throw new TraceError("too large", { file, expected: `at most ${MAX_JSON_BYTES} bytes` });
  }
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    // A string of V8 has at most 2^29 characters.
    const problem =
      bytes.length > 2 ** 29 - 25 ? "too large for one text of this JavaScript" : "not valid JSON: no UTF-8";
    throw new TraceError(problem, { file });
  }
  let value, lenient;
  try {
    ({ value, lenient } = parseJson(text));
  } catch (error) {
    if (error instanceof RangeError) throw new TraceError("the JSON nests too deeply", { file });
    if (error instanceof TraceError) error.locate(file, error.field);
    throw error;
  }
  if (!(value instanceof Map)) {
    throw new TraceError("wrong top level", { file, expected: "an object", found: shown(value) });
  }
  const version = documentVersion(value, file);
  const name = parseName(file);
  if (name && isCurrent(name.trace) !== version >= 2) {
    const found = `version ${version}`;
    throw new TraceError("not of the version that its name says", { file, field: "format", found });
  }
  if (version >= 2) {
    if (lenient) throw new TraceError("not strict JSON", { file, found: lenient });
    const seal = /"crc32"[ \t\n\r\f\v]*:[ \t\n\r\f\v]*"([0-9a-f]{8})"/.exec(text);
    if (!seal || value.get("crc32") !== seal[1]) {
      throw new TraceError("no checksum", { file, field: "crc32", expected: "8 hex digits" });
    }
    const at = new TextEncoder().encode(text.slice(0, seal.index + seal[0].length - 9)).length;
    let actual = crc32(bytes.subarray(0, at));
    actual = crc32(new TextEncoder().encode("00000000"), actual);
    actual = crc32(bytes.subarray(at + 8), actual);
    if (hex8(actual) !== seal[1]) {
      throw new TraceError("damaged", { file, field: "crc32", expected: seal[1], found: hex8(actual) });
    }
  }
  return { document: value, version };
}

/**
 * The major version: 1 for documents without `format`.
 * @param {Map<string, any>} document
 * @param {string} file
 */
function documentVersion(document, file) {
  if (!document.has("format")) return 1;
  const format = document.get("format");
  const version = format instanceof Map && format.get("name") === "gym-recording" ? format.get("version") : null;
  if (!Array.isArray(version) || version.length !== 2 || !version.every(isInteger)) {
    throw new TraceError("not a recording", { file, field: "format", found: shown(format) });
  }
  if (version[0] !== 2) {
    const found = version.join(".").slice(0, 80);
    throw new TraceError("of another version; a newer reader may read it", {
      file,
      field: "format.version",
      expected: "2.x",
      found,
    });
  }
  return 2;
}

/**
 * The headers that a manifest lists, with the number of their episodes; fills in what else it says of its trace.
 * @param {Uint8Array} bytes
 * @param {string} file
 * @param {Trace} trace
 * @param {boolean} bigint
 */
function readManifest(bytes, file, trace, bigint) {
  const { document } = readDocument(bytes, file);
  /** @type {Map<string, number>} */
  const listed = new Map();
  for (const entry of member(document, "batches", "list", file)) {
    if (!(entry instanceof Map)) {
      throw new TraceError("malformed", { file, field: "batches", expected: "objects", found: shown(entry) });
    }
    const fn = member(entry, "fn", "text", file);
    const name = parseName(fn);
    if (name?.kind !== "header") {
      throw new TraceError("not the name of a header", { file, field: "batches.fn", found: shown(fn) });
    }
    const count = member(entry, "len", "count", file);
    if (count > MAX_EPISODES) {
      throw new TraceError("too many episodes", { file, field: "batches.len", found: shown(count) });
    }
    if (entry.has("first") && entry.get("first") !== null) member(entry, "first", "count", file);
    if (name.trace !== trace.name || listed.has(fn)) {
      throw new TraceError("not a batch of this trace, or listed twice", { file, found: fn });
    }
    listed.set(fn, count);
  }
  trace.created = member(document, "created", "text", file, "");
  trace.closed = member(document, "closed", "boolean", file, false);
  trace.repaired = member(document, "repaired", "text", file, "");
  trace.writer = plain(member(document, "writer", "object", file, new Map()), bigint);
  trace.env = plain(member(document, "env", "object", file, new Map()), bigint);
  trace.metadata = plain(document.get("metadata") ?? null, bigint);
  return listed;
}

/**
 * A header whose own members are well-formed; its episodes are untrusted until they are read.
 * @param {Uint8Array} bytes
 * @param {string} file
 * @returns {Header}
 */
function readHeader(bytes, file) {
  const { document, version } = readDocument(bytes, file);
  const episodes = member(document, "episodes", "list", file);
  for (const episode of episodes) {
    if (!(episode instanceof Map)) throw new TraceError("malformed", { file, field: "episodes", expected: "objects" });
  }
  /** @type {Map<string, BlobEntry>} */
  const blobs = new Map();
  if (version < 2) return { file, version: 1, blobs, episodes };
  for (const blob of member(document, "blobs", "list", file)) {
    if (!(blob instanceof Map)) {
      throw new TraceError("malformed", { file, field: "blobs", expected: "objects", found: shown(blob) });
    }
    const fn = member(blob, "fn", "text", file);
    if (parseName(fn)?.kind !== "blob" || blobs.has(fn)) {
      throw new TraceError("not the name of a blob", { file, field: "blobs.fn", found: shown(fn) });
    }
    const size = member(blob, "size", "count", file);
    const crc = member(blob, "crc32", "text", file);
    const start = member(blob, "start", "count", file, 0);
    blobs.set(fn, { size: Number(size), crc32: crc, start: Number(start) }); // no file is so large that it is rounded
  }
  member(document, "columns", "list", file);
  const first = member(document, "first", "count", file);
  if (BigInt(first) !== parseName(file)?.first) {
    throw new TraceError("not the batch of this name", { file, field: "first", found: shown(first) });
  }
  return { file, version: 2, blobs, episodes };
}

// ---- dtypes

/** @type {Record<string, string>} */
const CODES = {
  bool: "b1",
  int8: "i1",
  int16: "i2",
  int32: "i4",
  int64: "i8",
  uint8: "u1",
  uint16: "u2",
  uint32: "u4",
  uint64: "u8",
  float16: "f2",
  float32: "f4",
  float64: "f8",
  complex64: "c8",
  complex128: "c16",
};
const NAMES = Object.fromEntries(Object.entries(CODES).map(([name, code]) => [code, name]));
const CODE = /^([<>|=]?)(\?|b1|[iu][1248]|f[248]|c8|c16|S[1-9][0-9]{0,8}|U[1-9][0-9]{0,7})$/;

/** What unsigned integers carry: the carrier, the bits of exponent and mantissa, the bias, what is special. */
/** @type {Record<string, [string, number, number, number, "ieee" | "fn" | "fnuz" | "fnu"]>} */
const VIEWS = {
  bfloat16: ["uint16", 8, 7, 127, "ieee"],
  float8_e3m4: ["uint8", 3, 4, 3, "ieee"],
  float8_e4m3: ["uint8", 4, 3, 7, "ieee"],
  float8_e4m3b11fnuz: ["uint8", 4, 3, 11, "fnuz"],
  float8_e4m3fn: ["uint8", 4, 3, 7, "fn"],
  float8_e4m3fnuz: ["uint8", 4, 3, 8, "fnuz"],
  float8_e5m2: ["uint8", 5, 2, 15, "ieee"],
  float8_e5m2fnuz: ["uint8", 5, 2, 16, "fnuz"],
  float8_e8m0fnu: ["uint8", 8, 0, 127, "fnu"],
};

/**
 * The dtype that a file names; only those of FORMAT.md, in either byte order.
 * @param {string} text
 * @returns {Dtype}
 */
function parseDtype(text) {
  if (text.length <= MAX_DTYPE_TEXT) {
    const match = CODE.exec(Object.hasOwn(CODES, text) ? CODES[text] : text);
    if (match) return plainDtype(match[2] === "?" ? "b1" : match[2], match[1] === ">");
    if (text[0] === "[" || text[0] === "{") {
      try {
        return structure(parseLiteral(text));
      } catch (error) {
        if (!(error instanceof SyntaxError || error instanceof TraceError)) throw error;
      }
    }
  }
  const expected = "a number, bool, text or structured dtype";
  throw new TraceError("the dtype is not allowed", { field: "dtype", expected, found: shown(text) });
}

/**
 * @param {string} code without byte order
 * @param {boolean} big
 * @returns {Dtype}
 */
function plainDtype(code, big) {
  const kind = code[0];
  const number = Number(code.slice(1));
  const size = kind === "U" ? 4 * number : number;
  const unit = kind === "U" ? 4 : kind === "S" ? 1 : kind === "c" ? number / 2 : number;
  const little = `${unit === 1 ? "|" : "<"}${code}`;
  big = big && unit > 1;
  return {
    name: NAMES[code] ?? little,
    code: little,
    stored: big ? `>${code}` : little,
    size,
    unit,
    big,
    fields: null,
  };
}

/**
 * A literal of Python: texts, integers, lists, tuples, dicts; True, False and None. Tuples are of class Tuple.
 * @param {string} text
 * @returns {any}
 */
function parseLiteral(text) {
  let at = 0;
  const fail = () => new SyntaxError("not a literal");
  /** @param {string} character */
  function accept(character) {
    while (/[ \t\n\r\f]/.test(text[at] ?? "")) at++;
    if (text[at] !== character) return false;
    at++;
    return true;
  }
  /**
   * @param {string} end
   * @param {() => any} item
   */
  function items(end, item) {
    const found = [];
    let comma = true;
    while (!accept(end)) {
      if (!comma) throw fail();
      found.push(item());
      comma = accept(",");
    }
    return { found, comma };
  }
  /**
   * @param {number} depth
   * @returns {any}
   */
  function value(depth) {
    if (depth > 200) throw fail();
    const next = () => value(depth + 1);
    if (accept("[")) return items("]", next).found;
    if (accept("(")) {
      const { found, comma } = items(")", next);
      return found.length === 1 && !comma ? found[0] : Tuple.from(found);
    }
    if (accept("{")) {
      return new Map(
        items("}", () => {
          const key = next();
          if (!accept(":")) throw fail();
          return [key, next()];
        }).found,
      );
    }
    const word =
      /(?:True|False|None)\b|-?(?:0|[1-9][0-9]*)(?=L?\b)|[uU]?'(?:[^'\\\0\n]|\\.)*'|[uU]?"(?:[^"\\\0\n]|\\.)*"/y;
    word.lastIndex = at; // `accept` has skipped the blanks
    const match = word.exec(text)?.[0];
    if (match === undefined) throw fail();
    at = word.lastIndex;
    if (/['"]$/.test(match)) return match.slice(/[uU]/.test(match[0]) ? 2 : 1, -1).replace(ESCAPE, unescaped);
    if (match === "True" || match === "False") return match === "True";
    if (match === "None") return null;
    if (text[at] === "L") at++; // of Python 2
    return Number(match);
  }
  const result = value(0);
  if (!/^[ \t\n\r\f]*$/.test(text.slice(at))) throw fail();
  return result;
}

const ESCAPE = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([^]))/gi;

/**
 * @param {string} whole
 * @param {string | undefined} x
 * @param {string | undefined} u
 * @param {string | undefined} U
 * @param {string | undefined} other
 */
function unescaped(whole, x, u, U, other) {
  const point = parseInt(x ?? u ?? U ?? "", 16);
  if (point <= 0x10ffff) return String.fromCodePoint(point);
  const known = { n: "\n", r: "\r", t: "\t", "\\": "\\", "'": "'", '"': '"' }[other ?? ""];
  if (known === undefined) throw new SyntaxError("an unknown escape");
  return known;
}

/**
 * A structured dtype from NumPy's description of it: the list of fields, or the dict with offsets.
 * @param {any} description
 * @returns {Dtype}
 */
function structure(description) {
  /** @type {Field[]} */
  const fields = [];
  let size = 0;
  if (description instanceof Map) {
    const [names, formats, offsets] = ["names", "formats", "offsets"].map((key) => description.get(key));
    size = description.get("itemsize");
    if (![names, formats, offsets].every(Array.isArray)) throw new SyntaxError("no lists");
    if (formats.length !== names.length || offsets.length !== names.length) throw new SyntaxError("lists that differ");
    names.forEach((/** @type {any} */ name, /** @type {number} */ i) =>
      fields.push(field(name, formats[i], offsets[i])),
    );
  } else if (Array.isArray(description) && !(description instanceof Tuple)) {
    for (const item of description) {
      if (!(item instanceof Tuple) || item.length < 2 || item.length > 3) throw new SyntaxError("no field");
      const [name, base, shape] = item;
      const padding = name === "" && typeof base === "string" ? /^\|?V([0-9]{1,9})$/.exec(base) : null;
      if (padding) {
        size += Number(padding[1]);
      } else {
        fields.push(field(name, item.length === 3 ? Tuple.of(base, shape) : base, size));
        size += fields[fields.length - 1].size;
      }
    }
  } else {
    throw new SyntaxError("no structure");
  }
  let end = 0;
  for (const { offset, size } of fields) {
    if (!Number.isSafeInteger(offset) || offset < end) throw new SyntaxError("fields that overlap");
    end = offset + size;
  }
  if (!fields.length || !Number.isSafeInteger(size) || size < end || size >= 2 ** 31) throw new SyntaxError("no size");
  if (new Set(fields.map(({ name }) => name)).size !== fields.length) throw new SyntaxError("a field twice");
  const [code, stored] = [descr(fields, size, "code"), descr(fields, size, "stored")];
  return { name: code, code, stored, size, unit: 1, big: fields.some(({ dtype }) => dtype.big), fields };
}

/**
 * @param {any} name
 * @param {any} format a dtype, or a tuple of one and a shape
 * @param {any} offset
 * @returns {Field}
 */
function field(name, format, offset) {
  if (typeof name !== "string") throw new SyntaxError("no name");
  /** @type {number[]} */
  const shape = [];
  while (format instanceof Tuple) {
    const lengths = format[1];
    if (format.length !== 2 || !(lengths instanceof Tuple)) throw new SyntaxError("no shape");
    if (!lengths.every((length) => Number.isSafeInteger(length) && length >= 0)) throw new SyntaxError("no lengths");
    shape.push(...lengths);
    format = format[0];
  }
  const dtype = typeof format === "string" ? parseDtype(format) : structure(format);
  const size = product(shape) * dtype.size;
  if (size >= 2 ** 31 || shape.length > MAX_NDIM) throw new SyntaxError("too large");
  return { name, dtype, shape, offset, size };
}

/**
 * NumPy's description of a structure.
 * @param {Field[]} fields
 * @param {number} size
 * @param {"code" | "stored"} which
 */
function descr(fields, size, which) {
  const parts = [];
  let at = 0;
  for (const { name, dtype, shape, offset, size } of fields) {
    if (offset > at) parts.push(`('', '|V${offset - at}')`);
    const base = dtype.fields ? dtype[which] : `'${dtype[which]}'`;
    parts.push(
      `(${pythonText(name)}, ${base}${shape.length ? `, (${shape.join(", ")}${shape.length === 1 ? "," : ""})` : ""})`,
    );
    at = offset + size;
  }
  if (size > at) parts.push(`('', '|V${size - at}')`);
  return `[${parts.join(", ")}]`;
}

/** @param {string} text */
function pythonText(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  /** @type {Record<string, string>} */
  const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", [quote]: `\\${quote}` };
  // eslint-disable-next-line no-control-regex
  const escaped = text.replace(/['"\\\x00-\x1f\x7f-\xa0\xad]/g, (c) => {
    if (short[c]) return short[c];
    return c === "'" || c === '"' ? c : `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return `${quote}${escaped}${quote}`;
}

/** @param {number[]} shape */
function product(shape) {
  return shape.includes(0) ? 0 : shape.reduce((size, length) => size * length, 1);
}

/**
 * Changes elements in place to little-endian.
 * @param {Uint8Array} bytes
 * @param {Dtype} dtype
 */
function swap(bytes, dtype) {
  if (!dtype.big) return;
  if (dtype.fields) {
    for (let at = 0; at < bytes.length; at += dtype.size) {
      for (const { dtype: inner, offset, size } of dtype.fields)
        swap(bytes.subarray(at + offset, at + offset + size), inner);
    }
  } else {
    for (let at = 0; at < bytes.length; at += dtype.unit) bytes.subarray(at, at + dtype.unit).reverse();
  }
}

/**
 * Elements in C order, of such in Fortran order.
 * @param {Uint8Array} bytes
 * @param {number[]} shape
 * @param {number} size of an element
 */
function transposed(bytes, shape, size) {
  const result = new Uint8Array(bytes.length);
  const index = shape.map(() => 0);
  const strides = shape.map((_, axis) => product(shape.slice(0, axis)) * size);
  for (let to = 0; to < bytes.length; to += size) {
    const from = index.reduce((sum, i, axis) => sum + i * strides[axis], 0);
    result.set(bytes.subarray(from, from + size), to);
    for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
  }
  return result;
}

/** @type {Map<string, Float32Array>} */
const floatTables = new Map();

/**
 * The float32 of every bit pattern of a small float.
 * @param {string} name
 * @param {number} bits
 * @param {[string, number, number, number, string]} kind
 */
function floatTable(name, bits, [, exponentBits, mantissaBits, bias, special]) {
  let table = floatTables.get(name);
  if (!table) {
    table = new Float32Array(2 ** bits);
    const signed = special !== "fnu";
    const top = 2 ** exponentBits - 1;
    for (let pattern = 0; pattern < table.length; pattern++) {
      const mantissa = pattern & (2 ** mantissaBits - 1);
      const exponent = (pattern >> mantissaBits) & top;
      const negative = signed && pattern >> (bits - 1) === 1;
      let value =
        exponent || !signed
          ? (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias)
          : (mantissa / 2 ** mantissaBits) * 2 ** (1 - bias);
      if (special === "ieee" && exponent === top) value = mantissa ? NaN : Infinity;
      if (special === "fn" && exponent === top && mantissa === 2 ** mantissaBits - 1) value = NaN;
      if (special === "fnuz" && pattern === 2 ** (bits - 1)) value = NaN;
      if (special === "fnu" && exponent === top) value = NaN;
      table[pattern] = negative ? -value : value;
    }
    floatTables.set(name, table);
  }
  return table;
}

// ---- arrays and columns

/** @type {Record<string, any>} */
const TYPED = {
  bool: Uint8Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  float32: Float32Array,
  float64: Float64Array,
  complex64: Float32Array,
  complex128: Float64Array,
};

/** A tuple. */
export class Tuple extends Array {}

/**
 * An array: `bytes` has its elements, little-endian, the last index runs fastest.
 *
 * - `dtype`: `float32`, `<U5`, `[('x', '<f4')]`; `code` is NumPy's type code of it, `<f4`.
 * - `view`: what the elements are, if that is a dtype that NumPy lacks (`bfloat16`); else null.
 * - `shape`: lengths; [] for a scalar.
 */
export class TraceArray {
  /** @type {any} */
  #data;
  #dtype;
  #bytes;
  /** @type {((start: number, end: number) => Promise<Uint8Array>) | null} how its bytes are read, if that is later */
  source = null;

  /**
   * @param {Dtype} dtype
   * @param {string | null} view
   * @param {number[]} shape
   * @param {Uint8Array | null} bytes null: not read yet
   */
  constructor(dtype, view, shape, bytes) {
    this.#dtype = dtype;
    this.view = view;
    this.shape = shape;
    this.#bytes = bytes;
  }

  get bytes() {
    if (this.#bytes === null) throw new TraceError("the array is not read yet", { expected: "rows(from, to)" });
    return this.#bytes;
  }

  set bytes(bytes) {
    this.#bytes = bytes;
  }

  /** How many bytes it has. */
  get size() {
    return product(this.shape) * this.#dtype.size;
  }

  get dtype() {
    return this.#dtype.name;
  }

  get code() {
    return this.#dtype.code;
  }

  /** How many rows. */
  get length() {
    return this.shape[0];
  }

  /**
   * Its elements, flat: a typed array over `bytes`, an Array for text, and `bytes` itself for structures (see `field`).
   * bool is Uint8Array of 0 and 1; complex numbers are pairs; text of bytes (`|S5`) has a character for each.
   * @returns {any}
   */
  get data() {
    return (this.#data ??= this.#decode());
  }

  #decode() {
    const { name, size, fields } = this.#dtype;
    if (fields) return this.bytes;
    if (name[1] === "U" || name[1] === "S") {
      const unit = name[1] === "U" ? 4 : 1;
      const points = unit === 4 ? this.#over(Uint32Array) : this.bytes;
      return Array.from({ length: product(this.shape) }, (_, i) =>
        text(points.subarray((i * size) / unit, ((i + 1) * size) / unit)),
      );
    }
    if (this.view) return this.#table(this.view, VIEWS[this.view]);
    if (name === "float16") return this.#table(name, ["uint16", 5, 10, 15, "ieee"]);
    if (name === "bool" && this.bytes.some((byte) => byte > 1)) return this.bytes.map((byte) => (byte ? 1 : 0));
    return this.#over(TYPED[name]);
  }

  /**
   * @param {string} name
   * @param {[string, number, number, number, string]} kind
   */
  #table(name, kind) {
    const patterns = this.#over(TYPED[kind[0]]);
    const table = floatTable(name, 8 * patterns.BYTES_PER_ELEMENT, kind);
    return Float32Array.from(patterns, (/** @type {number} */ pattern) => table[pattern]);
  }

  /** @param {any} type of a typed array; its elements are little-endian wherever JavaScript runs today */
  #over(type) {
    const size = type.BYTES_PER_ELEMENT;
    const bytes = this.bytes.byteOffset % size ? this.bytes.slice() : this.bytes;
    return new type(bytes.buffer, bytes.byteOffset, bytes.byteLength / size);
  }

  /**
   * `data` as Numbers, where that loses nothing: null for text, structures, complex numbers, and integers beyond 2^53.
   * @returns {any}
   */
  get numbers() {
    const data = this.data;
    if (Array.isArray(data) || this.#dtype.fields || this.dtype.startsWith("complex")) return null;
    if (!(data instanceof BigInt64Array || data instanceof BigUint64Array)) return data;
    const numbers = new Float64Array(data.length);
    for (let i = 0; i < data.length; i++) {
      numbers[i] = Number(data[i]);
      if (BigInt(numbers[i]) !== data[i] || !Number.isSafeInteger(numbers[i])) return null;
    }
    return numbers;
  }

  /**
   * Rows `from` up to `to` as an array; they are read now, if the array is not.
   * @param {number} from
   * @param {number} to
   */
  async rows(from, to) {
    if (!(0 <= from && from <= to && to <= this.length)) throw new RangeError(`rows ${from}..${to} of ${this.length}`);
    const size = this.size / this.length || 0;
    const bytes = this.source ? await this.source(from * size, to * size) : this.bytes.subarray(from * size, to * size);
    return new TraceArray(this.#dtype, this.view, [to - from, ...this.shape.slice(1)], bytes);
  }

  /**
   * Row `t` as an array; it is read later, if the array is.
   * @param {number} t
   */
  at(t) {
    if (!Number.isInteger(t) || t < 0 || !(t < this.length)) throw new RangeError(`row ${t} of ${this.length}`);
    const [size, source] = [this.size / this.length, this.source];
    const bytes = source ? null : this.bytes.subarray(t * size, (t + 1) * size);
    const row = new TraceArray(this.#dtype, this.view, this.shape.slice(1), bytes);
    if (source) row.source = (start, end) => source(t * size + start, t * size + end);
    return row;
  }

  /**
   * Row `t`: a value if rows have no dimension, else an array.
   * @param {number} t
   */
  row(t) {
    const row = this.at(t);
    return row.shape.length || this.#dtype.fields ? row : row.item();
  }

  /** The only element: a number, BigInt, boolean or text; of a complex number the pair. */
  item() {
    if (product(this.shape) !== 1) throw new RangeError(`${product(this.shape)} elements, not one`);
    if (this.dtype === "bool") return this.data[0] !== 0;
    return this.dtype.startsWith("complex") || this.#dtype.fields ? this.data : this.data[0];
  }

  /** The names of the fields of a structure; null for all else. */
  get fields() {
    return this.#dtype.fields?.map(({ name }) => name) ?? null;
  }

  /**
   * A field of a structure, as an array of its own.
   * @param {string} name
   */
  field(name) {
    const found = this.#dtype.fields?.find((field) => field.name === name);
    if (!found) throw new RangeError(`no field ${name}`);
    const count = product(this.shape);
    const bytes = new Uint8Array(count * found.size);
    for (let i = 0; i < count; i++) {
      const start = i * this.#dtype.size + found.offset;
      bytes.set(this.bytes.subarray(start, start + found.size), i * found.size);
    }
    return new TraceArray(found.dtype, null, [...this.shape, ...found.shape], bytes);
  }
}

/**
 * The text of an element, without the zeros that fill it up.
 * @param {Uint8Array | Uint32Array} points
 */
function text(points) {
  let end = points.length;
  while (end && points[end - 1] === 0) end--;
  let result = "";
  for (let i = 0; i < end; i++) {
    if (points[i] > 0x10ffff) throw new TraceError("no such character", { found: String(points[i]) });
    result += String.fromCodePoint(points[i]);
  }
  return result;
}

/**
 * Row `t` of any column.
 * @param {Column} column
 * @param {number} t
 * @returns {any}
 */
function rowOf(column, t) {
  return Array.isArray(column) ? column[t] : column.row(t);
}

/** Dict observations or actions: `columns` has the rows by key, `row(t)` is the dict of step t. Both are Maps. */
export class DictColumns {
  /** @param {Map<any, Column>} columns */
  constructor(columns) {
    this.columns = columns;
    /** How many rows. */
    this.length = sameLength([...columns.values()]);
  }

  /**
   * The rows of a key.
   * @param {any} key
   */
  get(key) {
    return this.columns.get(key);
  }

  /** @param {number} t */
  row(t) {
    return new Map([...this.columns].map(([key, column]) => [key, rowOf(column, t)]));
  }
}

/** Tuple observations or actions: `columns[k]` has the rows of item k, `row(t)` is the tuple of step t. */
export class TupleColumns {
  /** @param {Column[]} columns */
  constructor(columns) {
    this.columns = columns;
    /** How many rows. */
    this.length = sameLength(columns);
  }

  /** @param {number} t */
  row(t) {
    return Tuple.from(this.columns, (column) => rowOf(column, t));
  }
}

/**
 * @param {Column[]} columns
 * @returns {number}
 */
function sameLength(columns) {
  const lengths = new Set(columns.map(({ length }) => length));
  if (lengths.size !== 1) {
    throw new TraceError("the columns of a dict or tuple differ in length", {
      found: [...lengths].join(", ").slice(0, 80),
    });
  }
  return columns[0].length;
}

/** Infos: `columns` are `{key, rows, values}`, `row(t)` is the dict that came with `observations[t]`, a Map. */
export class Infos {
  /** @type {Map<number, number>[] | undefined} */
  #places;

  /**
   * @param {InfoColumn[]} columns
   * @param {number} length
   */
  constructor(columns, length) {
    this.columns = columns;
    this.length = length;
  }

  /** @param {number} t */
  row(t) {
    this.#places ??= this.columns.map(({ rows }) => new Map(Array.from(rows.numbers, (row, i) => [row, i])));
    const found = new Map();
    this.columns.forEach(({ key, values }, i) => {
      const place = /** @type {Map<number, number>[]} */ (this.#places)[i].get(t);
      if (place !== undefined) found.set(key, rowOf(values, place));
    });
    return found;
  }
}

/**
 * An episode of T steps. `actions[t]` was applied to `observations[t]` and led to `observations[t + 1]`.
 * Members are those of FORMAT.md, section 6; what is not known is null. `seed` is a BigInt beyond 2^53.
 */
export class Episode {
  /**
   * @param {Column} observations T + 1 rows, T if `headless`
   * @param {Column} actions T rows
   * @param {Column} rewards T rows
   * @param {Map<string, any>} members
   */
  constructor(observations, actions, rewards, members) {
    this.observations = observations;
    this.actions = actions;
    this.rewards = rewards;
    /** @type {boolean | null} */
    this.terminated = members.get("terminated") ?? null;
    /** @type {boolean | null} */
    this.truncated = members.get("truncated") ?? null;
    /** @type {"terminated" | "truncated" | "reset" | "close" | "crash" | null} */
    this.ended_by = members.get("ended_by") ?? null;
    /** @type {number | bigint | null} */
    this.seed = members.get("seed") ?? null;
    /** @type {any} */
    this.options = members.get("options") ?? null;
    /** @type {string | null} */
    this.started = members.get("started") ?? null;
    /** @type {number | bigint | null} */
    this.lane = members.get("lane") ?? null;
    /** @type {boolean} */
    this.headless = members.get("headless") ?? false;
    /** @type {(number | bigint)[]} */
    this.gaps = members.get("gaps") ?? [];
    /** @type {Column | null} */
    this.timestamps = members.get("timestamps") ?? null;
    /** @type {Infos | null} */
    this.infos = members.get("infos") ?? null;
    /**
     * Pictures, uint8, one for each row of the observations: (n, height, width[, channels]). If some are missing or
     * differ in size, an Array with one or null for each.
     * @type {TraceArray | (TraceArray | null)[] | null}
     */
    this.frames = null;
    const steps = rewards.length;
    for (const [field, column, rows] of /** @type {[string, Column, number][]} */ ([
      ["actions", actions, steps],
      ["observations", observations, this.headless ? steps : steps + 1],
    ])) {
      if (column.length !== rows) {
        throw new TraceError("wrong number of rows", { field, expected: String(rows), found: String(column.length) });
      }
    }
  }

  /** T, the number of steps. */
  get length() {
    return this.rewards.length;
  }
}

// ---- an episode of a header

/** @type {Record<string, (value: any) => boolean>} */
const MEMBERS = {
  terminated: KINDS.boolean,
  truncated: KINDS.boolean,
  ended_by: (value) => ["terminated", "truncated", "reset", "close", "crash"].includes(value),
  seed: isInteger,
  started: KINDS.text,
  lane: isSmallCount,
  headless: KINDS.boolean,
  gaps: (value) => Array.isArray(value) && value.every(isSmallCount),
};

/** JSON values back to arrays and values, for one episode. First all records are checked, then their bytes are read. */
class Decoder {
  /**
   * @param {Header} header
   * @param {boolean} bigint
   */
  constructor(header, bigint) {
    this.header = header;
    this.bigint = bigint;
    /** @type {Place[]} */
    this.places = [];
    /** @type {Sparse[] | null} */
    this.sizes = null;
  }

  /**
   * @param {Map<string, any>} record
   * @returns {TraceArray}
   */
  array(record) {
    const { file, version, blobs } = this.header;
    const isNpy = !record.has("size");
    if (isNpy && version >= 2) {
      throw new TraceError("malformed", { file, field: "size", expected: "a length", found: "nothing" });
    }
    const blob = record.get("npyfile");
    if (version >= 2 && !blobs.has(blob)) {
      throw new TraceError("not a blob of this batch", { file, field: "npyfile", found: shown(blob) });
    }
    const shape = record.get("shape");
    if (!Array.isArray(shape) || shape.length > MAX_NDIM || !shape.every(isCount)) {
      throw new TraceError("malformed", { file, field: "shape", expected: "a list of lengths", found: shown(shape) });
    }
    if (!shape.every(Number.isSafeInteger)) {
      throw new TraceError("more rows than JavaScript counts", {
        file,
        field: "shape",
        found: shown(shape.join(", ")),
      });
    }
    if (record.has("order") && record.get("order") !== "C") {
      throw new TraceError("malformed", { file, field: "order", expected: "C", found: shown(record.get("order")) });
    }
    const dtype = parseDtype(member(record, "dtype", "text", file));
    const offset = Number(member(record, "npyoff", "count", file));
    if (parseName(member(record, "npyfile", "text", file))?.kind !== "blob") {
      throw new TraceError("not the name of a blob", { file, field: "npyfile", found: shown(blob) });
    }
    const size = product(shape) * dtype.size;
    if (!isNpy && record.get("size") !== size) {
      const found = shown(record.get("size"));
      throw new TraceError("wrong size", { file, field: "size", expected: String(size), found });
    }
    if (!Number.isSafeInteger(offset + size)) {
      throw new TraceError("the array is not wholly there", { file: blob, expected: `${offset + size} bytes` });
    }
    const entry = blobs.get(blob);
    if (entry && offset + size > entry.size) {
      throw new TraceError("the array is not wholly in what counts of its blob", { file, field: "npyoff" });
    }
    const view = record.get("view") ?? null;
    if (view !== null) {
      const carrier = typeof view === "string" && Object.hasOwn(VIEWS, view) ? VIEWS[view][0] : null;
      if (carrier !== dtype.name || dtype.big) {
        throw new TraceError("malformed", { file, field: "view", expected: "a view of its dtype", found: shown(view) });
      }
    }
    const array = new TraceArray(dtype, view, shape, null);
    this.places.push({ array, blob, offset, shape, dtype, isNpy });
    return array;
  }

  /**
   * What an object is: its `__type`, null if it has none. Old versions have no type but ndarray.
   * @param {Map<string, any>} value
   * @param {number} depth
   */
  kind(value, depth) {
    const kind = value.get("__type");
    if (kind !== "ndarray") {
      checkDepth(depth);
      if (this.header.version < 2 || !value.has("__type")) return null;
      if (kind !== "tuple" && kind !== "dict") {
        throw new TraceError("unknown", { field: "__type", expected: "ndarray, tuple or dict", found: shown(kind) });
      }
    }
    return kind;
  }

  /**
   * A column value.
   * @param {any} value
   * @param {number} depth
   * @returns {Column}
   */
  column(value, depth = 0) {
    if (Array.isArray(value)) return value.map((item, i) => within(i, () => this.value(item, depth)));
    if (!(value instanceof Map)) {
      throw new TraceError("malformed", { expected: "an array record, object or list", found: shown(value) });
    }
    const kind = this.kind(value, depth);
    if (kind === "ndarray") {
      const array = this.array(value);
      if (!array.shape.length) throw new TraceError("an array without rows", { field: "shape" });
      return array;
    }
    if (kind === "tuple") {
      const items = /** @type {any[]} */ (member(value, "items", "list", this.header.file));
      return new TupleColumns(items.map((item, i) => within(i, () => this.column(item, depth + 1))));
    }
    return new DictColumns(this.members(value, kind, (item) => this.column(item, depth + 1)));
  }

  /**
   * A single value.
   * @param {any} value
   * @param {number} depth
   * @returns {any}
   */
  value(value, depth = 0) {
    if (Array.isArray(value)) {
      checkDepth(depth);
      return value.map((item, i) => within(i, () => this.value(item, depth + 1)));
    }
    if (!(value instanceof Map)) return plain(value, this.bigint);
    const kind = this.kind(value, depth);
    if (kind === "ndarray") return this.array(value);
    if (kind === "tuple") {
      const items = /** @type {any[]} */ (member(value, "items", "list", this.header.file));
      return Tuple.from(items, (item, i) => within(i, () => this.value(item, depth + 1)));
    }
    return this.members(value, kind, (item) => this.value(item, depth + 1));
  }

  /**
   * The members of an object, or of a dict whose keys JSON objects cannot have.
   * @param {Map<string, any>} value
   * @param {any} kind
   * @param {(item: any) => any} read
   */
  members(value, kind, read) {
    if (kind === null) {
      return new Map([...value].map(([key, item]) => [/** @type {any} */ (key), within(key, () => read(item))]));
    }
    const keys = new Keys("items");
    /** @type {Map<any, any>} */
    const result = new Map();
    for (const pair of member(value, "items", "list", this.header.file)) {
      if (!Array.isArray(pair) || pair.length !== 2 || Array.isArray(pair[0]) || pair[0] instanceof Map) {
        throw new TraceError("malformed", { field: "items", expected: "[key, value]", found: shown(pair) });
      }
      keys.add(pair[0]);
      result.set(
        plain(pair[0], this.bigint),
        within(pair[0], () => read(pair[1])),
      );
    }
    return result;
  }

  /**
   * The columns of infos. Their rows are compared when they are read, in `checkInfos`.
   * @param {any} entries
   * @param {number} rows
   */
  infos(entries, rows) {
    this.#checkRows(entries, rows);
    const keys = new Keys("key");
    const columns = entries.map((/** @type {any} */ entry) => {
      const key = entry instanceof Map ? (entry.get("key") ?? null) : [];
      if (Array.isArray(key) || key instanceof Map) {
        throw new TraceError("malformed", { expected: "key, rows, values", found: shown(entry) });
      }
      keys.add(key);
      return within(key, () => ({ key: plain(key, this.bigint), ...this.#sparse(entry) }));
    });
    return new Infos(columns, rows);
  }

  /**
   * The frames of each size. They are put together when they are read, in `join`.
   * @param {any} entries
   * @param {number} rows
   */
  frames(entries, rows) {
    this.#checkRows(entries, rows);
    this.sizes = entries.map((/** @type {any} */ entry, /** @type {number} */ index) =>
      within(index, () => {
        if (!(entry instanceof Map)) {
          throw new TraceError("malformed", { expected: "rows, values", found: shown(entry) });
        }
        const sparse = this.#sparse(entry);
        const { values } = sparse;
        const isUint8 = values instanceof TraceArray && values.code === "|u1" && values.view === null;
        if (!isUint8 || ![3, 4].includes(values.shape.length) || !values.shape.every(Boolean)) {
          const expected = "uint8, (n, height, width) or (n, height, width, channels)";
          throw new TraceError("malformed", { field: "values", expected });
        }
        return sparse;
      }),
    );
  }

  /**
   * @param {any} entries
   * @param {number} rows
   */
  #checkRows(entries, rows) {
    if (!Array.isArray(entries)) throw new TraceError("malformed", { expected: "a list", found: shown(entries) });
    const most = FREE_ROWS + askedOf(this.places).reduce((sum, [, bytes]) => sum + bytes, 0);
    if (rows > most) {
      throw new TraceError("more rows than its arrays can have", { expected: `at most ${most}`, found: String(rows) });
    }
  }

  /**
   * @param {Map<string, any>} entry
   * @returns {Sparse}
   */
  #sparse(entry) {
    const at = within("rows", () => this.column(entry.get("rows"), 1));
    const values = within("values", () => this.column(entry.get("values"), 1));
    if (!(at instanceof TraceArray) || at.code !== "<i8" || at.shape.length !== 1 || at.length !== values.length) {
      throw new TraceError("malformed", { field: "rows", expected: "int64, one per value" });
    }
    return { rows: at, values };
  }
}

/** Keys that are no two the same; 1, 1.0 and true are one key, as in Python. */
class Keys {
  #seen = new Set();

  /** @param {string} field */
  constructor(field) {
    this.field = field;
  }

  /** @param {any} key */
  add(key) {
    const value = key instanceof Float ? key.value : typeof key === "boolean" ? Number(key) : key;
    const same =
      typeof value === "string" ? `text ${value}` : Number.isInteger(value) ? String(BigInt(value)) : String(value);
    if (this.#seen.has(same)) throw new TraceError("a key stands twice", { field: this.field, found: shown(key) });
    this.#seen.add(same);
  }
}

/** @param {number} depth */
function checkDepth(depth) {
  if (depth >= MAX_DEPTH) throw new TraceError("nested too deeply", { expected: `at most ${MAX_DEPTH} levels` });
}

/** @param {Infos} infos */
function checkInfos({ columns, length }) {
  for (const { key, rows } of columns) checkRows(rows, length, joined("infos", joined(key, "rows")));
}

/**
 * @param {TraceArray} rows
 * @param {number} length
 * @param {string} field
 */
function checkRows(rows, length, field) {
  for (const row of rows.data) {
    if (row < 0 || row >= length) {
      throw new TraceError("no such row", { field, expected: `0 to ${length - 1}`, found: String(row) });
    }
  }
}

/**
 * The frames of an episode, of those of each size.
 * @param {Sparse[]} sizes
 * @param {number} length
 */
function join(sizes, length) {
  sizes.forEach(({ rows }, i) => checkRows(rows, length, joined("frames", joined(i, "rows"))));
  if (sizes.length === 1) {
    const { rows, values } = sizes[0];
    const isAt = (/** @type {bigint} */ row, /** @type {number} */ i) => Number(row) === i;
    if (rows.length === length && rows.data.every(isAt)) return /** @type {TraceArray} */ (values);
  }
  /** @type {(TraceArray | null)[]} */
  const frames = new Array(length).fill(null);
  sizes.forEach(({ rows, values }, size) => {
    rows.data.forEach((/** @type {bigint} */ row, /** @type {number} */ i) => {
      if (frames[Number(row)] !== null) {
        const field = joined("frames", joined(size, "rows"));
        throw new TraceError("a row stands twice", { field, found: String(row) });
      }
      frames[Number(row)] = /** @type {TraceArray} */ (values).at(i);
    });
  });
  return frames;
}

/**
 * Versions 0 and 1: T = 0 was stored with shape (1, 0), and steps before the first reset were not marked.
 * @param {Column[]} columns
 */
function oldEpisode([observations, actions, rewards]) {
  for (const column of [actions, rewards]) {
    if (column instanceof TraceArray && column.shape.join() === "1,0") column.shape = [0];
  }
  const headless = rewards.length > 0 && rewards.length === observations.length;
  return new Episode(observations, actions, rewards, new Map([["headless", headless]]));
}

/**
 * The elements behind a `.npy` header, in C order.
 * @param {Uint8Array} blob
 * @param {Place} place
 */
function readNpy(blob, { offset, shape, dtype, blob: file }) {
  const head = blob.subarray(offset, offset + 12);
  const size = product(shape) * dtype.size;
  /** @param {string} problem */
  const fail = (problem) => new TraceError(problem, { file, field: `offset ${offset}` });
  const magic = String.fromCharCode(...head.subarray(0, 6));
  const version = head[6];
  if (magic !== "\x93NUMPY" || (version !== 1 && version !== 2) || head[7] !== 0 || head.length < 12) {
    throw fail("not a .npy header");
  }
  const start = offset + (version === 1 ? 10 : 12);
  const length = head[8] + 256 * head[9] + (version === 1 ? 0 : 65536 * head[10] + 2 ** 24 * head[11]);
  const bytes = blob.subarray(start, start + length);
  if (length > 65536 || bytes.length < length) throw fail("not a .npy header");
  let header, found;
  try {
    header = parseLiteral(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    if (!(header instanceof Map) || [...header.keys()].sort().join() !== "descr,fortran_order,shape")
      throw fail("not a .npy header");
    const description = header.get("descr");
    found = typeof description === "string" ? parseDtype(description) : structure(description);
  } catch (error) {
    throw error instanceof TraceError || error instanceof SyntaxError ? fail("not a .npy header") : error;
  }
  const [lengths, order] = [header.get("shape"), header.get("fortran_order")];
  if (!(lengths instanceof Tuple) || typeof order !== "boolean") throw fail("not a .npy header");
  if (lengths.length !== shape.length || !lengths.every((n, i) => n === shape[i]) || found.stored !== dtype.stored) {
    const expected = `${dtype.stored} (${shape.join(", ")})`.slice(0, 80);
    throw new TraceError("the .npy header differs", {
      file,
      expected,
      found: `${found.stored} (${lengths.join(", ")})`.slice(0, 80),
    });
  }
  const elements = blob.subarray(start + length, start + length + size);
  if (elements.length < size) throw fail("the array is not wholly there");
  return order && shape.length > 1 ? transposed(elements, shape, dtype.size) : elements;
}

// ---- recordings

/** Everything that one recorder wrote; FORMAT.md, section 4. `error` is why its manifest cannot be read, or null. */
export class Trace {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.created = "";
    this.closed = false;
    this.repaired = "";
    /** @type {Map<string, any>} */
    this.writer = new Map();
    /** @type {Map<string, any>} */
    this.env = new Map();
    /** @type {any} */
    this.metadata = null;
    /** @type {Batch[]} */
    this.batches = [];
    /** @type {TraceError | null} */
    this.error = null;
  }

  /** How many episodes it has. */
  get length() {
    return this.batches.reduce((sum, { count }) => sum + count, 0);
  }
}

/**
 * Looks at a recording once. To see what is recorded since, open it anew.
 * @param {Source} source
 * @param {Options} [options]
 */
export async function open(source, options = {}) {
  for (let look = 1; ; look++) {
    const recording = new Recording(source, options, await readTraces(source, options));
    if (look === LISTINGS || !recording.problems.some(({ missing }) => missing)) return recording;
  }
}

/**
 * The traces, in order: the union of what manifests list and of the headers that are there.
 * @param {Source} source
 * @param {Options} options
 */
async function readTraces(source, options) {
  /** @type {Map<string, {manifest: string | null, headers: Map<string, bigint>}>} */
  const found = new Map();
  for (const file of await source.names()) {
    const name = parseName(file);
    if (!name || name.kind === "blob") continue;
    const files = found.get(name.trace) ?? { manifest: null, headers: new Map() };
    found.set(name.trace, files);
    if (name.kind === "manifest") files.manifest = file;
    else files.headers.set(file, name.first);
  }
  const traces = await each([...found], async ([name, { manifest, headers }]) => {
    const trace = new Trace(name);
    /** @type {Map<string, number>} */
    let listed = new Map();
    if (manifest) {
      try {
        listed = readManifest(await readWhole(source, manifest), manifest, trace, options.bigint ?? false);
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        trace.error = error; // the headers say all that it did, but for what is the trace's own
      }
    }
    const files = new Map(headers);
    for (const file of listed.keys()) files.set(file, parseName(file)?.first ?? 0n);
    const sorted = [...files].sort(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0));
    const batches = await each(sorted, async ([file, first]) => {
      const count = listed.get(file);
      if (!headers.has(file) && !source.partial) return missing(file, first, BigInt(count ?? 0));
      if (count !== undefined) return { file, first, count, error: null };
      try {
        return { file, first, count: (await readBatch(source, options, file)).episodes.length, error: null };
      } catch (error) {
        if (!(error instanceof TraceError)) throw error;
        return { file, first, count: 0, error };
      }
    });
    place(trace, batches);
    return trace;
  });
  return traces.sort((a, b) => compareText(a.created, b.created) || compareNames(a.name, b.name));
}

/**
 * Puts the batches into a trace; a hole is a batch with an error.
 * @param {Trace} trace
 * @param {Batch[]} batches
 */
function place(trace, batches) {
  let end = 0n;
  for (const batch of batches) {
    const previous = trace.batches[trace.batches.length - 1];
    if (previous?.count === 0) {
      // its header is damaged: this one tells how many it had
      const count = batch.first - previous.first;
      previous.count = count > 1n ? Number(count) : 1;
      end = previous.first + (count > 1n ? count : 1n);
    }
    if (isCurrent(trace.name) && batch.first !== end) {
      if (batch.first > end) {
        trace.batches.push(missing(`${trace.name}.ep${String(end).padStart(9, "0")}.json`, end, batch.first - end));
      } else {
        batch.error = new TraceError("overlaps the batch before it", { file: batch.file, expected: `first ${end}` });
      }
    }
    trace.batches.push(batch);
    end = batch.first + BigInt(batch.count);
  }
  const last = trace.batches[trace.batches.length - 1];
  if (last?.count === 0) last.count = 1;
}

/**
 * @param {string} file
 * @param {bigint} first
 * @param {bigint} count
 * @returns {Batch}
 */
function missing(file, first, count) {
  const problem = `episodes ${first}..${first + count - 1n} are missing`;
  const error = new TraceError(problem, { file, expected: "this header", missing: true });
  return { file, first, count: Number(count), error };
}

/**
 * `work` on every item, a few at a time; the results in order.
 * @template T, R
 * @param {T[]} items
 * @param {(item: T) => Promise<R>} work
 * @returns {Promise<R[]>}
 */
async function each(items, work) {
  /** @type {R[]} */
  const results = new Array(items.length);
  let next = 0;
  const run = async () => {
    while (next < items.length) {
      const i = next++;
      results[i] = await work(items[i]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, items.length) }, run));
  return results;
}

/**
 * The bytes of a document.
 * @param {Source} source
 * @param {string} file
 */
async function readWhole(source, file) {
  const size = source.size ? await source.size(file) : 0;
  if (size !== null && size > MAX_JSON_BYTES) {
    throw new TraceError("too large", { file, expected: `at most ${MAX_JSON_BYTES} bytes`, found: String(size) });
  }
  const bytes = await source.bytes(file, 0, MAX_JSON_BYTES + 1);
  if (bytes === null) throw new TraceError("the file is missing, and its episodes with it", { file, missing: true });
  return bytes;
}

/**
 * A header, whose blobs are there as far as the source can tell.
 * @param {Source} source
 * @param {Options} options
 * @param {string} file
 */
async function readBatch(source, options, file) {
  const header = readHeader(await readWhole(source, file), file);
  for (const [blob, entry] of header.blobs) {
    if (source.size) await blobSize(source, blob, entry.size);
    if (options.verify) await verify(source, blob, entry);
  }
  return header;
}

/**
 * The size of a blob that must have `least` bytes.
 * @param {Source} source
 * @param {string} blob
 * @param {number} least
 */
async function blobSize(source, blob, least) {
  const size = source.size ? await source.size(blob) : Infinity;
  if (size === null) throw missingBlob(blob);
  if (size < least)
    throw new TraceError("cut short", { file: blob, expected: `${least} bytes`, found: `${size} bytes` });
  return size;
}

/** @param {string} file */
const missingBlob = (file) => new TraceError("the blob is missing, and its episodes with it", { file, missing: true });

/**
 * @param {Source} source
 * @param {string} blob
 * @param {BlobEntry} entry
 */
async function verify(source, blob, { start, size, crc32: expected }) {
  let crc = 0;
  for (let at = start; at < size;) {
    const bytes = await source.bytes(blob, at, Math.min(size, at + 2 ** 24));
    if (bytes === null) throw missingBlob(blob);
    if (!bytes.length)
      throw new TraceError("cut short", { file: blob, expected: `${size} bytes`, found: `${at} bytes` });
    crc = crc32(bytes, crc);
    at += bytes.length;
  }
  if (hex8(crc) !== expected) {
    throw new TraceError("damaged", { file: blob, field: "crc32", expected, found: hex8(crc) });
  }
}

/** The episodes of a recording, in order. `traces` says what is known of each recorder. */
export class Recording {
  #source;
  #options;
  /** @type {Map<string, Header>} */
  #headers = new Map();
  /** @type {Batch[]} */
  #batches;
  /** @type {number[]} */
  #starts = [];

  /**
   * @param {Source} source
   * @param {Options} options
   * @param {Trace[]} traces
   */
  constructor(source, options, traces) {
    this.#source = source;
    this.#options = options;
    this.traces = traces;
    /** How many episodes, the missing ones included. */
    this.length = 0;
    this.#batches = traces.flatMap(({ batches }) => batches);
    for (const { count } of this.#batches) {
      this.#starts.push(this.length);
      this.length = Math.min(this.length + count, Number.MAX_SAFE_INTEGER); // hostile gaps have any length
    }
  }

  /**
   * What was found to be missing or damaged. More may be, in what is not read yet.
   * @returns {TraceError[]}
   */
  get problems() {
    const errors = [...this.traces, ...this.#batches].map(({ error }) => error);
    return /** @type {TraceError[]} */ (errors.filter((error) => error !== null));
  }

  /**
   * Episode `number`, from 0.
   * @param {number} number
   * @param {{later?: Later}} [options] of which arrays `rows` reads; those of version 0 are always read at once
   * @returns {Promise<Episode>}
   */
  async episode(number, { later } = {}) {
    if (!Number.isSafeInteger(number) || number < 0 || number >= this.length) {
      throw new RangeError(`episode ${number} of ${this.length}`);
    }
    let [low, high] = [0, this.#starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle] <= number) low = middle;
      else high = middle;
    }
    return this.#episode(this.#batches[low], number - this.#starts[low], later);
  }

  /** All episodes, one after the other. Throws at the first that is missing or damaged. */
  async *[Symbol.asyncIterator]() {
    for (const trace of this.traces) {
      if (trace.error) throw trace.error;
      for (const batch of trace.batches) yield* this.episodes(batch);
    }
  }

  /**
   * The episodes of a batch of `traces`.
   * @param {Batch} batch
   */
  async *episodes(batch) {
    for (let number = 0; number < batch.count; number++) yield await this.#episode(batch, number);
  }

  /**
   * The episodes of a batch, with their rewards and without other arrays; in the place of a damaged one its error. Costs
   * the header and, as a rule, one range of the blob.
   * @param {Batch} batch
   * @returns {Promise<(Episode | TraceError)[]>}
   */
  async outlines(batch) {
    const header = await this.#header(batch);
    /** @type {Place[]} */
    const rewards = [];
    const found = header.episodes.map((_, index) => {
      try {
        const { episode, places } = this.#decode(header, index);
        rewards.push(...placesOf(episode.rewards, places));
        return episode;
      } catch (error) {
        if (error instanceof TraceError) return error;
        throw error;
      }
    });
    try {
      await this.#fill(header, rewards);
      return found;
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
    }
    // One of them is damaged, or the header of a running one is old: each by itself.
    return each([...found.entries()], async ([index, outline]) => {
      if (outline instanceof TraceError) return outline;
      try {
        return await this.#again(batch, async (header) => {
          const { episode, places } = this.#decode(header, index);
          await this.#located(header, index, () => this.#fill(header, placesOf(episode.rewards, places)));
          return episode;
        });
      } catch (error) {
        if (error instanceof TraceError) return error;
        throw error;
      }
    });
  }

  /**
   * @param {Batch} batch
   * @param {number} number
   * @param {Later} [later]
   */
  #episode(batch, number, later) {
    return this.#again(batch, (header) => this.#read(header, number, later));
  }

  /**
   * A column of a running episode may have another blob since its header was read: then once more.
   * @template T
   * @param {Batch} batch
   * @param {(header: Header) => Promise<T>} read
   */
  async #again(batch, read) {
    try {
      return await read(await this.#header(batch));
    } catch (error) {
      if (!(error instanceof TraceError && error.missing) || batch.error) throw error;
      this.#headers.delete(batch.file);
      return read(await this.#header(batch));
    }
  }

  /** @param {Batch} batch */
  async #header(batch) {
    let header = this.#headers.get(batch.file);
    if (!header) {
      if (batch.error) throw batch.error;
      header = await readBatch(this.#source, this.#options, batch.file);
      if (header.episodes.length !== batch.count) {
        const [expected, found] = [String(batch.count), String(header.episodes.length)];
        throw new TraceError("not the episodes that the manifest lists", { file: batch.file, expected, found });
      }
    }
    this.#headers.delete(batch.file); // the last used is the last
    this.#headers.set(batch.file, header);
    if (this.#headers.size > CACHED_HEADERS) this.#headers.delete([...this.#headers.keys()][0]);
    return header;
  }

  /**
   * @param {Header} header
   * @param {number} index
   * @param {Later} [later]
   */
  #read(header, index, later) {
    const { episode, places, sizes } = this.#decode(header, index);
    return this.#located(header, index, async () => {
      const sparse = [...(episode.infos?.columns ?? []), ...(sizes ?? [])];
      const rows = new Set(sparse.map(({ rows }) => rows)); // they are checked at once
      await this.#fill(header, places, later && ((array) => !rows.has(array) && later(array)));
      if (episode.infos) checkInfos(episode.infos);
      if (sizes) episode.frames = join(sizes, episode.observations.length);
      return episode;
    });
  }

  /**
   * An episode whose arrays have no bytes yet, and where those are.
   * @param {Header} header
   * @param {number} index
   */
  #decode(header, index) {
    try {
      const decoder = new Decoder(header, this.#options.bigint ?? false);
      const episode = decode(decoder, header.episodes[index]);
      return { episode, places: decoder.places, sizes: decoder.sizes };
    } catch (error) {
      throw located(error, header, index);
    }
  }

  /**
   * @template T
   * @param {Header} header
   * @param {number} index
   * @param {() => Promise<T>} work
   */
  async #located(header, index, work) {
    try {
      return await work();
    } catch (error) {
      throw located(error, header, index);
    }
  }

  /**
   * Reads the bytes of arrays.
   * @param {Header} header
   * @param {Place[]} places
   * @param {Later} [later] of which `rows` reads them
   */
  async #fill(header, places, later = () => false) {
    /** @type {Map<string, Place[]>} */
    const byBlob = new Map();
    for (const place of places) {
      const inBlob = byBlob.get(place.blob) ?? [];
      byBlob.set(place.blob, inBlob);
      inBlob.push(place);
    }
    const sums = new Map(askedOf(places));
    await each([...byBlob], async ([blob, inBlob]) => {
      const size = await blobSize(this.#source, blob, header.blobs.get(blob)?.size ?? 0);
      if ((sums.get(blob) ?? 0) > Math.min(size, header.blobs.get(blob)?.size ?? Infinity)) {
        throw new TraceError("the arrays of an episode are larger than the blob they lie in", { field: "size" });
      }
      if (inBlob.some(({ isNpy }) => isNpy)) return this.#fillNpy(blob, inBlob, size);
      const now = inBlob.filter(({ array }) => !later(array));
      for (const { array, offset, dtype } of inBlob.filter(({ array }) => later(array))) {
        array.source = async (start, end) =>
          swapped(await this.#range(blob, offset + start, offset + end, size), dtype);
      }
      await each(ranges(now), async ({ start, end, places }) => {
        const bytes = await this.#range(blob, start, end, size);
        for (const { array, offset, shape, dtype } of places) {
          array.bytes = swapped(bytes.subarray(offset - start, offset - start + product(shape) * dtype.size), dtype);
        }
      });
    });
  }

  /**
   * Version 0: where the elements begin stands in the blob, so it is read whole.
   * @param {string} blob
   * @param {Place[]} places
   * @param {number} size
   */
  async #fillNpy(blob, places, size) {
    const bytes = await this.#source.bytes(blob, 0, Math.min(size, MAX_WHOLE));
    if (bytes === null) throw missingBlob(blob);
    for (const place of places) {
      const { array, offset, shape, dtype, isNpy } = place;
      const end = offset + product(shape) * dtype.size;
      if (!isNpy && end > bytes.length) throw new TraceError("the array is not wholly there", { file: blob });
      array.bytes = swapped(isNpy ? readNpy(bytes, place) : bytes.subarray(offset, end), dtype);
    }
  }

  /**
   * @param {string} blob
   * @param {number} start
   * @param {number} end
   * @param {number} size
   */
  async #range(blob, start, end, size) {
    const [expected, file] = [`${end} bytes`, blob];
    if (end > size) throw new TraceError("the array is not wholly there", { file, expected, found: `${size} bytes` });
    const bytes = start < end ? await this.#source.bytes(blob, start, end) : new Uint8Array(0);
    if (bytes === null) throw missingBlob(blob);
    if (bytes.length !== end - start) {
      const found = `${bytes.length ? "" : "at most "}${start + bytes.length} bytes`;
      throw new TraceError("the array is not wholly there", { file, expected, found });
    }
    return bytes;
  }
}

/**
 * What went wrong in an episode, with its place.
 * @param {unknown} error
 * @param {Header} header
 * @param {number} index
 */
function located(error, header, index) {
  if (error instanceof RangeError) return new TraceError("too large for the memory", { file: header.file });
  if (error instanceof TraceError) error.locate(header.file, joined("episodes", joined(index, error.field)));
  return error;
}

/**
 * Elements in little-endian.
 * @param {Uint8Array} bytes
 * @param {Dtype} dtype
 */
function swapped(bytes, dtype) {
  if (dtype.big) swap((bytes = bytes.slice()), dtype);
  return bytes;
}

/**
 * The places of the arrays of a column.
 * @param {Column} column
 * @param {Place[]} places of an episode
 */
function placesOf(column, places) {
  const arrays = new Set();
  const left = [/** @type {any} */ (column)];
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    if (value instanceof TraceArray) arrays.add(value);
    else if (value instanceof DictColumns || value instanceof TupleColumns) left.push(...value.columns.values());
    else if (value instanceof Map || Array.isArray(value)) for (const item of value.values()) left.push(item);
  }
  return places.filter(({ array }) => arrays.has(array));
}

/**
 * How many bytes of each blob arrays have. Those of the same bytes count once.
 * @param {Place[]} places
 * @returns {[string, number][]}
 */
function askedOf(places) {
  const seen = new Set();
  const sums = new Map();
  for (const { blob, offset, shape, dtype } of places) {
    const size = product(shape) * dtype.size;
    const place = `${blob} ${offset} ${size}`;
    if (!seen.has(place)) sums.set(blob, (sums.get(blob) ?? 0) + size);
    seen.add(place);
  }
  return [...sums];
}

/**
 * An episode whose arrays have no bytes yet.
 * @param {Decoder} decoder
 * @param {Map<string, any>} source
 */
function decode(decoder, source) {
  const keys = ["observations", "actions", "rewards"];
  const arrays = keys.map((key) => within(key, () => decoder.column(source.get(key))));
  if (decoder.header.version < 2) return oldEpisode(arrays);
  const members = new Map();
  for (const [key, check] of Object.entries(MEMBERS)) {
    if (!source.has(key)) continue;
    const value = source.get(key);
    if (!check(value)) throw new TraceError("malformed", { field: key, found: shown(value) });
    members.set(key, value);
  }
  if (source.has("options"))
    members.set(
      "options",
      within("options", () => decoder.value(source.get("options"))),
    );
  if (source.has("timestamps"))
    members.set(
      "timestamps",
      within("timestamps", () => decoder.column(source.get("timestamps"))),
    );
  if (source.has("infos"))
    members.set(
      "infos",
      within("infos", () => decoder.infos(source.get("infos"), arrays[0].length)),
    );
  if (source.has("frames")) within("frames", () => decoder.frames(source.get("frames"), arrays[0].length));
  return new Episode(arrays[0], arrays[1], arrays[2], members);
}

/**
 * What to read of a blob: places that touch, or nearly, are read together.
 * @param {Place[]} places
 */
function ranges(places) {
  /** @type {{start: number, end: number, places: Place[]}[]} */
  const found = [];
  for (const place of [...places].sort((a, b) => a.offset - b.offset)) {
    const end = place.offset + product(place.shape) * place.dtype.size;
    const last = found[found.length - 1];
    if (last && place.offset <= last.end + GAP) {
      last.end = Math.max(last.end, end);
      last.places.push(place);
    } else {
      found.push({ start: place.offset, end, places: [place] });
    }
  }
  return found;
}

// ---- sources

/**
 * A directory, in Node. One that does not exist has no files. Links are not followed.
 * @param {string} directory
 * @returns {Source}
 */
export function nodeSource(directory) {
  // Named in variables, so that browsers and type checkers do not look for them.
  const [fsModule, pathModule] = ["node:fs/promises", "node:path"];

  /**
   * @template T
   * @param {string} name
   * @param {(file: any, size: number) => Promise<T>} work
   */
  async function withFile(name, work) {
    const [fs, path] = await Promise.all([import(fsModule), import(pathModule)]);
    if (!parseName(name)) throw new TraceError("not a name of a recording", { file: name.slice(0, 200) });
    const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants;
    let file;
    try {
      file = await fs.open(path.join(directory, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      const code = /** @type {any} */ (error).code;
      if (code === "ENOENT") return null;
      throw new TraceError(`cannot be opened: ${code}`, { file: name, expected: "a regular file" });
    }
    try {
      const stat = await file.stat();
      if (!stat.isFile()) throw new TraceError("cannot be opened", { file: name, expected: "a regular file" });
      return await work(file, stat.size);
    } finally {
      await file.close();
    }
  }

  return {
    async names() {
      const fs = await import(fsModule);
      try {
        return await fs.readdir(directory);
      } catch (error) {
        if (/** @type {any} */ (error).code === "ENOENT") return [];
        throw error;
      }
    },
    size: (name) => withFile(name, async (_, size) => size),
    bytes: (name, start, end) =>
      withFile(name, async (file, size) => {
        const bytes = new Uint8Array(Math.max(0, Math.min(end, size) - start));
        let done = 0;
        while (done < bytes.length) {
          const { bytesRead } = await file.read(bytes, done, Math.min(bytes.length - done, 2 ** 30), start + done);
          if (!bytesRead) break;
          done += bytesRead;
        }
        return bytes.subarray(0, done);
      }),
  };
}

/**
 * Files that a user chose or dropped: a FileList, or any files. Of a chosen folder, those that lie in it directly.
 * @param {Iterable<File>} files
 * @returns {Source}
 */
export function fileSource(files) {
  const byName = new Map();
  for (const file of files) {
    if ((file.webkitRelativePath ?? "").split("/").length <= 2) byName.set(file.name, file);
  }
  return fromFiles(
    async () => byName.keys(),
    async (name) => byName.get(name) ?? null,
  );
}

/**
 * A folder that a user chose or dropped.
 * @param {FileSystemDirectoryHandle} directory
 * @returns {Source}
 */
export function directorySource(directory) {
  return fromFiles(
    async () => {
      const names = [];
      for await (const [name, handle] of /** @type {any} */ (directory).entries()) {
        if (handle.kind === "file") names.push(name);
      }
      return names;
    },
    async (name) => {
      try {
        return await (await directory.getFileHandle(name)).getFile();
      } catch (error) {
        if (/** @type {any} */ (error).name === "NotFoundError") return null;
        throw new TraceError("cannot be opened", { file: name, expected: "a file", found: String(error).slice(0, 80) });
      }
    },
  );
}

/**
 * @param {() => Promise<Iterable<string>>} names
 * @param {(name: string) => Promise<File | null>} find
 * @returns {Source}
 */
function fromFiles(names, find) {
  return {
    names,
    size: async (name) => (await find(name))?.size ?? null,
    bytes: async (name, start, end) => {
      for (let isFirst = true; ; isFirst = false) {
        const file = await find(name);
        try {
          return file && new Uint8Array(await file.slice(start, end).arrayBuffer());
        } catch (error) {
          const found = /** @type {any} */ (error).name;
          if (found === "NotFoundError") return null;
          if (found !== "NotReadableError") throw error;
          if (isFirst) continue; // one that grows is another file the next time
          const expected = "the file as it was: open the folder again";
          throw new TraceError("cannot be read, or has changed since it was opened", { file: name, expected, found });
        }
      }
    },
  };
}

/**
 * A directory on a server, read with range requests. A server that does not know them sends whole files, of which the
 * last few blobs are remembered.
 *
 * HTTP cannot list a directory, so `names` says what is there: a list of names, or the URL of a JSON list of them. The
 * names of the manifests are enough for what they list; a batch that no manifest lists must be named by its header.
 * @param {string | URL} url of the directory. What it has behind `?` is kept.
 * @param {Iterable<string> | URL} names
 * @param {RequestInit} [init] for `fetch`: headers, credentials
 * @returns {Source}
 */
export function urlSource(url, names, init = {}) {
  const base = new URL(url, globalThis.location?.href);
  /** @type {Map<string, Promise<Uint8Array | null>>} */
  const whole = new Map();
  /** @type {Promise<boolean | void> | undefined} */
  let knowsRange;

  /**
   * @param {string} name
   * @param {HeadersInit} more
   */
  function request(name, more) {
    const target = new URL(base);
    target.pathname = `${base.pathname.replace(/\/$/, "")}/${name}`;
    const headers = new Headers(init.headers);
    new Headers(more).forEach((value, key) => headers.set(key, value));
    return send(target, { ...init, headers }, name);
  }

  /**
   * A whole blob, once for all who ask at the same time.
   * @param {string} name
   * @param {Response} [response]
   */
  function remembered(name, response) {
    const known = whole.get(name);
    if (known) return known;
    const found = (async () => bodyOf(response ?? (await request(name, {})), MAX_WHOLE, name))();
    whole.set(name, found);
    found.catch(() => whole.delete(name));
    if (whole.size > CACHED_FILES) whole.delete([...whole.keys()][0]);
    return found;
  }

  /**
   * @param {string} name
   * @param {number} start
   * @param {number} end
   * @returns {Promise<Uint8Array | null>}
   */
  async function blob(name, start, end) {
    if (knowsRange === undefined || (await knowsRange)) {
      const asked = request(name, { Range: `bytes=${start}-${end - 1}` });
      // The others wait for the first, or they would all get the whole file.
      knowsRange ??= asked.then(
        (response) => response.status !== 200 || void remembered(name, response),
        () => true,
      );
      const response = await asked;
      if (response.status !== 200) return part(response, start, end, name);
      knowsRange = Promise.resolve(false);
      return (await remembered(name, response))?.slice(start, end) ?? null;
    }
    let bytes = await remembered(name);
    if (bytes && bytes.length < end) {
      // it may have grown
      whole.delete(name);
      bytes = await remembered(name);
    }
    return bytes?.slice(start, end) ?? null;
  }

  return {
    partial: true,
    async names() {
      if (!(names instanceof URL)) return names;
      const file = names.href;
      const bytes = await bodyOf(await send(names, init, file), MAX_JSON_BYTES, file);
      const list = bytes && parseJson(new TextDecoder().decode(bytes)).value;
      if (!Array.isArray(list)) throw new TraceError("not a list of names", { file, found: shown(list) });
      return list;
    },
    async bytes(name, start, end) {
      if (!parseName(name)) throw new TraceError("not a name of a recording", { file: name.slice(0, 200) });
      if (start >= end) return new Uint8Array(0);
      if (parseName(name)?.kind === "blob") return blob(name, start, end);
      return bodyOf(await request(name, {}), end, name);
    },
  };
}

/**
 * @param {URL} url
 * @param {RequestInit} init
 * @param {string} file
 */
async function send(url, init, file) {
  try {
    return await fetch(url, init);
  } catch (error) {
    throw new TraceError("cannot be fetched", {
      file,
      found: String(/** @type {any} */ (error).cause ?? error).slice(0, 80),
    });
  }
}

/**
 * @param {Response} response
 * @param {number} start
 * @param {number} end
 * @param {string} file
 */
function part(response, start, end, file) {
  const range = /^bytes ([0-9]+)-/.exec(response.headers.get("Content-Range") ?? ""); // other origins may hide it
  if (range && Number(range[1]) !== start) {
    throw new TraceError("the server sent another range", {
      file,
      expected: `from ${start}`,
      found: `from ${range[1]}`,
    });
  }
  return bodyOf(response, end - start, file);
}

/**
 * The body of an answer, of at most `limit` bytes; null if there is no such file.
 * @param {Response} response
 * @param {number} limit
 * @param {string} file
 */
async function bodyOf(response, limit, file) {
  const { status } = response;
  if (status === 404 || status === 410 || status === 416) {
    await response.body?.cancel();
    return status === 416 ? new Uint8Array(0) : null; // 416: it ends before
  }
  if (status !== 200 && status !== 206) {
    await response.body?.cancel();
    throw new TraceError("cannot be fetched", { file, expected: "status 200 or 206", found: String(status) });
  }
  /** @type {Uint8Array[]} */
  const chunks = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    size += next.value.length;
    if (size > limit) {
      await reader?.cancel();
      throw new TraceError("the server sent more than was asked for", { file, expected: `at most ${limit} bytes` });
    }
    chunks.push(next.value);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
