/** What was at a step: the values of observation, action, reward and info, as trees. */

import { make } from "./dom.js";
import { leavesOf } from "./leaf.js";
import { kind, text } from "./value.js";

/** @typedef {import("./leaf.js").Leaf} Leaf */
/** @typedef {import("./leaf.js").Node} Node */
/** @typedef {{title: string, node: Node, note: (step: number) => string}} Section */

const OPEN = 24; // nodes; beyond, what is inside of a node is shown when that is opened

/** The values at a step. The elements are made once; a step changes their texts. */
export class Panel {
  /** @type {{leaf: Leaf, kind: HTMLElement, value: HTMLElement, details: HTMLElement[]}[]} */
  #leaves = [];
  /** @type {(() => void)[]} */
  #notes = [];
  #step = 0;

  /** @param {Section[]} sections */
  constructor(sections) {
    this.sections = sections;
    this.element = make("section", { class: "panel", "aria-label": "values at this step" });
    for (const [i, { title, node }] of sections.entries()) {
      const about = make("span", { class: "panel-note" });
      this.#notes.push(() => (about.textContent = this.sections[i].note(this.#step)));
      const inside = node.leaf ? this.#leaf("", node.leaf) : make("div", {}, ...this.#inside(node, []));
      this.element.append(make("h3", {}, title, about), inside);
    }
  }

  /**
   * Takes other values for the same leaves: the episode has grown.
   * @param {Section[]} sections
   */
  replace(sections) {
    this.sections = sections;
    sections.flatMap(({ node }) => leavesOf(node)).forEach((leaf, i) => (this.#leaves[i].leaf = leaf));
  }

  /**
   * @param {Node} node
   * @param {HTMLElement[]} above
   * @returns {HTMLElement[]}
   */
  #inside(node, above) {
    return node.nodes.map((inner) => {
      if (inner.leaf) return this.#leaf(inner.name, inner.leaf, above);
      const details = make("details", { open: node.nodes.length <= OPEN }, make("summary", {}, inner.name));
      details.append(...this.#inside(inner, [...above, details]));
      details.addEventListener("toggle", () => details.open && this.show(this.#step));
      return details;
    });
  }

  /**
   * @param {string} name
   * @param {Leaf} leaf
   * @param {HTMLElement[]} details in which it is
   */
  #leaf(name, leaf, details = []) {
    const parts = { kind: make("span", { class: "leaf-kind" }), value: make("span", { class: "leaf-value" }) };
    this.#leaves.push({ leaf, details, ...parts });
    const label = name ? make("span", { class: "leaf-name" }, name) : null;
    return make("div", { class: "leaf" }, label, parts.kind, parts.value);
  }

  /**
   * Shows the values of a step.
   * @param {number} step
   */
  async show(step) {
    this.#step = step;
    for (const note of this.#notes) note();
    const open = this.#leaves.filter(({ details }) => details.every((element) => /** @type {any} */ (element).open));
    await Promise.all(
      open.map(async ({ leaf, kind: about, value }) => {
        let [shown, what, isAbsent] = ["", "", false];
        try {
          const found = await leaf.at(step);
          if (found === undefined) [shown, isAbsent] = ["none", true];
          else [shown, what] = [leaf.picture ? "" : text(found), kind(found)];
        } catch (error) {
          [shown, isAbsent] = [String(/** @type {any} */ (error).message ?? error), true];
        }
        if (step !== this.#step) return;
        if (value.textContent !== shown) value.textContent = shown;
        if (about.textContent !== what) about.textContent = what;
        value.classList.toggle("absent", isAbsent);
      }),
    );
  }
}
