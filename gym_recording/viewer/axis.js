/**
 * The y axis of a chart: its range, where its ticks are, and their texts. Of any finite numbers, however small, large or
 * near to each other: uPlot's own go on without end where a tick is less than a float can tell from the next.
 */

/** @import uPlot from "./uplot/uPlot.esm.js" */

import { digits } from "./value.js";

const PART = 0.1; // of the range, that is left free above and below
const MOST = Number.MAX_VALUE / 2; // so that a range is finite
const SPACE = 24; // pixels between two ticks
const WIDTH = 56; // pixels, the same for all charts, so that steps stand one above the other, where texts let it be so

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

/**
 * What is shown of numbers from `min` to `max`, which are null if there is none.
 * @param {number | null} min
 * @param {number | null} max
 * @returns {[number, number]}
 */
export function range(min, max) {
  if (min === null || max === null || !(min || max)) return [0, 1];
  const free = max - min ? Math.max((max - min) * PART, Math.abs(max) * Number.EPSILON) : Math.abs(max);
  const low = min >= 0 && min < free ? 0 : min - free;
  const high = max <= 0 && -max < free ? 0 : max + free;
  return [Math.max(-MOST, low), Math.min(MOST, high)];
}

/**
 * @param {number} low
 * @param {number} high
 * @param {number} height pixels
 */
export function ticks(low, high, height) {
  const rough = (high - low) / Math.max(1, height / SPACE);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
  /** @type {number[]} */
  const found = [];
  if (!step) return found; // less than any float
  for (let k = Math.ceil(low / step); k * step <= high && found.length <= height; k++) found.push(k * step + 0);
  return found;
}

/**
 * Texts as short as they can be and still be told apart.
 * @param {number[]} values
 */
export function texts(values) {
  const most = Math.max(...values.map(Math.abs));
  const isCompact = most >= 1e5 && most < 1e15;
  const short = values.map((value) => (isCompact ? compact.format(value) : digits(value, 6)));
  return new Set(short).size === short.length ? short : values.map((value) => digits(value, 12));
}

/**
 * Pixels that texts take.
 * @param {string[] | null} texts
 */
const width = (texts) => Math.max(WIDTH, ...(texts ?? []).map((text) => 10 + 6.5 * text.length));

/** @type {uPlot.Axis} */
export const AXIS = {
  incrs: [Infinity], // as many as `splits` wants
  splits: (plot, _, low, high) => ticks(low, high, plot.over.clientHeight || plot.height),
  values: (_, values) => texts(values),
  size: (_, texts) => width(texts),
  gap: 6,
};
