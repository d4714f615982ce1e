/** Elements. Text from files only ever becomes text: nothing here or elsewhere parses HTML. */

/** @typedef {Node | string | null} Child */

/**
 * An element. Of `attributes`, those that begin with `on` are listeners, `true` is an attribute without a value, and
 * `false`, null and undefined are none.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** @type {Record<string, string>} paths of 16 by 16 */
const ICONS = {
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z",
  back: "M12 3v10L5.5 8zM4 3h1.5v10H4z",
  forward: "M4 3v10l6.5-5zM10.5 3H12v10h-1.5z",
  first: "M13 3v10L7.5 8zM7.5 3v10L2 8z",
  last: "M3 3v10l5.5-5zM8.5 3v10L14 8z",
  left: "M10.5 2.5 5 8l5.5 5.5 1.2-1.2L7.4 8l4.3-4.3z",
  right: "M5.5 2.5 11 8l-5.5 5.5-1.2-1.2L8.6 8 4.3 3.7z",
  close: "m3.5 2.4 4.5 4.5 4.5-4.5 1.1 1.1L9.1 8l4.5 4.5-1.1 1.1L8 9.1l-4.5 4.5-1.1-1.1L6.9 8 2.4 3.5z",
  theme: "M8 1.5a6.5 6.5 0 1 0 0 13zm0-1a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15z",
  help: "M8 .5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15zm0 1.2a6.3 6.3 0 1 0 0 12.6A6.3 6.3 0 0 0 8 1.7zm-.7 9.4h1.5v1.5H7.3zM8 3.6c1.6 0 2.7 1 2.7 2.4 0 1.9-2 2-2 3.8H7.3c0-2.6 1.9-2.5 1.9-3.7 0-.7-.5-1.2-1.2-1.2S6.7 5.4 6.7 6.2H5.3c0-1.6 1.1-2.6 2.7-2.6z",
  folder: "M1 3h5l1.5 2H15v8.5H1z",
  warning: "M8 1.2 15.5 14.5H.5zM7.3 6v4.5h1.4V6zm0 5.5v1.4h1.4v-1.4z",
};

/**
 * @param {keyof typeof ICONS} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", "aria-hidden": "true", class: "icon" }))
    svg.setAttribute(key, value);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  path.setAttribute("fill-rule", "evenodd");
  svg.append(path);
  return svg;
}

/**
 * A button with an icon.
 * @param {string} name of the icon
 * @param {string} label what it does, for all who do not see it
 * @param {string} key that does the same
 * @param {() => void} onclick
 */
export function iconButton(name, label, key, onclick) {
  const title = key ? `${label} (${key})` : label;
  return make("button", { class: "icon-button", type: "button", "aria-label": label, title, onclick }, icon(name));
}
