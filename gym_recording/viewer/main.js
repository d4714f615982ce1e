/** The page: what is opened, what is shown of it, and the keys. The address keeps the place: `#episode=12&step=30`. */

import { Catalogue, mayGrow } from "./catalogue.js";
import { icon, iconButton, make } from "./dom.js";
import { EpisodeView } from "./episode.js";
import { parseFilter } from "./filter.js";
import { makeHelp } from "./help.js";
import { listen } from "./keys.js";
import { List } from "./list.js";
import { Overview } from "./overview.js";
import { chosen, dropped, served } from "./place.js";
import { describe, describeAll } from "./problem.js";
import { initTheme, switchTheme } from "./theme.js";

/** @typedef {import("./catalogue.js").Row} Row */
/** @typedef {import("./place.js").Place} Place */

const WAIT = 1500; // ms between two looks; a look that took long is followed by a longer wait
const REDRAW = 400; // ms between two drawings while episodes come in; after one that took long more, so that keys are heard

/** @type {Catalogue | null} */
let catalogue = null;
/** @type {Row | null} */
let current = null;
let steps = 0; // of the address: where the episode is
let isAwaited = false; // whether the address names an episode that is not read yet

const name = make("span", { class: "name" });
const status = make("span", { class: "status", role: "status" });
const progress = make("progress", { hidden: true, "aria-label": "reading the episodes" });
const problems = make("div");
const filter = make("input", {
  type: "search",
  placeholder: "Filter:  length>100  return<0  ended_by:reset",
  "aria-label": "filter",
  spellcheck: "false",
  autocomplete: "off",
});
const filterNote = make("span", { class: "filter-note", role: "status" });
const list = new List((row) => (go(row, 0), view.title.focus())); // from here on, keys are the episode's
const overview = new Overview((row) => go(row, 0));
const view = new EpisodeView({ onstep, onmove: move, onclose: () => go(null, 0) });
const help = makeHelp();
const input = make("input", {
  type: "file",
  webkitdirectory: true,
  multiple: true,
  class: "hidden",
  "aria-label": "folder",
});
const choose = make(
  "button",
  { type: "button", class: "main-button", onclick: () => input.click() },
  icon("folder"),
  "Choose a folder",
);
const welcome = make("section", { class: "welcome" });
const main = make("main");

function build() {
  const tools = make(
    "div",
    { class: "tools" },
    iconButton("folder", "open a folder", "", () => input.click()),
    iconButton("theme", "light or dark", "t", ACTIONS.theme),
    iconButton("help", "help", "?", ACTIONS.help),
  );
  const header = make("header", { class: "top" }, make("h1", {}, "gym_recording"), name, status, progress, tools);
  const aside = make("section", { class: "episodes", "aria-label": "episodes" });
  aside.append(overview.element, make("div", { class: "filter" }, filter, filterNote), list.element);
  const content = make("div", { class: "content" }, aside, view.element);
  main.replaceChildren(welcome, problems, content);
  document.body.append(header, main, help, input);
}

function redraw() {
  overview.redraw();
  view.redraw();
}

// ---- what is open

/** @param {Place} place */
async function openPlace(place) {
  const opened = new Catalogue(place);
  if (catalogue) history.replaceState(null, "", "#"); // the address was of another recording
  catalogue = opened;
  current = null;
  isAwaited = true;
  view.close();
  let [drawn, cost] = [0, 0];
  for (;;) {
    const start = performance.now();
    try {
      const isChanged = await opened.look(() => {
        if (opened !== catalogue) return;
        const now = performance.now();
        if (opened.isRead || now - drawn > REDRAW + 4 * cost) {
          showRows();
          drawn = performance.now();
          cost = drawn - now;
        }
        if (isAwaited && (opened.isRead || addressed())) showAddress();
      });
      if (opened !== catalogue) return;
      if (isChanged) await follow();
      else showStatus();
    } catch (error) {
      if (opened !== catalogue) return;
      if (!opened.isRead) showWelcome(error);
      showStatus(String(/** @type {any} */ (error).message ?? error));
    }
    if (!place.versions) return;
    await new Promise((resolve) => setTimeout(resolve, Math.max(WAIT, 3 * (performance.now() - start))));
    while (document.hidden)
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    if (opened !== catalogue) return;
  }
}

/** Shows the open episode again if it has grown; or the one that the address names. */
async function follow() {
  if (!current) return;
  const row = catalogue?.rows.find(({ key }) => key === current?.key);
  if (!row) return;
  const isSame = row.version === current.version && !row.error === !current.error;
  current = row;
  if (!isSame) await showEpisode(row, view.player.isAtEnd ? Infinity : view.player.step);
  else setAddress(false);
}

function showRows() {
  if (!catalogue) return;
  const { test, problem } = parseFilter(filter.value);
  const rows = filter.value.trim() ? catalogue.rows.filter(test) : [...catalogue.rows];
  list.show(rows);
  overview.show(rows);
  overview.mark(current?.key ?? null);
  filterNote.textContent =
    problem ||
    (rows.length === catalogue.rows.length
      ? ""
      : `${rows.length.toLocaleString("en")} of ${counted(catalogue.rows.length, "episode")}`);
  filterNote.classList.toggle("wrong", problem !== "");
  const { isRead, total } = catalogue;
  progress.hidden = isRead || !total;
  progress.max = Math.max(1, total);
  progress.value = catalogue.rows.length;
  const isOpen = problems.querySelector("details")?.open ?? false;
  problems.replaceChildren(...(catalogue.problems.length ? [describeAll(catalogue.problems)] : []));
  const details = problems.querySelector("details");
  if (details) details.open = isOpen;
  showWelcome();
  showStatus();
}

