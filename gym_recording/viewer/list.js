/** The list of episodes: of any number of rows only those in sight are elements. Sorted by its heads, used by keys. */

import { make } from "./dom.js";
import { rounded } from "./value.js";

/** @typedef {import("./catalogue.js").Row} Row */

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {(row: Row) => any} value by which rows are sorted.
 * @property {(row: Row) => string} text
 * @property {boolean} [isText]
 */

/** @type {Field[]} */
const FIELDS = [
  { name: "episode", label: "Episode", value: (row) => row.number, text: numberText },
  { name: "length", label: "Length", value: (row) => row.length, text: (row) => String(row.length ?? "–") },
  { name: "return", label: "Return", value: (row) => row.return, text: (row) => rounded(row.return) },
  { name: "ended", label: "Ended by", value: (row) => row.ended, text: (row) => row.ended || "–", isText: true },
  { name: "seed", label: "Seed", value: (row) => row.seed, text: (row) => String(row.seed ?? "–") },
  { name: "lane", label: "Lane", value: (row) => row.lane, text: (row) => String(row.lane ?? "–") },
  { name: "trace", label: "Trace", value: (row) => row.name, text: (row) => row.name, isText: true },
  {
    name: "started",
    label: "Started",
    value: (row) => row.started,
    text: (row) => dateText(row.started),
    isText: true,
  },
];
const HEIGHT = 30; // of a row, as in viewer.css
const TALLEST = 8e6; // pixels; browsers draw nothing beyond some 2 to 3 times that
const CLICK = 5; // pixels that a hand moves without meaning it
const BEYOND = 8; // rows that are ready above and below

/** @param {Row} row */
function numberText({ number, count }) {
  return count > 1 ? `${number}–${number + count - 1}` : String(number);
}

/**
 * A time of UTC, to the second, in the time of the place.
 * @param {string} started
 */
