/** The control room: which page is shown, and how the connection is. */

import { announce } from "./announcer.js";
import { Refused, told } from "./api.js";
import { comparePage } from "./compare.js";
import { element, fill, say } from "./element.js";
import { runPage } from "./run.js";
import { runsPage } from "./runs.js";
import { themeSwitch } from "./theme.js";

/**
 * @typedef {{
 *   main: HTMLElement, title: (text: string) => void,
 *   connection: (connection: import("./stream.js").Connection) => void
 * }} Place What a page fills and tells.
 */

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const status = /** @type {HTMLElement} */ (document.getElementById("connection"));
const path = /** @type {HTMLElement} */ (document.getElementById("path"));
const RETRY_MS = 3000;

let shown = "";
let leave = new AbortController();

/** @type {Place} */
const place = {
  main,
  title: (text) => {
    document.title = text ? `${text} - GA3C` : "GA3C";
    say(path, text);
  },
  connection: ({ state, text }) => {
    if (status.dataset.state === "lost" && state === "live") announce("Connected again.");
    if (state === "lost" && status.dataset.state !== "lost") announce("The connection is lost. The page tries again.");
    status.dataset.state = state;
    say(status, text);
  },
};

/** Shows the page that the address names: `#/`, `#/run/ID/SECTION` or `#/compare/ID,ID`. */
async function show() {
  const [kind = "", argument = "", name = ""] = location.hash.replace(/^#\/?/, "").split("/");
  if (`${kind}/${argument}` !== shown) {
    shown = `${kind}/${argument}`;
    leave.abort();
    leave = new AbortController();
    await fillPage(kind, argument, leave.signal);
  }
  if (name) main.querySelector(`[data-section="${CSS.escape(name)}"]`)?.scrollIntoView();
  const heading = name ? document.getElementById(`${name}-title`) : main.querySelector("h1");
  if (heading instanceof HTMLElement) heading.focus({ preventScroll: true });
}

/** @param {string} kind @param {string} argument @param {AbortSignal} signal */
async function fillPage(kind, argument, signal) {
  fill(main, element("p", { class: "note" }, "Loading…"));
  scrollTo(0, 0);
  try {
    if (kind === "run") await runPage(place, argument, signal);
    else if (kind === "compare") await comparePage(place, argument.split(","), signal);
    else await runsPage(place, signal);
  } catch (error) {
    if (signal.aborted) return;
    const again = error instanceof Refused && (error.status === 0 || error.status >= 500);
    fill(
      main,
      element("h1", { tabindex: -1 }, "This page cannot be shown"),
      element("p", {}, told(error)),
      element("p", {}, element("a", { href: "#/" }, "All runs")),
    );
    if (again) setTimeout(() => !signal.aborted && fillPage(kind, argument, signal), RETRY_MS);
  }
}

document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the address names the page
  main.focus();
});
document.getElementById("theme")?.append(themeSwitch());
addEventListener("hashchange", show);
// The address stays the same where a reader follows the link to a section again.
document.addEventListener("click", ({ target }) => {
  if (target instanceof HTMLAnchorElement && target.getAttribute("href") === location.hash) show();
});
show();
