/**
 * The leaves of a column: what has one value at each step. A Dict or Tuple is a tree of them. A large array is not in
 * memory; its rows are read in pieces, of which a few are remembered.
 */

import { DictColumns, TraceArray, TupleColumns } from "../readers/gym_recording.js";
import { numbersOf } from "./catalogue.js";
import { layoutOf } from "./picture.js";

const PIECE = 2 ** 20; // bytes that are read at once
const PIECES = 16; // remembered of an array
const MOST_REMEMBERED = 2 ** 26; // bytes, where single rows are large

/**
 * Whether an array is read by pieces: what may be long and has more than one number a step.
 * @param {TraceArray} array
 */
export const isReadLater = (array) => array.size > (array.shape.length > 1 ? 2 ** 14 : 2 ** 26);

/** What has one value for each row, `at(t)`. */
export class Leaf {
  /** @type {Map<number, Promise<TraceArray>>} */
  #pieces = new Map();

  /**
   * @param {string} path from the column on: `position`, `camera.image`, `[0]`; empty for the column itself
   * @param {TraceArray | any[]} column
   * @param {any} space a Map of FORMAT.md, or anything else where it is not known
   * @param {ArrayLike<number> | null} rows which rows of the episode have a value; null: all
   */
  constructor(path, column, space, rows = null) {
    this.path = path;
    /** By which it is found again when the episode has grown. */
    this.name = path;
    this.column = column;
    this.rows = rows;
    const sample = column instanceof TraceArray ? column : column[0];
    /** Shape of a row; null where rows differ or are no arrays. */
    this.shape = column instanceof TraceArray ? column.shape.slice(1) : uniform(column);
    this.dtype = sample instanceof TraceArray ? (sample.view ?? sample.dtype) : typeof sample;
    const type = space instanceof Map ? space.get("type") : null;
    /** Whether values stand for kinds: they are drawn as steps. */
    this.isDiscrete = /^(Discrete|Multi)/.test(String(type)) || (type === null && /^(bool|u?int)/.test(this.dtype));
    this.isNumeric = this.shape !== null && /^(bool|number|bigint|u?int|b?float)/.test(this.dtype);
    /** How many numbers a row has. */
    this.count = (this.shape ?? []).reduce((count, length) => count * length, 1);
  }

  get length() {
    return this.column.length;
  }

  /** How images lie in it; null if it has none. Only the bytes of one tell it exactly. */
  get picture() {
    return this.shape && layoutOf(this.dtype, this.shape);
  }

  /**
   * The value of a row: an array, or any value of JSON; undefined where the row has none.
   * @param {number} t
   * @returns {Promise<any>}
   */
  async at(t) {
    const place = this.rows ? indexOf(this.rows, t) : t;
    if (place < 0 || place >= this.length) return undefined;
    if (this.column instanceof TraceArray) {
      if (!this.column.source) return this.column.at(place);
      const per = this.#rowsPerPiece;
      const piece = await this.#piece(Math.floor(place / per));
      const next = Math.floor(place / per) + 1;
      if (next * per < this.length) this.#piece(next).catch(() => {}); // soon wanted; its error is told when it is
      return piece.at(place % per);
    }
    const value = this.column[place];
    return value instanceof TraceArray && value.source ? value.rows(0, value.length) : value;
  }

  /**
   * Numbers of every row, for charts: component `k` of each, as floats.
   * @param {number[]} components
   * @returns {Promise<Float64Array[]>}
   */
  async lines(components) {
    const lines = components.map(() => new Float64Array(this.length));
    /**
     * @param {TraceArray} array
     * @param {number} start
     */
    const take = (array, start) => {
      const [data, rows] = [array.data, array.size ? rowCount(array, this.count) : 0];
      components.forEach((component, i) => {
        for (let t = 0; t < rows; t++) lines[i][start + t] = Number(data[t * this.count + component]);
      });
    };
    if (!(this.column instanceof TraceArray)) {
      const numbers = numbersOf(this.column);
      if (numbers) return [Float64Array.from(numbers)];
      for (let t = 0; t < this.length; t++) take(await this.at(t), t);
    } else if (this.column.source) {
      const per = this.#rowsPerPiece; // not remembered: all of it is passed through once
      for (let t = 0; t < this.length; t += per) take(await this.column.rows(t, Math.min(t + per, this.length)), t);
    } else take(this.column, 0);
    return lines;
  }