export function dateText(started) {
  const date = new Date(started);
  if (!started || Number.isNaN(date.getTime())) return started || "–";
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The list. `rows` are those that the filter left. */
export class List {
  /** @type {Row[]} */
  rows = [];
  #sort = { name: "episode", isDown: false };
  /** @type {string | null} the row that keys move */
  #active = null;
  /** @type {string | null} the row whose episode is open */
  #open = null;
  #isWaiting = false;
  /** @type {[number, number]} where the pointer was pressed */
  #pressed = [0, 0];

  /** @param {(row: Row) => void} onopen */
  constructor(onopen) {
    this.onopen = onopen;
    this.heads = FIELDS.map((field) => this.#head(field));
    this.head = make("div", { role: "row", class: "list-head" }, ...this.heads);
    this.space = make("div", { class: "list-space", role: "presentation" });
    this.body = make("div", { class: "list-body", role: "rowgroup", tabindex: "-1" }, this.space);
    this.body.addEventListener("focus", () => this.element.focus()); // what scrolls takes the focus, and has no keys
    this.body.addEventListener("scroll", () => this.draw());
    this.body.addEventListener("pointerdown", ({ clientX, clientY }) => (this.#pressed = [clientX, clientY]));
    this.body.addEventListener("pointerup", (event) => this.#release(event));
    const attributes = { class: "list", role: "grid", tabindex: "0", "aria-label": "episodes" };
    this.element = make("div", attributes, this.head, this.body);
    this.element.addEventListener("keydown", (event) => event.target === this.element && this.#key(event));
    this.element.addEventListener("focus", () => (this.#active ??= this.rows[0]?.key ?? null) && this.draw());
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  /** @param {Field} field */
  #head({ name, label, isText }) {
    const attributes = { role: "columnheader", class: `cell ${name}${isText ? " text" : ""}`, "aria-sort": "none" };
    return make("div", attributes, make("button", { type: "button", onclick: () => this.sortBy(name) }, label));
  }

  /** @param {string} name */
  sortBy(name) {
    this.#sort = { name, isDown: this.#sort.name === name && !this.#sort.isDown };
    this.show(this.rows);
  }

  /**
   * Shows rows, sorted.
   * @param {Row[]} rows
   */
  show(rows) {
    const { name, isDown } = this.#sort;
    const index = FIELDS.findIndex((field) => field.name === name);
    if (name !== "episode" || isDown || rows === this.rows) rows = sorted(rows, FIELDS[index], isDown);
    this.rows = rows;
    this.heads.forEach((head, i) =>
      head.setAttribute("aria-sort", i !== index ? "none" : isDown ? "descending" : "ascending"),
    );
    const some = (/** @type {(row: Row) => any} */ test) => rows.some((row) => test(row));
    this.element.classList.toggle("no-seed", !some(({ seed }) => seed !== null));
    this.element.classList.toggle("no-lane", !some(({ lane }) => lane !== null));
    this.element.classList.toggle("no-trace", !some((row) => row.name !== rows[0].name));
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.space.style.height = `${this.#height}px`;
    this.draw();
  }

  /**
   * Marks the row of the open episode, and brings it in sight.
   * @param {string | null} key
   */
  select(key) {
    this.#open = key;
    if (key !== null) this.#active = key;
    this.reveal();
  }

  /** The rows beside one. @param {number} by */
  neighbour(by) {
    const at = this.rows.findIndex(({ key }) => key === this.#open);
    return at < 0 ? undefined : this.rows[at + by];
  }

  /** Brings the active row in sight. */
  reveal() {
    const at = this.rows.findIndex(({ key }) => key === this.#active);
    const { clientHeight } = this.body;
    if (at >= 0 && clientHeight) {
      const top = at * HEIGHT;
      const first = this.body.scrollTop * this.#ratio;
      if (top < first || top > first + clientHeight - HEIGHT)
        this.body.scrollTop = (top - clientHeight / 2 + HEIGHT / 2) / this.#ratio;
    }
    this.draw();
  }

  /** The height of all rows, but no more than elements may have. */
  get #height() {
    return Math.min(TALLEST, this.rows.length * HEIGHT);
  }

  /** How many pixels of rows one of scrolling is: 1, unless there are more than an element can hold. */
  get #ratio() {
    const { clientHeight } = this.body;
    return this.#height < TALLEST ? 1 : (this.rows.length * HEIGHT - clientHeight) / (TALLEST - clientHeight);
  }

  /** Draws the rows in sight, once before the next frame. */
  draw() {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    requestAnimationFrame(() => {
      this.#isWaiting = false;
      this.#draw();
    });
  }

  #draw() {
    const { scrollTop, clientHeight } = this.body;
    const top = (scrollTop * this.#ratio) / HEIGHT;
    const first = Math.max(0, Math.floor(top) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil(top + clientHeight / HEIGHT) + BEYOND);
    const offset = scrollTop - top * HEIGHT;
    const elements = this.rows.slice(first, last).map((row, i) => this.#row(row, first + i, offset));
    this.space.replaceChildren(...elements);
    const active = elements.find((element) => element.classList.contains("active"));
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /**
   * @param {Row} row
   * @param {number} index
   * @param {number} offset
   */
  #row(row, index, offset) {
    const cells = FIELDS.map(({ name, text, isText }) => {
      const attributes = { role: "gridcell", class: `cell ${name}${isText ? " text" : ""}`, title: text(row) };
      return make(
        "div",
        attributes,
        name === "ended" ? make("span", { class: `tag ${row.ended}` }, text(row)) : text(row),
      );
    });
    const isOpen = row.key === this.#open;
    const states = `${isOpen ? " open" : ""}${row.key === this.#active ? " active" : ""}${index % 2 ? " odd" : ""}`;
    const attributes = { role: "row", id: `row-${index}`, class: `list-row${states}`, "aria-rowindex": index + 2 };
    const element = make("div", { ...attributes, "aria-selected": String(isOpen) }, ...cells);
    element.style.transform = `translateY(${offset + index * HEIGHT}px)`;
    return element;
  }

  /**
   * Opens the row at a place. There is no click where the element that was pressed has been replaced meanwhile.
   * @param {PointerEvent} event
   */
  #release(event) {
    const [x, y] = this.#pressed;
    const area = this.body.getBoundingClientRect();
    if (event.button || Math.hypot(event.clientX - x, event.clientY - y) > CLICK) return;
    if (event.clientX >= area.left + this.body.clientWidth) return; // the scroll bar
    const top = event.clientY - area.top + this.body.scrollTop * this.#ratio;
    const row = this.rows[Math.floor(top / HEIGHT)];
    if (!row) return;
    this.#active = row.key;
    this.onopen(row);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / HEIGHT) - 1);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const at = this.rows.findIndex(({ key }) => key === this.#active);
    if (event.key === "Enter" && this.rows[at]) this.onopen(this.rows[at]);
    else if (moves[event.key] !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const to = Math.max(0, Math.min(this.rows.length - 1, at + moves[event.key]));
      this.#active = this.rows[to]?.key ?? null;
      this.reveal();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/**
 * What is not known comes last.
 * @param {Row[]} rows
 * @param {Field} field
 * @param {boolean} isDown
 */
function sorted(rows, { value }, isDown) {
  const isBlank = (/** @type {any} */ item) => item === null || item === "" || Number.isNaN(item);
  return [...rows].sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (isBlank(left) || isBlank(right)) return Number(isBlank(left)) - Number(isBlank(right)) || a.number - b.number;
    return left === right ? a.number - b.number : left < right !== isDown ? -1 : 1;
  });
}
