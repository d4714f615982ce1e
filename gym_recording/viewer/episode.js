/** An episode: what is known of it, its images, the values at a step, and charts of all that has numbers. */

import { TraceError } from "../readers/gym_recording.js";
import { iconButton, make } from "./dom.js";
import { isReadLater, Leaf, leavesOf, treeOf } from "./leaf.js";
import { dateText } from "./list.js";
import { Panel } from "./panel.js";
import { Player } from "./player.js";
import { describe } from "./problem.js";
import { Slot } from "./slot.js";
import { rounded, text } from "./value.js";
import { Video } from "./video.js";

/** @typedef {import("./catalogue.js").Row} Row */
/** @typedef {import("../readers/gym_recording.js").Recording} Recording */
/** @typedef {import("../readers/gym_recording.js").Episode} Episode */
/** @typedef {{onstep: (step: number) => void, onmove: (by: number) => void, onclose: () => void}} Hooks */
/** @typedef {import("./panel.js").Section} Section */

const CHARTED = ["Reward", "Observation", "Action", "Info"];
const PATIENCE = 150; // ms after which the page says that it is reading

/** The view of one episode, which is another one after `open`. */
export class EpisodeView {
  /** @type {Video | null} */
  #video = null;
  /** @type {Panel | null} */
  #panel = null;
  /** @type {HTMLDetailsElement | null} */
  #about = null;
  /** @type {Slot[]} */
  #slots = [];
  #shape = "";
  #turn = 0;
  #key = "";

