/** Several runs beside one another: their curves on one picture, and the settings that differ. Runs that differ only in
 * their seed are one line with a band. */

import { at, getJson } from "./api.js";
import { Chart, lineKey } from "./chart.js";
import { element, fill, section } from "./element.js";
import { evenly, last, resampled, smoothed, together } from "./numbers.js";
import { COMPARED } from "./panels.js";
import { badge, pps, tps } from "./states.js";
import { Stream } from "./stream.js";
import { clock, number, plain, setting } from "./text.js";
import { repeat, whileVisible } from "./visible.js";

/** @typedef {import("./types.js").RunRow} RunRow */
/** @typedef {import("./types.js").Comparison} Comparison */
/** @typedef {import("./types.js").Axis} Axis */
/** @typedef {{label: string, ids: string[], env: string}} Group */

const POINTS = 400;
const POLL_MS = 10_000;
const MOST_NAMED = 3; // settings in the label of a line
const BANDS =
  "Runs that differ only in their seed are one line: their mean, with a band from the lowest to the highest.";
const SMOOTHINGS = [0, 0.6, 0.9, 0.97];

/** @param {import("./app.js").Place} place @param {string[]} ids @param {AbortSignal} signal */
export async function comparePage(place, ids, signal) {
  const query = ids.map(encodeURIComponent).join(",");
  const [{ runs }, comparison] = await Promise.all([
    getJson("/api/runs", signal),
    getJson(`/api/compare?runs=${query}`, signal),
  ]);
  /** @type {Map<string, RunRow>} */
  const rows = new Map(
    runs.filter((/** @type {RunRow} */ row) => ids.includes(row.id)).map((/** @type {RunRow} */ row) => [row.id, row]),
  );
  place.title(`${rows.size} runs compared`);
  const groups = grouped(comparison, rows);
  const charts = new Charts(groups, rows, signal);
  const table = element("div", {}, figures(groups, rows));
  fill(
    place.main,
    element("h1", { tabindex: -1 }, "Runs compared"),
    section("curves", "Curves", charts.toolbar, element("p", { class: "note" }, BANDS), charts.grid),
    section("figures", "Figures", table),
    section("differ", "Settings that differ", settings(comparison, rows)),
  );
  new Stream(
    [],
    {
      connection: place.connection,
      opened: () => {},
      runs: (changed) => {
        const known = changed.filter(({ id }) => rows.has(id));
        for (const row of known) rows.set(row.id, row);
        if (known.length) fill(table, figures(groups, rows));
      },
    },
    signal,
  );
}

/**
 * Groups of runs with the settings that tell them from the others.
 *
 * @param {Comparison} comparison
 * @param {Map<string, RunRow>} rows
 * @returns {Group[]}
 */
function grouped({ settings, groups }, rows) {
  const telling = settings.filter(({ name }) => !name.startsWith("run.") && name !== "env_id");
  return groups.map((ids) => {
    const [first] = ids;
    const env = rows.get(first)?.env ?? "";
    const texts = telling.slice(0, MOST_NAMED).map(({ name, values }) => setting(name, values[first] ?? null));
    if (telling.length > MOST_NAMED) texts.push("…");
    const label = texts.join(", ") || (groups.length > 1 && ids.length === 1 ? (rows.get(first)?.name ?? "") : env);
    return { ids, env, label: ids.length > 1 ? `${label} (${ids.length} runs)` : label };
  });
}

/** The charts, all over the same axis. */
class Charts {
  /** @param {Group[]} groups @param {Map<string, RunRow>} rows @param {AbortSignal} signal */
  constructor(groups, rows, signal) {
    this.groups = groups;
    this.rows = rows;
    this.axis = element(
      "select",
      { "aria-label": "x axis" },
      element("option", { value: "steps" }, "over steps"),
      element("option", { value: "seconds" }, "over time"),
      element("option", { value: "frames" }, "over frames"),
    );
    this.smoothing = element(
      "select",
      { "aria-label": "Smoothing" },
      ...SMOOTHINGS.map((one) => element("option", { value: one }, one ? `smoothed by ${one}` : "not smoothed")),
    );
    this.toolbar = element("div", { class: "toolbar" }, this.axis, this.smoothing);
    // Scores of different environments have no common scale.
    const envs = [...new Set(groups.map(({ env }) => env))];
    this.charts = COMPARED.flatMap((panel) => {
      const apart = isScore(panel) ? envs : [""];
      return apart.map((env) => this.#chart(panel, env, envs.length > 1, signal));
    });
    this.grid = element("div", { class: "charts" }, ...this.charts.map(({ chart }) => chart.figure));
    for (const choice of [this.axis, this.smoothing])
      choice.addEventListener("change", () => this.charts.forEach((one) => one.fetch()));
  }

  /**
   * @param {import("./panels.js").Panel} panel
   * @param {string} env empty for all
   * @param {boolean} named
   * @param {AbortSignal} signal
   */
  #chart(panel, env, named, signal) {
    const isLarge = isScore(panel);
    const title = isLarge && named ? `Score: ${env}` : panel.title;
    const chart = new Chart(
      {
        title,
        note: panel.note,
        height: isLarge ? 280 : 160,
        fromZero: panel.fromZero,
        together: "compared",
      },
      signal,
    );
    chart.figure.classList.toggle("large", isLarge);
    const shown = this.groups.map((group, look) => ({ group, look })).filter(({ group }) => !env || group.env === env);
    const fetch = () => this.#fetch(chart, panel, shown, signal).catch(() => {});
    whileVisible(chart.figure, signal, (seen) => repeat(fetch, POLL_MS, seen), "100px");
    return { chart, fetch };
  }

