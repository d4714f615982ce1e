/** Returns and lengths over the episodes that the filter left. */

import { Chart } from "./chart.js";
import { make } from "./dom.js";
import { digits, rounded } from "./value.js";

/** @typedef {import("./catalogue.js").Row} Row */

const WINDOW = 50; // episodes, of the running mean
const MANY = 200; // episodes; beyond, points would hide each other

/** Two charts; a click opens the episode. */
export class Overview {
  /** @type {Chart[]} */
  #charts = [];
  /** @type {Row[]} */
  #rows = [];
  #shape = "";
  /** @type {string | null} */
  #open = null;

  /** @param {(row: Row) => void} onopen */
  constructor(onopen) {
    this.onopen = onopen;
    this.element = make("section", { class: "overview", "aria-label": "returns and lengths" });
    this.element.addEventListener("mouseleave", () => this.mark(this.#open));
  }

  /** @param {Row[]} rows */
  show(rows) {
    this.#rows = [...rows].sort((a, b) => a.number - b.number); // of one that cannot be read there is a gap
    const xs = this.#rows.map(({ number }) => number);
    const [returns, lengths] = [
      this.#rows.map((row) => row.return ?? NaN),
      this.#rows.map(({ length }) => length ?? NaN),
    ];
    const isMany = xs.length > MANY;
    const all = [returns, lengths].map((values) => (isMany ? [values, means(values)] : [values]));
    const shape = `${isMany} ${xs.length > 0}`;
    this.element.hidden = !xs.length;
    if (shape === this.#shape) {
      this.#charts.forEach((chart, i) => chart.update(xs, all[i]));
      return;
    }
    for (const chart of this.#charts) chart.destroy();
    this.#shape = shape;
    this.#charts = all.map((values, i) => {
      const title = ["Return", "Length"][i];
      const lines = [
        {
          label: title.toLowerCase(),
          values: values[0],
          color: isMany ? "--faint" : "--line-1",
          width: isMany ? 1 : 1.5,
        },
        ...(isMany ? [{ label: `mean of ${WINDOW}`, values: values[1], color: "--line-1" }] : []),
      ];
      const hooks = {
        onhover: (/** @type {number} */ index) => this.#mark(index),
        onclick: (/** @type {number} */ index) => this.#rows[index] && this.onopen(this.#rows[index]),
        where: (/** @type {number} */ index) => (this.#rows[index] ? `episode ${this.#rows[index].number}` : ""),
        value: (/** @type {number} */ line, /** @type {number} */ index) => {
          const value = this.#charts[i]?.lines[line].values[index];
          return value === undefined ? "" : line ? digits(value, 6) : rounded(value);
        },
        onzoom: (/** @type {[number, number] | null} */ range) => this.#charts.forEach((chart) => chart.zoom(range)),
      };
      return new Chart(title, xs, lines, hooks, 150);
    });
    this.element.replaceChildren(...this.#charts.map(({ element }) => element));
  }

  /**
   * Marks an episode.
   * @param {string | null} key
   */
  mark(key) {
    this.#open = key;
    this.#mark(this.#rows.findIndex((row) => row.key === key));
  }

  /** @param {number} index */
  #mark(index) {
    for (const chart of this.#charts) chart.mark(index);
  }

  redraw() {
    for (const chart of this.#charts) chart.redraw();
  }
}

/**
 * The mean of each value and those before it, up to so many; of what is no number nothing.
 * @param {number[]} values
 */
function means(values) {
  let [sum, count] = [0, 0];
  return values.map((value, i) => {
    const gone = values[i - WINDOW];
    if (Number.isFinite(value)) ((sum += value), count++);
    if (Number.isFinite(gone)) ((sum -= gone), count--);
    return count ? sum / count : NaN;
  });
}
