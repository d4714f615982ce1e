/** What is wrong with a file, said in the page: which file, at which field, what was expected and what was found. */

import { TraceError } from "../readers/gym_recording.js";
import { icon, make } from "./dom.js";

/**
 * @param {unknown} error
 * @returns {HTMLElement}
 */
export function describe(error) {
  if (!(error instanceof TraceError)) {
    return make("div", { class: "problem" }, make("strong", {}, String(/** @type {any} */ (error)?.message ?? error)));
  }
  const rows = [
    ["file", error.file],
    ["field", error.field],
    ["expected", error.expected],
    ["found", error.found],
  ].filter(([, value]) => value);
  const details = rows.flatMap(([name, value]) => [make("dt", {}, String(name)), make("dd", {}, String(value))]);
  return make("div", { class: "problem" }, make("strong", {}, error.problem), make("dl", {}, ...details));
}

/**
 * All that is wrong, behind a line that says how much.
 * @param {unknown[]} errors
 */
export function describeAll(errors) {
  const count = errors.length === 1 ? "1 problem" : `${errors.length} problems`;
  const text = `${count}: what is not damaged is shown. `;
  const hint = make("span", { class: "quiet" }, "gym-recording check says all that is wrong.");
  const MOST = 100;
  const more = errors.length > MOST ? make("p", { class: "quiet" }, `and ${errors.length - MOST} more`) : null;
  const summary = make("summary", {}, icon("warning"), text, hint);
  return make("details", { class: "problems" }, summary, ...errors.slice(0, MOST).map(describe), more);
}
