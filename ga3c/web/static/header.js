/** The head of a run's page: what it is, its state, how far it is and how well it does. */

import { element, fill, say } from "./element.js";
import { badge, pps, sentence, tps } from "./states.js";
import { clock, duration, number, percent } from "./text.js";

/** @typedef {import("./watched.js").Watched} Watched */

/** @type {Array<[label: string, value: (run: Watched) => string]>} */
const TILES = [
  ["Score", (run) => number(now(run, "score"))],
  ["Best", (run) => number(now(run, "best_score"))],
  ["PPS", (run) => number(run.snapshot?.pps ?? pps(run.details))],
  ["TPS", (run) => number(run.snapshot?.tps ?? tps(run.details))],
  ["Steps", (run) => number(now(run, "steps"))],
  ["Training", (run) => clock(now(run, "seconds"))],
  ["Left", (run) => (run.isOver ? "-" : duration(now(run, "seconds_left")))],
];

/**
 * A figure of the last snapshot, else of the row in the list.
 *
 * @param {Watched} run
 * @param {"score" | "best_score" | "steps" | "seconds" | "seconds_left" | "progress"} name
 */
function now(run, name) {
  return run.snapshot?.[name] ?? run.details[name];
}

/** @param {Watched} run @param {AbortSignal} signal */
export function header(run, signal) {
  const state = element("span", { class: "state" });
  const told = element("p", { class: "told" });
  const bar = element("span", { class: "filled" });
  const progress = element(
    "div",
    { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 },
    bar,
  );
  const share = element("span", { class: "note" });
  const values = TILES.map(() => element("dd", {}));
  const tiles = element(
    "dl",
    { class: "tiles" },
    ...TILES.map(([label], i) => element("div", {}, element("dt", {}, label), values[i])),
  );
  let shown = "";

  function show() {
    const { state: word } = run.details;
    if (word !== shown) {
      shown = word;
      fill(state, badge(word));
      say(told, word === "running" ? "" : sentence(word));
      told.hidden = word === "running";
    }
    TILES.forEach(([, value], i) => say(values[i], value(run)));
    const done = now(run, "progress");
    progress.hidden = done === null;
    bar.style.width = `${Math.min(100, 100 * (done ?? 0))}%`;
    progress.setAttribute("aria-valuenow", `${Math.floor(100 * (done ?? 0))}`);
    say(share, done === null ? "no limit" : `${percent(done)} done`);
  }

  run.changed.on(show, signal);
  run.snapshots.on(show, signal);
  show();
  const title = element("h1", { tabindex: -1 }, run.details.name);
  const facts = element(
    "p",
    { class: "facts" },
    element("b", {}, run.details.env),
    ` · ${run.details.folder} · `,
    share,
  );
  return element(
    "header",
    { class: "run" },
    element("div", { class: "who" }, element("div", { class: "name" }, title, state), facts, told),
    tiles,
    progress,
  );
}
