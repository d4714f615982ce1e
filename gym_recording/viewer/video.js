/** The image of a step: that of the frames, or of an observation that is one. */

import { make } from "./dom.js";
import { draw, layoutOf } from "./picture.js";
import { TraceArray } from "../readers/gym_recording.js";

/** @typedef {import("./leaf.js").Leaf} Leaf */
/** @typedef {{name: string, leaf: Leaf}} Film */

/** The canvas, and the choice of what it shows. */
export class Video {
  #step = 0;
  #chosen = 0;
  /** @type {Map<Leaf, Map<string, import("./picture.js").Layout | null>>} by the shape of an image */
  #layouts = new Map();

  /** @param {Film[]} films at least one */
  constructor(films) {
    this.films = films;
    this.canvas = make("canvas", { role: "img", width: 1, height: 1 });
    this.about = make("span", { class: "video-about" });
    this.choice = make("select", { "aria-label": "image", onchange: () => this.choose(this.choice.selectedIndex) });
    this.choice.append(...films.map(({ name }) => make("option", {}, name)));
    const what = films.length > 1 ? this.choice : make("span", {}, films[0].name);
    const screen = make("div", { class: "screen" }, this.canvas);
    this.element = make("figure", { class: "video" }, screen, make("figcaption", {}, what, this.about));
  }

  /**
   * Takes other images for a film: the episode has grown.
   * @param {number} index
   * @param {Leaf} leaf
   */
  replace(index, leaf) {
    const film = this.films[index];
    this.#layouts.set(leaf, this.#layouts.get(film.leaf) ?? new Map());
    film.leaf = leaf;
  }

  /** @param {number} index of `films` */
  choose(index) {
    this.#chosen = index;
    return this.show(this.#step);
  }

  /**
   * Shows the image of a step.
   * @param {number} step
   */
  async show(step) {
    this.#step = step;
    const { name, leaf } = this.films[this.#chosen];
    this.canvas.setAttribute("aria-label", `${name} of step ${step}`);
    let problem = "there is none at this step";
    try {
      const value = await leaf.at(step);
      if (step !== this.#step || leaf !== this.films[this.#chosen].leaf) return;
      if (value instanceof TraceArray) {
        // From the first of a shape that is seen: a stack of four and four channels must not take turns.
        const layouts = this.#layouts.get(leaf) ?? new Map();
        const shape = String(value.shape);
        const layout = layouts.get(shape) ?? layoutOf(value.dtype, value.shape, value.bytes);
        this.#layouts.set(leaf, layouts.set(shape, layout));
        if (layout) {
          draw(this.canvas, value.bytes, layout);
          this.canvas.dataset.step = String(step); // what it shows, not what it is to show
          const { tiles, width, height } = layout;
          this.about.textContent = `${tiles > 1 ? `${tiles} × ` : ""}${width} × ${height}`;
          this.canvas.hidden = false;
          return;
        }
      }
    } catch (error) {
      problem = String(/** @type {any} */ (error).message ?? error);
    }
    if (step !== this.#step) return;
    this.canvas.hidden = true;
    this.about.textContent = problem;
  }
}
