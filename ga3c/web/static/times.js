/** The account of time: how long each part of a step and of an update takes, as stacked bars and tables. */

import { at, getJson } from "./api.js";
import { element, fill, section } from "./element.js";
import { number } from "./text.js";
import { repeat, whileVisible } from "./visible.js";

/** @typedef {import("./types.js").Part} Part */

const NOTE =
  "Milliseconds. The means add up to the whole; percentiles do not. " +
  "In a captured graph of CUDA, copying and gathering are part of the device's time.";
const POLL_MS = 5000;
const COLOURS = ["c2", "c0", "c4", "c3", "c1", "c5", "soft"];
const BLOCKS = /** @type {const} */ ([
  ["step", "A step of an agent"],
  ["prediction", "Of that, a prediction"],
  ["update", "An update"],
]);

/**
 * The section.
 *
 * @param {import("./watched.js").Watched} run
 * @param {AbortSignal} signal
 * @param {...Node} more below the account
 */
export function times(run, signal, ...more) {
  const place = element(
    "div",
    { class: "blocks" },
    element("p", { class: "note" }, "Waiting for the account of time."),
  );
  const note = element("p", { class: "note" }, NOTE);

  async function show() {
    /** @type {import("./types.js").Account} */
    let account;
    try {
      account = await getJson(at(run.id, "times"), signal);
    } catch {
      return; // the page says that the connection is lost, and comes back
    }
    const parts = BLOCKS.map(([name]) => (account[name] ?? []).filter((part) => part.mean !== null));
    // A part of a prediction has the colour that it has as a part of the step.
    /** @type {Map<string, string>} */
    const colours = new Map(
      parts.toReversed().flatMap((all) => all.map((part, i) => [part.part, COLOURS[i % COLOURS.length]])),
    );
    const blocks = BLOCKS.map(([, title], i) => block(title, parts[i], colours));
    fill(
      place,
      ...(blocks.some(Boolean)
        ? blocks
        : [element("p", { class: "note" }, "There is no account of time of this run yet.")]),
    );
  }

  whileVisible(
    place,
    signal,
    (seen) => {
      if (run.isOver) show();
      else repeat(show, POLL_MS, seen);
    },
    "200px",
  );
  run.missed.on(show, signal);
  return section("times", "Where the time goes", place, note, ...more);
}

/**
 * One whole with its parts; nothing without any.
 *
 * @param {string} title
 * @param {Part[]} parts
 * @param {Map<string, string>} colours
 */
function block(title, parts, colours) {
  const total = parts.reduce((sum, part) => sum + (part.mean ?? 0), 0);
  if (!(total > 0)) return null;
  const bar = element("div", { class: "stack", role: "img" });
  bar.setAttribute("aria-label", `${title}: ${parts.map((part) => `${part.name} ${number(part.mean)} ms`).join(", ")}`);
  parts.forEach((part) => {
    const piece = element("span", { class: colours.get(part.part), title: `${part.name}: ${number(part.mean)} ms` });
    piece.style.width = `${(100 * (part.mean ?? 0)) / total}%`;
    bar.append(piece);
  });
  return element(
    "div",
    { class: "block" },
    element("h3", {}, title, element("small", {}, ` ${number(total)} ms`)),
    bar,
    table(title, parts, total, colours),
  );
}

/** @param {string} title @param {Part[]} parts @param {number} total @param {Map<string, string>} colours */
function table(title, parts, total, colours) {
  const heads = ["part", "mean", "share", "p50", "p95", "p99"].map((text, i) =>
    element("th", { scope: "col", class: i ? "figure" : null }, text),
  );
  const rows = parts.map((part) => {
    const figures = [
      number(part.mean),
      `${Math.round((100 * (part.mean ?? 0)) / total)}%`,
      number(part.p50),
      number(part.p95),
      number(part.p99),
    ];
    const key = element("span", { class: `key ${colours.get(part.part)}`, "aria-hidden": "true" });
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, key, part.name),
      ...figures.map((text) => element("td", { class: "figure" }, text)),
    );
  });
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("caption", { class: "hidden" }, `${title}, milliseconds`),
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...rows),
    ),
  );
}
