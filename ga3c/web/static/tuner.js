/** The tuner of a run: every window it measured, what it decided and why. */

import { at, getJson } from "./api.js";
import { element, fill, section, svg } from "./element.js";
import { clock, count, number } from "./text.js";
import { repeat, whileVisible } from "./visible.js";

/** @typedef {import("./types.js").Window} Window */

const POLL_MS = 10_000;
const MOST_MAPS = 8;
const FIRST_ROWS = 12;
const MOST_ROWS = 400;
const ROW = 50; // height of a line of a map

/** The section. @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
export function tuner(run, signal) {
  const place = element("div", {}, element("p", { class: "note" }, "Waiting for the tuner's windows."));
  let shown = -1;

  async function show() {
    /** @type {Window[]} */
    let windows;
    try {
      ({ windows } = await getJson(at(run.id, "windows"), signal));
    } catch {
      return; // the page says that the connection is lost, and comes back
    }
    const measured = windows.filter((one) => one.tps !== null);
    if (measured.length === shown) return;
    shown = measured.length;
    fill(
      place,
      ...(measured.length
        ? content(measured)
        : [element("p", { class: "note" }, "The tuner of this run has measured no window.")]),
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
  return section("tuner", "The tuner", place);
}

/** @param {Window[]} windows */
function content(windows) {
  const best = accepted(windows[windows.length - 1]);
  const names = /** @type {const} */ (["agent", "predictor", "trainer"]);
  const [a, p, t] = names.map((noun, i) => count(best[i], noun));
  return [
    element("p", {}, `${count(windows.length, "window")}; the setting it accepted has ${a}, ${p} and ${t}.`),
    element("div", { class: "maps" }, ...maps(windows, best)),
    element(
      "p",
      { class: "note" },
      "Agents across, predictors up. Numbers are the mean TPS of the windows. The ring is the accepted setting.",
    ),
    ...tables(windows),
  ];
}

/** @param {Window} one @returns {[number, number, number]} */
function tried(one) {
  return [one.agents, one.predictors, one.trainers];
}

/** @param {Window} one @returns {[number, number, number]} */
function accepted(one) {
  return [one.accepted_agents, one.accepted_predictors, one.accepted_trainers];
}

/** A map for each number of trainers. @param {Window[]} windows @param {[number, number, number]} best */
function maps(windows, best) {
  /** @type {Map<string, {setting: [number, number, number], tps: number[]}>} */
  const speeds = new Map();
  for (const one of windows) {
    const key = tried(one).join("/");
    if (!speeds.has(key)) speeds.set(key, { setting: tried(one), tps: [] });
    speeds.get(key)?.tps.push(one.tps ?? 0);
  }
  const spots = [...speeds.values()].map(({ setting, tps }) => ({
    setting,
    tps: tps.reduce((a, b) => a + b, 0) / tps.length,
  }));
  const levels = [0, 1, 2].map((i) => [...new Set(spots.map(({ setting }) => setting[i]))].sort((a, b) => a - b));
  const fastest = Math.max(...spots.map(({ tps }) => tps));
  return levels[2].slice(0, MOST_MAPS).map((trainers) =>
    map(
      trainers,
      spots.filter(({ setting }) => setting[2] === trainers),
      levels,
      fastest,
      best,
    ),
  );
}

/**
 * @param {number} trainers @param {Array<{setting: [number, number, number], tps: number}>} spots
 * @param {number[][]} levels @param {number} fastest @param {[number, number, number]} best
 */
function map(trainers, spots, [agents, predictors], fastest, best) {
  const [left, width, height] = [34, 300, 34 + ROW * predictors.length];
  const column = (width - left - 8) / agents.length;
  const x = (/** @type {number} */ level) => left + column * (agents.indexOf(level) + 0.5);
  const y = (/** @type {number} */ level) => 8 + ROW * (predictors.length - predictors.indexOf(level) - 0.5);
  const grid = predictors.flatMap((level) => [
    svg("line", { x1: left, x2: width - 6, y1: y(level), y2: y(level), class: "grid" }),
    svg("text", { x: left - 10, y: y(level), dy: ".35em", class: "tick end" }, level),
  ]);
  const ticks = agents.map((level) => svg("text", { x: x(level), y: height - 8, class: "tick middle" }, level));
  const circles = spots.map(({ setting, tps }) => {
    const share = fastest > 0 ? tps / fastest : 0;
    const ring = setting.join() === best.join() ? " ring" : "";
    const radius = Math.min(23, column / 2) * (0.55 + 0.45 * share);
    const circle = svg("circle", {
      cx: x(setting[0]),
      cy: y(setting[1]),
      r: radius.toFixed(1),
      class: `spot${ring}`,
      "fill-opacity": (0.15 + 0.4 * share).toFixed(2),
    });
    return svg(
      "g",
      {},
      circle,
      svg("text", { x: x(setting[0]), y: y(setting[1]), dy: ".35em", class: "middle strong" }, number(tps)),
    );
  });
  const words = spots.map(({ setting, tps }) => `${setting.join("/")}: ${number(tps)} updates/s`).join(", ");
  const title = count(trainers, "trainer");
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", class: "map" },
    svg("title", {}, `Settings with ${title}`),
    svg("desc", {}, words),
    ...grid,
    ...ticks,
    ...circles,
  );
  return element("figure", {}, element("figcaption", {}, element("b", {}, title)), picture);
}

/** The newest windows, and the older ones folded. @param {Window[]} windows */
function tables(windows) {
  const newest = windows.slice(-MOST_ROWS).reverse();
  const more = newest.slice(FIRST_ROWS);
  const older = element("details", {}, element("summary", {}, `${count(more.length, "older window")}`), table(more));
  return [table(newest.slice(0, FIRST_ROWS)), more.length ? older : null];
}

/** @param {Window[]} windows */
function table(windows) {
  const heads = ["time", "tried", "TPS", "PPS", "lag", "decision", "accepted", "why"];
  const figures = new Set(["time", "TPS", "PPS", "lag"]);
  const rows = windows.map((one) => {
    const texts = [
      clock(one.seconds),
      tried(one).join("/"),
      number(one.tps),
      number(one.pps),
      number(one.lag),
      one.decision,
      accepted(one).join("/"),
      one.why,
    ];
    return element(
      "tr",
      {},
      ...texts.map((text, i) => element("td", { class: figures.has(heads[i]) ? "figure" : null }, text)),
    );
  });
  const head = element(
    "tr",
    {},
    ...heads.map((text) => element("th", { scope: "col", class: figures.has(text) ? "figure" : null }, text)),
  );
  const caption = element("caption", {}, "Windows, newest first: settings are agents/predictors/trainers");
  return element(
    "div",
    { class: "scroll" },
    element("table", { class: "windows" }, caption, element("thead", {}, head), element("tbody", {}, ...rows)),
  );
}