  /**
   * What people call a component: `position[0]`, `grid[1,2]`.
   * @param {number} component
   * @param {string} name of the whole
   */
  label(component, name) {
    if (!this.shape?.length) return name;
    const index = [];
    for (const length of [...this.shape].reverse()) {
      index.unshift(component % length);
      component = Math.floor(component / length);
    }
    return `${name}[${index.join(",")}]`;
  }

  get #rowsPerPiece() {
    const { size, length } = /** @type {TraceArray} */ (this.column);
    return Math.max(1, Math.floor((PIECE * length) / size));
  }

  /**
   * @param {number} index
   * @returns {Promise<TraceArray>}
   */
  #piece(index) {
    const column = /** @type {TraceArray} */ (this.column);
    const per = this.#rowsPerPiece;
    const start = index * per;
    const known = this.#pieces.get(index);
    const piece = known ?? column.rows(start, Math.min(start + per, this.length));
    if (!known) piece.catch(() => this.#pieces.delete(index));
    this.#pieces.delete(index); // the last used is the last
    this.#pieces.set(index, piece);
    const most = Math.min(PIECES, Math.max(2, Math.floor((MOST_REMEMBERED * this.length) / (per * column.size))));
    for (const oldest of this.#pieces.keys()) {
      if (this.#pieces.size <= most) break;
      this.#pieces.delete(oldest);
    }
    return piece;
  }
}

/**
 * @param {TraceArray} array
 * @param {number} count
 */
const rowCount = (array, count) => Math.floor(array.data.length / count);

/**
 * The shape that all values have; null where they differ, or are no numbers.
 * @param {any[]} values
 * @returns {number[] | null}
 */
function uniform(values) {
  if (values.length && numbersOf(values)) return [];
  const [first] = values;
  if (!(first instanceof TraceArray) || first.fields) return null;
  const isSame = (/** @type {any} */ value) =>
    value instanceof TraceArray && value.dtype === first.dtype && String(value.shape) === String(first.shape);
  return values.every(isSame) ? first.shape : null;
}

/**
 * Where a number stands in ascending ones; -1 if it does not.
 * @param {ArrayLike<number>} rows
 * @param {number} row
 */
function indexOf(rows, row) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle] < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row ? low : -1;
}

/** @typedef {{name: string, leaf: Leaf | null, nodes: Node[]}} Node of a tree */

/**
 * A column as a tree.
 * @param {string} name
 * @param {any} column
 * @param {any} space
 * @param {string} [path]
 * @param {ArrayLike<number> | null} [rows]
 * @returns {Node}
 */
export function treeOf(name, column, space, path = "", rows = null) {
  const inner = space instanceof Map ? space.get("spaces") : null;
  if (column instanceof DictColumns) {
    const nodes = [...column.columns].map(([key, item]) =>
      treeOf(String(key), item, inner instanceof Map ? inner.get(key) : null, path ? `${path}.${key}` : `${key}`, rows),
    );
    return { name, leaf: null, nodes };
  }
  if (column instanceof TupleColumns) {
    const nodes = column.columns.map((item, k) =>
      treeOf(`[${k}]`, item, Array.isArray(inner) ? inner[k] : null, `${path}[${k}]`, rows),
    );
    return { name, leaf: null, nodes };
  }
  return { name, leaf: new Leaf(path, column, space, rows), nodes: [] };
}

/**
 * @param {Node} node
 * @returns {Leaf[]}
 */
export const leavesOf = (node) => (node.leaf ? [node.leaf] : node.nodes.flatMap(leavesOf));
