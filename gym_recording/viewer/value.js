/** Values as text, the shortest that tells each from all others of its dtype. */

import { TraceArray } from "../readers/gym_recording.js";

const SHOWN = 24; // elements of an array
const DEEP = 6; // levels of JSON
const LONG = 4000; // characters
const LARGE = 1e15; // beyond, a float has few digits behind the point, and soon none

/**
 * A number of a list of episodes: as much of it as people compare, and no digit before the point that is not so.
 * @param {number | null} number
 */
export function rounded(number) {
  if (number === null) return "–";
  if (Number.isInteger(number) && Math.abs(number) < LARGE) return String(number);
  return Math.abs(number) >= 1e6 && Math.abs(number) < LARGE ? number.toFixed(0) : digits(number, 6);
}

/**
 * A number of so many digits. Zeros do not stand in for those that are left out.
 * @param {number} number
 * @param {number} count
 */
export function digits(number, count) {
  if (!Number.isFinite(number)) return text(number);
  const short = Number(number.toPrecision(count));
  return Math.abs(short) < LARGE ? String(short) : short.toExponential();
}

/**
 * @param {any} value of a row
 * @returns {string}
 */
export function text(value) {
  const whole = deep(value, DEEP);
  return whole.length > LONG ? `${whole.slice(0, LONG)}… ${whole.length - LONG} more characters` : whole;
}

/**
 * What a value is: `float32 (84, 84)`.
 * @param {any} value
 */
export function kind(value) {
  if (!(value instanceof TraceArray)) return "";
  const dtype = value.view ?? (value.fields ? "structure" : value.dtype);
  return value.shape.length ? `${dtype} (${value.shape.join(", ")}${value.shape.length === 1 ? "," : ""})` : dtype;
}

/**
 * @param {any} value
 * @param {number} depth
 * @returns {string}
 */
function deep(value, depth) {
  if (value instanceof TraceArray) return array(value);
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return value;
  if (typeof value === "number") return number(value);
  if (typeof value === "bigint") return String(value);
  if (!depth) return "…";
  const quoted = (/** @type {any} */ item) => (typeof item === "string" ? JSON.stringify(item) : deep(item, depth - 1));
  const [items, more] = value instanceof Map ? [[...value], value.size] : [value, value.length];
  const texts = items
    .slice(0, SHOWN)
    .map((/** @type {any} */ item) => (value instanceof Map ? `${quoted(item[0])}: ${quoted(item[1])}` : quoted(item)));
  if (more > SHOWN) texts.push(`… ${more - SHOWN} more`);
  return value instanceof Map ? `{${texts.join(", ")}}` : `[${texts.join(", ")}]`;
}

/**
 * An element of an array, or the value itself.
 * @param {any} value
 * @param {number} index
 */
export function element(value, index) {
  return value instanceof TraceArray && value.shape.length ? one(value, value.data[index]) : text(value);
}

/**
 * @param {TraceArray} array
 * @param {any} item of its data
 */
function one({ dtype, view }, item) {
  if (dtype === "bool") return item ? "True" : "False";
  return typeof item === "number"
    ? number(item, view !== null || /^(float16|float32|complex64)$/.test(dtype))
    : String(item);
}

/**
 * @param {TraceArray} value
 * @returns {string}
 */
function array(value) {
  if (value.fields) return `{${value.fields.map((name) => `${name}: ${array(value.field(name))}`).join(", ")}}`;
  const isComplex = value.dtype.startsWith("complex");
  const data = value.data;
  const count = isComplex ? data.length / 2 : data.length;
  const at = (/** @type {number} */ i) =>
    isComplex ? `${one(value, data[2 * i])}${sign(one(value, data[2 * i + 1]))}j` : one(value, data[i]);
  if (!value.shape.length && count === 1) return at(0);
  const texts = Array.from({ length: Math.min(count, SHOWN) }, (_, i) => at(i));
  if (count > SHOWN) texts.push(`… ${count - SHOWN} more`);
  return `[${texts.join(", ")}]`;
}

/** @param {string} imaginary */
const sign = (imaginary) => (imaginary.startsWith("-") ? imaginary : `+${imaginary}`);

/**
 * @param {number} value
 * @param {boolean} [isFloat32] whether it has no more digits than that
 */
function number(value, isFloat32 = false) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0";
  for (let digits = 1; isFloat32 && digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return String(short);
  }
  return String(value);
}
