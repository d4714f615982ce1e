/** The keys: which action each stands for, and what the help says of it. */

/**
 * @typedef {object} Keys
 * @property {string} label
 * @property {string} meaning
 * @property {Record<string, string>} actions by key, with `shift ` before it where that is held.
 * @property {boolean} [isOfEpisode] whether they do something only where an episode is open.
 */

/** @type {Keys[]} */
export const KEYS = [
  { label: "space", meaning: "play, pause", actions: { " ": "toggle" }, isOfEpisode: true },
  {
    label: "← →",
    meaning: "a step back, forward",
    actions: { ArrowLeft: "back", ArrowRight: "forward" },
    isOfEpisode: true,
  },
  {
    label: "shift ← →",
    meaning: "ten steps",
    actions: { "shift ArrowLeft": "farBack", "shift ArrowRight": "farForward" },
    isOfEpisode: true,
  },
  { label: "home end", meaning: "first, last step", actions: { Home: "first", End: "last" }, isOfEpisode: true },
  {
    label: "- +",
    meaning: "slower, faster",
    actions: { "-": "slower", "+": "faster", "=": "faster" },
    isOfEpisode: true,
  },
  {
    label: "p n",
    meaning: "previous, next episode of the list",
    actions: { p: "previous", n: "next" },
    isOfEpisode: true,
  },
  { label: "esc", meaning: "back to all episodes", actions: { Escape: "leave" }, isOfEpisode: true },
  { label: "/", meaning: "filter the list", actions: { "/": "filter" } },
  { label: "l", meaning: "go to the list; then ↑ ↓, page up, page down, and enter to open", actions: { l: "list" } },
  { label: "t", meaning: "light or dark", actions: { t: "theme" } },
  { label: "?", meaning: "this help", actions: { "?": "help" } },
];

/**
 * Listens to the keys, except where an element has its own use for them.
 * @param {Record<string, () => void>} actions by name
 * @param {() => boolean} isEpisode whether one is open
 */
export function listen(actions, isEpisode) {
  addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!(target instanceof HTMLElement) || document.querySelector("dialog[open]")) return;
    if (target.matches("input:not([type=range]), select")) {
      if (key === "Escape" && !(target instanceof HTMLInputElement && target.value)) target.blur(); // else it is emptied
      return;
    }
    if (key === " " && target.matches("button, summary")) return;
    const name = event.shiftKey && key.startsWith("Arrow") ? `shift ${key}` : key;
    const found = KEYS.find(
      ({ actions, isOfEpisode }) => Object.hasOwn(actions, name) && (isEpisode() || !isOfEpisode),
    );
    if (!found) return;
    event.preventDefault();
    actions[found.actions[name]]();
  });
}