  /**
   * @param {Chart} chart
   * @param {import("./panels.js").Panel} panel
   * @param {Array<{group: Group, look: number}>} shown
   * @param {AbortSignal} signal
   */
  async #fetch(chart, { columns: [[name]], scale = 1 }, shown, signal) {
    const axis = /** @type {Axis} */ (this.axis.value);
    const smoothing = Number(this.smoothing.value);
    const query = { y: name, x: axis, points: POINTS };
    /** @type {import("./types.js").Series[][]} */
    const found = await Promise.all(
      shown.map(({ group }) => Promise.all(group.ids.map((id) => getJson(at(id, "series", query), signal)))),
    );
    if (axis !== this.axis.value) return; // too late
    // A line goes as far as all its runs do.
    const common = found.map((runs) => ({ from: Math.max(...runs.map(first)), to: Math.min(...runs.map(final)) }));
    const there = common.filter(({ from, to }) => from < to);
    if (!there.length) return;
    const onto = evenly(Math.min(...there.map(({ from }) => from)), Math.max(...there.map(({ to }) => to)), POINTS);
    const curves = shown.map(({ group, look }, i) => {
      const rows = found[i].map(({ x, y }) =>
        resampled(x, smoothed(y[name].mean, smoothing), onto).map((value) => (value === null ? null : value * scale)),
      );
      const { mean, low, high } = together(rows);
      return { label: group.label, look, y: mean, ...(rows.length > 1 ? { low, high } : {}) };
    });
    chart.figure.classList.toggle("nothing", !curves.some(({ y }) => last(y) !== null));
    chart.show(axis, onto, curves);
  }
}

/** @param {import("./panels.js").Panel} panel */
function isScore({ columns: [[name]] }) {
  return name === "score";
}

/** The first x of a series. @param {import("./types.js").Series} series */
function first({ x }) {
  return x[0] ?? Infinity;
}

/** The last x of a series. @param {import("./types.js").Series} series */
function final({ x }) {
  return x[x.length - 1] ?? -Infinity;
}

/**
 * The runs with their figures; those of a group stand together.
 *
 * @param {Group[]} groups
 * @param {Map<string, RunRow>} rows
 */
function figures(groups, rows) {
  const heads = ["line", "run", "environment", "state", "score", "best", "steps", "training", "PPS", "TPS"];
  const lines = groups.flatMap(({ ids }, look) =>
    ids.flatMap((id) => {
      const row = rows.get(id);
      if (!row) return [];
      const texts = [
        number(row.score),
        number(row.best_score),
        number(row.steps),
        clock(row.seconds),
        number(pps(row)),
        number(tps(row)),
      ];
      return [
        element(
          "tr",
          {},
          element("td", {}, lineKey(look)),
          element("th", { scope: "row" }, element("a", { href: `#/run/${id}` }, row.name)),
          element("td", {}, row.env),
          element("td", {}, badge(row.state)),
          ...texts.map((text) => element("td", { class: "figure" }, text)),
        ),
      ];
    }),
  );
  const head = element(
    "tr",
    {},
    ...heads.map((text, i) => element("th", { scope: "col", class: i > 3 ? "figure" : null }, text)),
  );
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("caption", { class: "hidden" }, "Figures of the runs"),
      element("thead", {}, head),
      element("tbody", {}, ...lines),
    ),
  );
}

/** @param {Comparison} comparison @param {Map<string, RunRow>} rows */
function settings({ settings: differing }, rows) {
  if (!differing.length) return element("p", { class: "note" }, "All settings are the same.");
  const ids = [...rows.keys()];
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, "setting"),
    ...ids.map((id) => element("th", { scope: "col" }, rows.get(id)?.name)),
  );
  const lines = differing.map(({ name, values }) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...ids.map((id) => element("td", {}, plain(values[id])))),
  );
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("caption", { class: "hidden" }, "Settings side by side"),
      element("thead", {}, head),
      element("tbody", {}, ...lines),
    ),
  );
}
