/** The dialog that says what keys do, and what a filter may be. */

import { iconButton, make } from "./dom.js";
import { KEYS } from "./keys.js";

/** @type {[string, string][]} */
const TERMS = [
  ["length>100", "numbers: < > <= >= = != on episode, length, return, seed, lane"],
  ["ended_by:reset", "text that a column contains: trace, ended_by, started, and the others"],
  ["cart", "text in any column"],
  ["return<0 lane=2", "all of them must be met"],
];

/** @param {[string, string][]} rows */
const table = (rows) =>
  make(
    "dl",
    {},
    ...rows.flatMap(([term, meaning]) => [make("dt", {}, make("kbd", {}, term)), make("dd", {}, meaning)]),
  );

/** The dialog. */
export function makeHelp() {
  const dialog = make("dialog", { class: "help", "aria-label": "help" });
  dialog.append(
    make(
      "header",
      {},
      make("h2", {}, "Help"),
      iconButton("close", "close", "esc", () => dialog.close()),
    ),
    make("h3", {}, "Keys"),
    table(KEYS.map(({ label, meaning }) => [label, meaning])),
    make("h3", {}, "Charts"),
    make("p", {}, "Point at a step to see it, click to stay there. Drag to see a part, double-click to see all."),
    make("h3", {}, "Filter"),
    table(TERMS),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}