  /** @param {Hooks} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    this.player = new Player((step) => this.#show(step));
    this.title = make("h2", { tabindex: "-1" });
    this.facts = make("dl", { class: "facts" });
    this.left = make("div", { class: "episode-left" });
    this.right = make("div", { class: "episode-right" });
    this.body = make("div", { class: "episode-body" }, this.left, this.right);
    const head = make(
      "header",
      { class: "episode-head" },
      iconButton("left", "previous episode", "p", () => hooks.onmove(-1)),
      this.title,
      iconButton("right", "next episode", "n", () => hooks.onmove(1)),
      this.facts,
      iconButton("close", "all episodes", "esc", () => hooks.onclose()),
    );
    this.element = make(
      "article",
      { class: "episode-view", "aria-label": "episode" },
      head,
      this.body,
      this.player.element,
    );
  }

  /**
   * Reads an episode and shows it.
   * @param {Recording} recording
   * @param {Row} row
   * @param {number} step
   */
  async open(recording, row, step) {
    const turn = ++this.#turn;
    const isOther = row.key !== this.#key;
    if (isOther) this.player.pause();
    this.#key = row.key;
    this.element.setAttribute("aria-busy", "true");
    // What was shown stays, under its own title, until there is something else to show.
    const waiting = setTimeout(() => {
      if (!isOther || turn !== this.#turn) return;
      this.#facts(row, null);
      this.#empty(make("p", { class: "reading" }, "Reading…"));
    }, PATIENCE);
    try {
      const number = row.error ? NaN : row.number;
      const episode = row.error ? null : await recording.episode(number, { later: isReadLater });
      clearTimeout(waiting);
      if (turn !== this.#turn) return;
      if (!episode) throw row.error;
      this.player.element.hidden = false;
      this.#facts(row, episode);
      await this.#fill(row, episode, step);
    } catch (error) {
      if (turn !== this.#turn) return;
      if (!(error instanceof TraceError)) console.error(error);
      this.player.element.hidden = true;
      this.#facts(row, null);
      this.#empty(describe(error));
    } finally {
      clearTimeout(waiting);
      if (turn === this.#turn) this.element.setAttribute("aria-busy", "false");
    }
  }

  /**
   * @param {Row} row
   * @param {Episode} episode
   * @param {number} step
   */
  async #fill(row, episode, step) {
    const sections = sectionsOf(row, episode);
    const films = filmsOf(episode, sections);
    const charted = CHARTED.flatMap((wanted) => sections.filter(({ title }) => title === wanted));
    const leaves = sections.map(({ title, node }) => [title, leavesOf(node).map(shapeOf)]);
    const shape = JSON.stringify([row.key, leaves, films.map(({ name }) => name)]);
    const positions = Math.max(1, episode.observations.length);
    this.player.count = positions; // by it the charts have their extent
    const details = about(row, episode);
    if (shape === this.#shape) {
      // The same, grown: what people see stays where it is.
      const leaves = charted.flatMap(({ node }) => leavesOf(node));
      for (const slot of this.#slots) {
        const leaf = leaves.find((leaf) => leaf.name === slot.leaf.name);
        if (leaf) slot.leaf = leaf;
        slot.draw();
      }
      this.#panel?.replace(sections);
      films.forEach((film, i) => this.#video?.replace(i, film.leaf));
      details.open = this.#about?.open ?? false;
      this.#about?.replaceWith(details);
      this.#about = details;
      await this.player.load(positions, step);
      return;
    }
    this.#empty();
    this.#shape = shape;
    this.#video = films.length ? new Video(films) : null;
    this.#panel = new Panel(sections);
    this.left.replaceChildren(...(this.#video ? [this.#video.element] : []), this.#panel.element, details);
    this.#about = details;
    /** @type {import("./chart.js").Hooks} */
    const hooks = {
      onhover: (step) => this.player.isPlaying || this.player.go(step),
      onclick: (step) => this.player.go(step),
      extent: () => [0, this.player.count - 1],
      onzoom: (range) => this.#slots.forEach((slot) => slot.zoom(range)),
    };
    for (const section of charted) {
      const leaves = leavesOf(section.node).filter(
        (leaf) => leaf.isNumeric && !leaf.picture && leaf.count && leaf.length,
      );
      if (!leaves.length) continue;
      const slots = leaves.flatMap((leaf) => {
        const name = leaf.path || section.title.toLowerCase();
        const slot = new Slot(name, leaf, hooks);
        return section.title === "Reward" ? [slot, new Slot(`sum of ${name}`, leaf, hooks, true)] : [slot];
      });
      this.#slots.push(...slots);
      const charts = slots.map(({ element }) => element);
      this.right.append(make("section", {}, make("h3", {}, `${section.title}s`), ...charts));
    }
    if (!this.#slots.length) this.right.append(make("p", { class: "quiet" }, "Nothing here has numbers to draw."));
    await this.player.load(positions, step);
  }

  /** @param {...HTMLElement} shown instead */
  #empty(...shown) {
    for (const slot of this.#slots) slot.destroy();
    [this.#slots, this.#video, this.#panel, this.#shape] = [[], null, null, ""];
    this.left.replaceChildren();
    this.right.replaceChildren(...shown);
  }

  /** @param {number} step */
  async #show(step) {
    this.hooks.onstep(step);
    for (const slot of this.#slots) slot.mark(step);
    await Promise.all([this.#video?.show(step), this.#panel?.show(step)]);
  }

  /**
   * @param {Row} row
   * @param {Episode | null} episode
   */
  #facts(row, episode) {
    this.title.textContent = `Episode ${row.number}`;
    const flags =
      episode && ["terminated", "truncated"].filter((flag) => /** @type {any} */ (episode)[flag]).join(", ");
    /** @type {[string, string | null, string?][]} */
    const facts = [
      ["length", episode && String(episode.length)],
      ["return", episode && rounded(row.return)],
      ["ended by", row.ended || null, row.ended],
      ["flags", flags && flags !== row.ended ? flags : null],
      ["seed", episode && episode.seed !== null ? String(episode.seed) : null],
      ["lane", episode && episode.lane !== null ? String(episode.lane) : null],
      ["headless", episode?.headless ? "yes" : null],
      ["gaps before steps", episode?.gaps.length ? text(episode.gaps) : null],
      ["started", row.started ? dateText(row.started) : null],
      ["trace", row.name || null],
    ];
    const shown = facts.filter(([, value]) => value !== null && value !== "");
    this.facts.replaceChildren(
      ...shown.map(([name, value, tag]) =>
        make(
          "div",
          {},
          make("dt", {}, name),
          make("dd", {}, tag ? make("span", { class: `tag ${tag}` }, value) : value),
        ),
      ),
    );
  }

  /** Takes the colours anew. */
  redraw() {
    for (const slot of this.#slots) slot.redraw();
  }

  /** Shows nothing. */
  close() {
    this.#turn++;
    this.#key = "";
    this.player.pause();
    this.#empty();
  }
}

/** @param {Leaf} leaf */
const shapeOf = ({ name, dtype, shape }) => [name, dtype, shape];

/**
 * @param {Row} row
 * @param {Episode} episode
 * @returns {Section[]}
 */
function sectionsOf({ trace: { env }, ended }, episode) {
  const { headless, infos, timestamps, length } = episode;
  const gaps = new Set(episode.gaps.map(Number));
  const acted = (/** @type {number} */ t) => {
    if (t >= length) return ended === "running" ? "none yet" : "the episode ends here";
    if (headless) return "led to this observation";
    return gaps.has(t) ? "after a gap: not applied to this observation" : "applied to this observation";
  };
  /** @type {Section[]} */
  const sections = [
    {
      title: "Observation",
      node: treeOf("observation", episode.observations, env.get("observation_space")),
      note: () => "",
    },
    { title: "Action", node: treeOf("action", episode.actions, env.get("action_space")), note: acted },
    { title: "Reward", node: treeOf("reward", episode.rewards, null), note: () => "" },
  ];
  if (infos?.columns.length) {
    const nodes = infos.columns.map(({ key, rows, values }) =>
      treeOf(text(key), values, null, text(key), rows.numbers),
    );
    sections.push({ title: "Info", node: { name: "info", leaf: null, nodes }, note: () => "" });
  }
  if (timestamps) {
    const note = () => "when the step ended, seconds since 1970";
    sections.push({ title: "Time", node: treeOf("time", timestamps, null), note });
  }
  for (const { title, node } of sections) for (const leaf of leavesOf(node)) leaf.name = `${title} ${leaf.path}`;
  return sections;
}

/**
 * @param {Episode} episode
 * @param {Section[]} sections
 */
function filmsOf(episode, sections) {
  const { frames } = episode;
  const films = sections.slice(0, 2).flatMap(({ title, node }) =>
    leavesOf(node)
      .filter(({ picture }) => picture)
      .map((leaf) => ({ name: leaf.path || title.toLowerCase(), leaf, isFrames: false })),
  );
  if (!frames || (Array.isArray(frames) && !frames.some(Boolean))) return films;
  return [{ name: "frames", leaf: new Leaf("frames", frames, null), isFrames: true }, ...films];
}

/**
 * What is known of the episode and of who recorded it, for those who ask.
 * @param {Row} row
 * @param {Episode} episode
 */
function about({ trace, key }, { options, terminated, truncated }) {
  /** @type {[string, any][]} */
  const rows = [
    ["options", options],
    ["terminated", terminated],
    ["truncated", truncated],
    ...[...trace.env].map(([name, value]) => /** @type {[string, any]} */ ([name, value])),
    ["metadata", trace.metadata],
    ["recorder made", trace.created ? dateText(trace.created) : null],
    ["repaired", trace.repaired || null],
    ["writer", trace.writer.size ? trace.writer : null],
    ["header", key.split(" ")[0]],
  ];
  const known = rows.filter(([, value]) => value !== null);
  const list = known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, text(value))]);
  return make(
    "details",
    { class: "about" },
    make("summary", {}, "About this episode and its recorder"),
    make("dl", {}, ...list),
  );
}
