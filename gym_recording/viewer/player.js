/** Which step is shown, and the bar that moves it: by hand, by keys, or as time goes. */

import { icon, iconButton, make } from "./dom.js";

const RATES = [1, 2, 5, 10, 15, 30, 60, 120, 240]; // steps per second
const USUAL = 30;
const LONGEST = 0.25; // seconds that count between two frames: what was slow is not made up for at once

const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

/** The step, from 0 up to `count` - 1. */
export class Player {
  step = 0;
  count = 1;
  isPlaying = false;
  #turn = 0;

  /** @param {(step: number) => Promise<void>} onstep shows a step */
  constructor(onstep) {
    this.onstep = onstep;
    this.slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "step" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.where = make("output", { class: "player-where" });
    this.button = iconButton("play", "play", "space", () => this.toggle());
    this.rates = make("select", { "aria-label": "speed", title: "speed (+ and -)" });
    for (const rate of RATES)
      this.rates.append(make("option", { value: rate, selected: rate === USUAL }, `${rate} steps/s`));
    this.element = make(
      "div",
      { class: "player", role: "group", "aria-label": "playback" },
      iconButton("first", "first step", "home", () => this.go(0)),
      iconButton("back", "step back", "←", () => this.go(this.step - 1)),
      this.button,
      iconButton("forward", "step forward", "→", () => this.go(this.step + 1)),
      iconButton("last", "last step", "end", () => this.go(this.count - 1)),
      this.slider,
      this.where,
      this.rates,
    );
  }

  get isAtEnd() {
    return this.step >= this.count - 1;
  }

  /**
   * @param {number} count of the steps that can be shown
   * @param {number} step that is shown first
   */
  load(count, step) {
    this.count = count;
    this.slider.max = String(count - 1);
    return this.go(step);
  }

  /** @param {number} step */
  go(step) {
    this.step = Math.max(0, Math.min(this.count - 1, Math.floor(step) || 0));
    this.slider.value = String(this.step);
    this.where.textContent = `${this.step} / ${this.count - 1}`;
    return this.onstep(this.step);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.#play();
  }

  pause() {
    this.isPlaying = false;
    this.#show();
  }

  /** @param {number} by 1: faster, -1: slower */
  changeRate(by) {
    this.rates.selectedIndex = Math.max(0, Math.min(RATES.length - 1, this.rates.selectedIndex + by));
  }

  #show() {
    const label = this.isPlaying ? "pause" : "play";
    this.button.replaceChildren(icon(label));
    this.button.setAttribute("aria-label", label);
    this.button.title = `${label} (space)`;
  }

  async #play() {
    if (this.isAtEnd) await this.go(0);
    this.isPlaying = true;
    this.#show();
    const turn = ++this.#turn; // or two would play, where it was paused for less than a frame
    let last = performance.now();
    let passed = 0; // steps, of which whole ones are shown
    for (;;) {
      await frame();
      if (!this.isPlaying || turn !== this.#turn) return;
      const now = performance.now();
      passed += Math.min(LONGEST, (now - last) / 1000) * Number(this.rates.value);
      last = now;
      const whole = Math.floor(passed);
      if (whole) await this.go(this.step + whole);
      passed -= whole;
      if (this.isAtEnd && turn === this.#turn) return this.pause();
    }
  }
}
