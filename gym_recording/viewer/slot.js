/**
 * The place of a chart of a leaf. The chart is made when it comes in sight; of a leaf with many numbers it shows the
 * first few, or those that are asked for.
 */

import { Chart, COLORS } from "./chart.js";
import { make } from "./dom.js";
import { digits, element } from "./value.js";

/** @typedef {import("./leaf.js").Leaf} Leaf */
/** @typedef {import("./chart.js").Hooks} Hooks */

const MOST_LINES = 24;

/** A chart of a leaf. */
export class Slot {
  /** @type {Chart | null} */
  #chart = null;
  /** @type {number[]} */
  #components;
  #step = -1;
  /** @type {[number, number] | null} */
  #range = null;
  #isInSight = false;

  /**
   * @param {string} name
   * @param {Leaf} leaf
   * @param {Hooks} hooks
   * @param {boolean} [isSum] whether it is of the sum of all steps so far
   */
  constructor(name, leaf, hooks, isSum = false) {
    this.name = name;
    this.leaf = leaf;
    this.hooks = hooks;
    this.isSum = isSum;
    this.#components = Array.from({ length: Math.min(leaf.count, COLORS) }, (_, i) => i);
    this.note = make("p", { class: "slot-note", role: "status" }, name);
    this.element = make("div", { class: "slot" }, this.note);
    if (leaf.count > COLORS) this.element.append(this.#chooser());
    this.observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
        this.#isInSight = true;
        this.observer.disconnect();
        this.draw();
      },
      { rootMargin: "300px" },
    );
    this.observer.observe(this.element);
  }

  #chooser() {
    const value = ranges(this.#components);
    const input = make("input", { value, size: 14, "aria-label": `numbers of ${this.name}`, title: "such as 0-3, 17" });
    input.addEventListener("change", () => {
      this.#components = parse(input.value, this.leaf.count);
      input.value = ranges(this.#components);
      this.#chart?.destroy();
      this.#chart = null;
      this.draw();
    });
    return make("label", { class: "chooser" }, input, `of 0–${this.leaf.count - 1}`);
  }

  /** Reads the lines and draws them: a new chart, or other values in the one that is there. */
  async draw() {
    if (!this.#isInSight) return;
    const { leaf } = this;
    const components = this.#components;
    if (!this.#chart) this.note.textContent = `${this.name}: reading…`;
    let values;
    try {
      values = await leaf.lines(components);
    } catch (error) {
      this.note.textContent = `${this.name}: ${/** @type {any} */ (error).message ?? error}`;
      return;
    }
    if (leaf !== this.leaf || components !== this.#components) return;
    this.note.textContent = "";
    if (this.isSum) values = values.map(sums);
    const own = leaf.rows; // the rows that have a value
    const xs = Float64Array.from({ length: leaf.length }, (_, t) => own?.[t] ?? t);
    if (this.#chart) {
      this.#chart.update(xs, values);
      return this.mark(this.#step);
    }
    const lines = values.map((line, i) => ({
      label: leaf.label(components[i], this.name),
      values: line,
      isDiscrete: leaf.isDiscrete && !this.isSum,
    }));
    const stepOf = (/** @type {number} */ index) => (this.#chart?.xs ?? xs)[index];
    this.#chart = new Chart(this.name, xs, lines, {
      onhover: (index) => this.hooks.onhover?.(stepOf(index)),
      onclick: (index) => this.hooks.onclick?.(stepOf(index)),
      onzoom: (range) => this.hooks.onzoom?.(range),
      extent: this.hooks.extent,
      // Of the sum there is no other than the float; all else is shown as it was recorded.
      value: async (line, index) =>
        this.isSum
          ? digits(this.#chart?.lines[line].values[index] ?? NaN, 12)
          : element(await this.leaf.at(stepOf(index)), this.#components[line]),
    });
    this.element.prepend(this.#chart.element);
    if (this.#range) this.#chart.zoom(this.#range);
    this.mark(this.#step);
  }

  /** @param {number} step */
  mark(step) {
    this.#step = step;
    const { xs } = this.#chart ?? { xs: [] };
    this.#chart?.mark(xs[step] === step ? step : Array.prototype.indexOf.call(xs, step));
  }

  /** @param {[number, number] | null} range */
  zoom(range) {
    this.#range = range;
    this.#chart?.zoom(range);
  }

  redraw() {
    this.#chart?.redraw();
  }

  destroy() {
    this.observer.disconnect();
    this.#chart?.destroy();
  }
}

/** @param {Float64Array} values */
function sums(values) {
  let sum = 0;
  return values.map((value) => (sum += value));
}

/**
 * @param {number[]} numbers
 * @returns {string} `0-3, 17`
 */
function ranges(numbers) {
  /** @type {[number, number][]} */
  const found = [];
  for (const number of numbers) {
    const last = found[found.length - 1];
    if (last && number === last[1] + 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(", ");
}

/**
 * @param {string} text
 * @param {number} count
 * @returns {number[]}
 */
export function parse(text, count) {
  const found = new Set();
  for (const [, from, to] of text.matchAll(/([0-9]+)(?:\s*[-–]\s*([0-9]+))?/g)) {
    for (let i = Number(from); i <= Number(to ?? from) && i < count && found.size < MOST_LINES; i++) found.add(i);
  }
  return found.size ? [...found].sort((a, b) => a - b) : [0];
}
