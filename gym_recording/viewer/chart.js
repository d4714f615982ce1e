/**
 * A chart of lines over steps or episodes, with the place where the page is. Of more points than pixels it draws the
 * lowest and highest of each few; values in the legend are always exact.
 */

import { AXIS, range } from "./axis.js";
import { make } from "./dom.js";
import uPlot from "./uplot/uPlot.esm.js";

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {ArrayLike<number>} values one for each x; NaN and infinities are gaps.
 * @property {boolean} [isDiscrete] drawn as steps.
 * @property {string} [color] name of a CSS variable.
 * @property {number} [width] of the line; default 1.5.
 */

/**
 * @typedef {object} Hooks
 * @property {(index: number) => void} [onhover]
 * @property {(index: number) => void} [onclick]
 * @property {(range: [number, number] | null) => void} [onzoom] null: all.
 * @property {(index: number) => string} [where] what an index is called, for the legend.
 * @property {() => [number, number]} [extent] of the x axis when all is shown; default: that of the xs.
 * @property {(line: number, index: number) => Promise<string> | string} [value] as the legend has it.
 */

const MOST_POINTS = 10_000; // that are drawn of a line
const CLICK = 4; // pixels that a hand moves without meaning it
export const COLORS = 8;
const INTEGERS = [1, 2, 5]
  .flatMap((step) => Array.from({ length: 15 }, (_, power) => step * 10 ** power))
  .sort((a, b) => a - b);

const probe = make("span", { hidden: true });

/**
 * A colour of viewer.css, as a canvas knows it.
 * @param {string} name
 */
