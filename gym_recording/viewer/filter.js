/** What the filter's text means: `length>100 return<0 ended:terminated`, and words that stand in any column. */

/** @typedef {import("./catalogue.js").Row} Row */
/** @typedef {{test: (row: Row) => boolean, problem: string}} Filter */

/** The columns that a term may name, and what it then looks at. */
/** @type {Record<string, (row: Row) => string | number | bigint | null>} */
export const FIELDS = {
  episode: ({ number }) => number,
  trace: ({ name }) => name,
  length: ({ length }) => length,
  return: (row) => row.return,
  ended_by: ({ ended }) => ended,
  seed: ({ seed }) => seed,
  started: ({ started }) => started,
  lane: ({ lane }) => lane,
};

const TEXTS = ["trace", "ended_by", "started"];
const TERM = /^([a-z_]+)(<=|>=|!=|[<>=:])(.*)$/;

/** @type {Record<string, (a: any, b: any) => boolean>} */
const COMPARE = {
  "<": (a, b) => a < b,
  ">": (a, b) => a > b,
  "<=": (a, b) => a <= b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a == b, // not ===: a BigInt and a number
  "!=": (a, b) => a != b,
};

/**
 * Rows must meet every term; what is not known meets none. One that cannot be understood is a problem, and leaves all.
 * @param {string} text
 * @returns {Filter}
 */
export function parseFilter(text) {
  /** @type {((row: Row) => boolean)[]} */
  const tests = [];
  for (const word of text.trim().toLowerCase().split(/\s+/).filter(Boolean)) {
    const [, name, operator, wanted] = TERM.exec(word) ?? [];
    const field = Object.hasOwn(FIELDS, name ?? "") ? FIELDS[name] : null;
    if (!field && name !== undefined && operator !== ":") return failed(`there is no column ${name}`);
    if (field && wanted === "") return failed(`${word} what?`);
    if (!field) tests.push((row) => Object.values(FIELDS).some((field) => textOf(field(row)).includes(word)));
    else if (operator === ":") tests.push((row) => textOf(field(row)).includes(wanted));
    else if (TEXTS.includes(name))
      tests.push((row) => field(row) !== "" && COMPARE[operator](textOf(field(row)), wanted));
    else if (Number.isNaN(Number(wanted))) return failed(`${wanted} is no number`);
    else tests.push((row) => field(row) !== null && COMPARE[operator](field(row), Number(wanted)));
  }
  return { test: (row) => tests.every((test) => test(row)), problem: "" };
}

/** @param {string} problem */
const failed = (problem) => ({ test: () => true, problem });

/** @param {any} value */
const textOf = (value) => (value === null ? "" : String(value).toLowerCase());
