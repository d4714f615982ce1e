/** The image of a step: that of the frames, or of an observation that is one. */

import { make } from "./dom.js";
import { draw, frameLayout, layoutOf } from "./picture.js";
import { kind } from "./value.js";
import { TraceArray } from "../readers/gym_recording.js";

/** @typedef {import("./leaf.js").Leaf} Leaf */
/** @typedef {{name: string, leaf: Leaf, isFrames: boolean}} Film */

/** The canvas, and the choice of what it shows. */
export class Video {
  #step = 0;
  #chosen = 0;
  /** @type {Map<string, import("./picture.js").Layout | null>[]} of each film, by the shape of an image */
  #layouts;

  /** @param {Film[]} films at least one */
  constructor(films) {
    this.films = films;
    this.#layouts = films.map(() => new Map());
    this.canvas = make("canvas", { role: "img", width: 4, height: 3, class: "absent" });
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
    this.films[index].leaf = leaf;
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
    const { name, leaf, isFrames } = this.films[this.#chosen];
    this.canvas.setAttribute("aria-label", `${name} of step ${step}`);
    const isOver = () => step !== this.#step || leaf !== this.films[this.#chosen].leaf;
    let problem = "there is none at this step";
    try {
      const value = await leaf.at(step);
      if (isOver()) return;
      if (value instanceof TraceArray) {
        // From the first of a shape that is seen: a stack of four and four channels must not take turns.
        const layouts = this.#layouts[this.#chosen];
        const { dtype, shape, bytes } = value;
        const found = () => (isFrames ? frameLayout(shape, bytes) : layoutOf(dtype, shape, bytes));
        const layout = layouts.get(String(shape)) ?? found();
        layouts.set(String(shape), layout);
        if (layout) {
          const { tiles, width, height } = layout;
          draw(this.canvas, bytes, layout);
          this.canvas.dataset.step = String(step); // what it shows, not what it is to show
          this.canvas.classList.remove("absent");
          this.canvas.classList.toggle("shrunk", tiles * width > this.canvas.clientWidth * devicePixelRatio);
          this.about.textContent = `${tiles > 1 ? `${tiles} × ` : ""}${width} × ${height}`;
          return;
        }
        problem = `no image: ${kind(value)}`;
      }
    } catch (error) {
      problem = String(/** @type {any} */ (error).message ?? error);
    }
    if (isOver()) return;
    this.canvas.classList.add("absent");
    this.about.textContent = problem;
  }
}
