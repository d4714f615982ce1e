/** Light or dark: as the system is, until it is chosen. */

const KEY = "gym-recording-theme";

/** What was chosen; browsers may keep no storage for a page. */
function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

const isDark = () =>
  (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

/** @param {() => void} onchange */
export function initTheme(onchange) {
  const theme = chosen();
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onchange);
}

/** The other one, from now on. */
export function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // then it is chosen for this time
  }
}