/**
 * @param {number} number
 * @param {string} what one of them
 */
const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

/** @param {string} [trouble] */
function showStatus(trouble) {
  if (!catalogue) return;
  const { recording, rows, place, isRead, total } = catalogue;
  const count = recording?.traces.length ?? 0;
  const sum = rows.reduce((sum, { length }) => sum + (length ?? 0), 0);
  const parts = [counted(isRead ? total : rows.length, "episode"), counted(sum, "step"), counted(count, "trace")];
  const isOver = !recording?.traces.some(mayGrow);
  name.textContent = place.name;
  document.title = place.name ? `${place.name} – gym_recording` : "gym_recording";
  const text = trouble ? `not up to date: ${trouble}` : rows.length ? parts.join(" · ") : "";
  if (status.textContent !== text) status.textContent = text; // else it would be read out at each look
  status.classList.toggle("live", !trouble && place.versions !== null && !isOver && count > 0);
  status.classList.toggle("wrong", Boolean(trouble));
  status.title = status.classList.contains("live") ? "the page follows what is being recorded" : "";
}

/**
 * What there is to say where there is nothing to show.
 * @param {unknown} [error]
 */
function showWelcome(error) {
  const isEmpty = !catalogue || (catalogue.isRead && !catalogue.rows.length);
  document.body.dataset.view = isEmpty || error ? "welcome" : current ? "episode" : "episodes";
  welcome.replaceChildren();
  if (error) welcome.append(make("h2", {}, "This cannot be opened"), describe(error), choose);
  else if (!catalogue) {
    welcome.append(
      make("h2", {}, "Open a recording"),
      make("p", {}, "Drop its folder here, or choose it. It stays on this machine."),
      choose,
    );
  } else if (isEmpty) {
    const text = catalogue.place.versions ? "Nothing is recorded here yet" : "There is no recording in this folder";
    const hint =
      "A recording is a folder of files whose names begin with openaigym.trace. Episodes show here when they are written.";
    welcome.append(make("h2", {}, text), make("p", {}, hint), choose);
  }
}

// ---- which episode

/**
 * @param {Row | null} row null: all episodes
 * @param {number} step
 */
async function go(row, step) {
  const isOther = row?.key !== current?.key;
  isAwaited = false;
  current = row;
  steps = step;
  if (isOther) setAddress(true);
  const isLeft = !row && view.element.contains(document.activeElement);
  const shown = showEpisode(row, step);
  if (isLeft) list.element.focus(); // else what is hidden takes the focus with it
  await shown;
}

/**
 * @param {Row | null} row
 * @param {number} step
 */
async function showEpisode(row, step) {
  document.body.dataset.view = row ? "episode" : "episodes";
  list.select(row?.key ?? null);
  overview.mark(row?.key ?? null);
  if (row && catalogue?.recording) await view.open(catalogue.recording, row, step);
  else view.close();
}

/** @param {number} by */
function move(by) {
  const row = list.neighbour(by);
  if (row) go(row, 0);
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;
/** @param {number} step */
function onstep(step) {
  steps = step;
  later ??= setTimeout(() => ((later = undefined), setAddress(false)), 300); // browsers allow few changes a second
}

/** @param {boolean} isNew whether the back button comes back to what was before */
function setAddress(isNew) {
  const hash = current ? `#episode=${current.number}${steps ? `&step=${steps}` : ""}` : "#";
  if (hash === (location.hash || "#")) return;
  history[isNew ? "pushState" : "replaceState"](null, "", hash);
}

/** The row that the address names, if it is read. */
function addressed() {
  const number = new URLSearchParams(location.hash.slice(1)).get("episode");
  return (number !== null && catalogue?.find(Number(number))) || null;
}

/** Goes where the address says. */
async function showAddress() {
  const row = addressed();
  isAwaited = false;
  current = row;
  steps = Number(new URLSearchParams(location.hash.slice(1)).get("step")) || 0;
  if (catalogue?.isRead && !catalogue.rows.length) return;
  await showEpisode(row, steps);
}

// ---- keys, and what is dropped

const { player } = view;
const ACTIONS = {
  toggle: () => player.toggle(),
  back: () => player.go(player.step - 1),
  forward: () => player.go(player.step + 1),
  farBack: () => player.go(player.step - 10),
  farForward: () => player.go(player.step + 10),
  first: () => player.go(0),
  last: () => player.go(Infinity),
  slower: () => player.changeRate(-1),
  faster: () => player.changeRate(1),
  previous: () => move(-1),
  next: () => move(1),
  leave: () => go(null, 0),
  filter: () => filter.focus(),
  list: () => list.element.focus(),
  theme: () => (switchTheme(), redraw()),
  help: () => help.showModal(),
};

/** @param {DragEvent} event */
async function ondrop(event) {
  event.preventDefault();
  document.body.classList.remove("dropping");
  if (event.dataTransfer?.types.includes("Files")) openPlace(await dropped(event.dataTransfer));
}

build();
initTheme(redraw);
filter.addEventListener("input", () => requestAnimationFrame(showRows));
input.addEventListener("change", () => input.files?.length && openPlace(chosen(input.files)));
listen(ACTIONS, () => current !== null);
addEventListener("popstate", () => catalogue && showAddress());
addEventListener("dragover", (event) => (event.preventDefault(), document.body.classList.add("dropping")));
addEventListener("dragleave", (event) => event.relatedTarget ?? document.body.classList.remove("dropping"));
addEventListener("drop", ondrop);
const where = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="recording"]'))?.content;
showWelcome();
if (where) openPlace(served(new URL(where, location.href)));