function color(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/**
 * The name of the colour of a line.
 * @param {Line} line
 * @param {number} i
 */
const colorOf = (line, i) => line.color ?? `--line-${(i % COLORS) + 1}`;

/** One chart. `element` is where it is; it takes the width of that. */
export class Chart {
  /** @type {uPlot} */
  #plot;
  #mark = make("div", { class: "mark", hidden: true });
  #where = make("span", { class: "chart-where" });
  #index = -1;
  /** @type {HTMLElement[]} */
  #values = [];
  /** @type {[number, number] | null} */
  #range = null;

  /**
   * @param {string} title
   * @param {ArrayLike<number>} xs ascending
   * @param {Line[]} lines
   * @param {Hooks} hooks
   * @param {number} [height] of the chart alone, CSS pixels
   */
  constructor(title, xs, lines, hooks, height = 132) {
    this.xs = xs;
    this.lines = lines;
    this.hooks = hooks;
    const legend = lines.map((line, i) => this.#entry(line, i, lines.length > 1 || line.label !== title));
    this.plot = make("div", { class: "plot", role: "img", "aria-label": `chart of ${title}` });
    const name = make("span", { class: "chart-title" }, title);
    const head = make("figcaption", {}, name, this.#where, make("ul", {}, ...legend));
    this.element = make("figure", { class: "chart" }, head, this.plot);
    this.#plot = new uPlot(this.#options(height), this.#data(), this.plot);
    if (hooks.extent) this.zoom(null);
    this.#plot.over.append(this.#mark);
    this.#listen(this.#plot.over);
    this.observer = new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width) this.#plot.setSize({ width: Math.floor(contentRect.width), height });
    });
    this.observer.observe(this.plot);
  }

  /**
   * @param {Line} line
   * @param {number} i
   * @param {boolean} isNamed
   */
  #entry(line, i, isNamed) {
    const value = make("span", { class: "legend-value" });
    this.#values.push(value);
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = `var(${colorOf(line, i)})`;
    const onclick = () => {
      const isShown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isShown));
      this.#plot.setSeries(i + 1, { show: isShown });
    };
    const title = "show or hide";
    const label = make("span", { class: isNamed ? "legend-label" : "unseen" }, line.label);
    const button = make("button", { type: "button", "aria-pressed": "true", title, onclick }, swatch, label, value);
    return make("li", {}, button);
  }

  /**
   * @param {number} height
   * @returns {uPlot.Options}
   */
  #options(height) {
    const axis = {
      stroke: () => color("--quiet"),
      grid: { stroke: () => color("--grid"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    return {
      width: 400,
      height,
      padding: [8, 16, 0, 0],
      pxAlign: 0, // lines that are no stairs
      legend: { show: false },
      scales: {
        x: { time: false, range: (_, min, max) => (min === max ? [min - 1, max + 1] : [min, max]) },
        y: { range: (_, min, max) => range(min, max) },
      },
      axes: [
        { ...axis, incrs: INTEGERS, size: 24, gap: 4, space: 70, values: (_, values) => values.map(String) },
        { ...axis, ...AXIS },
      ],
      series: [
        {},
        ...this.lines.map((line, i) => ({
          label: line.label,
          width: line.width ?? 1.5,
          stroke: () => color(colorOf(line, i)),
          points: { filter: lone },
          paths: line.isDiscrete ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
        })),
      ],
      cursor: {
        x: false,
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => (this.#zoomed(null), null) },
      },
      hooks: {
        draw: [() => this.#place()],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width > CLICK) this.#zoomed([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
            if (width) plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          },
        ],
      },
    };
  }

  /** @param {[number, number] | null} range */
  #zoomed(range) {
    this.zoom(range);
    this.hooks.onzoom?.(range);
  }

  /** @param {HTMLElement} over */
  #listen(over) {
    let pressed = 0;
    /** @param {MouseEvent} event */
    const indexAt = (event) =>
      nearest(this.xs, this.#plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x"));
    over.addEventListener("mousedown", (event) => (pressed = event.clientX));
    over.addEventListener("mousemove", (event) => event.buttons || this.hooks.onhover?.(indexAt(event)));
    over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed) < CLICK) this.hooks.onclick?.(indexAt(event));
    });
  }

  /** What is drawn: of the visible part all points, or the lowest and highest of each few. */
  #data() {
    const [low, high] = this.#range ?? [-Infinity, Infinity];
    let [start, end] = [0, this.xs.length];
    if (this.#range) [start, end] = [Math.max(0, nearest(this.xs, low) - 1), Math.min(end, nearest(this.xs, high) + 2)];
    const per = Math.ceil((2 * (end - start)) / MOST_POINTS);
    /** @type {any[]} */
    const data = [[], ...this.lines.map(() => [])];
    if (per <= 2) {
      for (let i = start; i < end; i++) {
        data[0].push(this.xs[i]);
        this.lines.forEach(({ values }, k) => data[k + 1].push(Number.isFinite(values[i]) ? values[i] : null));
      }
      return data;
    }
    for (let from = start; from < end; from += per) {
      const to = Math.min(from + per, end);
      data[0].push(this.xs[from], this.xs[Math.min(from + (per >> 1), to - 1)]);
      this.lines.forEach(({ values }, k) => data[k + 1].push(...extremes(values, from, to)));
    }
    return data;
  }

  /**
   * Shows other data in the same lines; what part is shown stays, the mark is to be set anew.
   * @param {ArrayLike<number>} xs
   * @param {ArrayLike<number>[]} values of each line
   */
  update(xs, values) {
    this.xs = xs;
    this.lines.forEach((line, i) => (line.values = values[i]));
    this.zoom(this.#range);
  }

  /**
   * Shows a part of the x axis.
   * @param {[number, number] | null} range null: all
   */
  zoom(range) {
    this.#range = range;
    const [min, max] = range ?? this.hooks.extent?.() ?? [this.xs[0] ?? 0, this.xs[this.xs.length - 1] ?? 1];
    this.#plot.batch(() => {
      this.#plot.setData(this.#data(), false);
      this.#plot.setScale("x", { min, max });
    });
  }

  /**
   * Marks where the page is, and shows the values there.
   * @param {number} index of `xs`; -1: nowhere
   */
  mark(index) {
    this.#index = index;
    this.#place();
    this.#where.textContent = index < 0 ? "" : (this.hooks.where?.(index) ?? "");
    this.#values.forEach(async (element, line) => {
      const { values } = this.lines[line];
      let text = "";
      if (index >= 0 && index < values.length) text = await (this.hooks.value?.(line, index) ?? String(values[index]));
      if (this.#index === index) element.textContent = text;
    });
  }

  #place() {
    const x = this.xs[this.#index];
    const { min, max } = this.#plot?.scales?.x ?? {};
    this.#mark.hidden = x === undefined || min === undefined || max === undefined || x < min || x > max;
    if (!this.#mark.hidden) this.#mark.style.transform = `translateX(${this.#plot.valToPos(x, "x")}px)`;
  }

  /** Takes the colours anew. */
  redraw() {
    this.#plot.redraw(false, true);
  }

  destroy() {
    this.observer.disconnect();
    this.#plot.destroy();
    this.element.remove();
  }
}

/**
 * The lowest and highest finite value of a range, in the order in which they come.
 * @param {ArrayLike<number>} values
 * @param {number} from
 * @param {number} to
 */
function extremes(values, from, to) {
  let [low, high] = [-1, -1];
  for (let i = from; i < to; i++) {
    if (!Number.isFinite(values[i])) continue;
    if (low < 0 || values[i] < values[low]) low = i;
    if (high < 0 || values[i] > values[high]) high = i;
  }
  if (low < 0) return [null, null];
  return low < high ? [values[low], values[high]] : [values[high], values[low]];
}

/**
 * Which points are drawn where there are too many for all: those without a neighbour, of which no line would show.
 * @param {uPlot} plot
 * @param {number} series
 * @param {boolean} isAll
 */
function lone(plot, series, isAll) {
  if (isAll) return null;
  const data = plot.data[series];
  const [from, to] = plot.series[0].idxs ?? [0, -1];
  const found = [];
  for (let i = from; i <= to; i++)
    if (data[i] != null && data[i - 1] == null && data[i + 1] == null) found.push(i);
  return found;
}

/**
 * The index of the number that is nearest.
 * @param {ArrayLike<number>} xs ascending
 * @param {number} x
 */
function nearest(xs, x) {
  let [low, high] = [0, xs.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
}
