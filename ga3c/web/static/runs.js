/** The list of runs: their state, scores and settings, live. Several can be chosen and compared. */

import { announce } from "./announcer.js";
import { getJson } from "./api.js";
import { button, element, fill, say } from "./element.js";
import { badge, pps, sentence, tps } from "./states.js";
import { Stream } from "./stream.js";
import { telling } from "./telling.js";
import { ago, clock, number, percent } from "./text.js";

/** @typedef {import("./types.js").RunRow} RunRow */
/** @typedef {import("./app.js").Place} Place */

const MOST_COMPARED = 12;

/**
 * @typedef {{title: string, text: (row: RunRow) => string, by: (row: RunRow) => string | number, figure?: boolean}}
 *   Column
 */

/** @type {Column[]} */
const COLUMNS = [
  { title: "environment", text: (row) => row.env, by: (row) => row.env },
  { title: "done", text: (row) => percent(row.progress), by: (row) => row.progress ?? -1, figure: true },
  { title: "score", text: (row) => number(row.score), by: (row) => row.score ?? -Infinity, figure: true },
  { title: "best", text: (row) => number(row.best_score), by: (row) => row.best_score ?? -Infinity, figure: true },
  { title: "steps", text: (row) => number(row.steps), by: (row) => row.steps ?? -1, figure: true },
  { title: "training", text: (row) => clock(row.seconds), by: (row) => row.seconds ?? -1, figure: true },
  { title: "PPS", text: (row) => number(pps(row)), by: (row) => pps(row) ?? -1, figure: true },
  { title: "TPS", text: (row) => number(tps(row)), by: (row) => tps(row) ?? -1, figure: true },
  {
    title: "changed",
    text: (row) => ago(row.updated),
    by: (row) => new Date(row.updated ?? 0).getTime(),
    figure: true,
  },
];
const BY_NAME = {
  title: "run",
  text: (/** @type {RunRow} */ row) => row.name,
  by: (/** @type {RunRow} */ row) => row.name,
};

/** One line of the list. */
class Row {
  /** @param {RunRow} row @param {() => void} chosen */
  constructor(row, chosen) {
    this.row = row;
    this.check = element("input", { type: "checkbox", "aria-label": `Choose ${row.name} for a comparison` });
    this.check.addEventListener("change", chosen);
    this.state = element("td", { "data-title": "state" });
    this.cells = COLUMNS.map(({ title, figure }) =>
      element("td", { class: figure ? "figure" : title, "data-title": title }),
    );
    const name = element(
      "th",
      { scope: "row" },
      element("a", { href: `#/run/${row.id}` }, row.name),
      element("small", {}, row.folder),
    );
    this.settings = element("td", { class: "settings" });
    const check = element("td", { class: "check" }, this.check);
    this.element = element("tr", {}, check, name, this.state, ...this.cells, this.settings);
    this.show(row);
  }

  /** @param {RunRow} row */
  show(row) {
    if (!this.state.hasChildNodes() || row.state !== this.row.state) fill(this.state, badge(row.state));
    this.row = row;
    COLUMNS.forEach(({ text }, i) => say(this.cells[i], text(row)));
  }

  /** @param {string} wanted */
  fits(wanted) {
    const { name, env, state, folder } = this.row;
    return `${name} ${env} ${state} ${folder} ${this.settings.textContent}`.toLowerCase().includes(wanted);
  }
}

class List {
  /** @type {Map<string, Row>} */
  rows = new Map();
  /** @type {{column: typeof COLUMNS[number] | typeof BY_NAME, down: boolean}} */
  order = { column: COLUMNS[8], down: true };

  constructor() {
    this.body = element("tbody");
    this.search = element("input", { type: "search", placeholder: "find runs", "aria-label": "Find runs" });
    this.search.addEventListener("input", () => this.arrange());
    this.compare = button("Compare", () => (location.hash = `#/compare/${this.chosen().join(",")}`), {
      disabled: true,
    });
    this.note = element("span", { class: "note" });
    this.none = element("p", { class: "note" });
    this.heads = [BY_NAME, null, ...COLUMNS].map((column) => this.#head(column));
    const settings = element("th", { scope: "col" }, "settings that differ");
    const head = element("tr", {}, element("td", { class: "check" }), ...this.heads, settings);
    const table = element(
      "table",
      { class: "runs" },
      element("caption", { class: "hidden" }, "Runs"),
      element("thead", {}, head),
      this.body,
    );
    this.elements = [
      element("div", { class: "toolbar" }, this.search, this.compare, this.note),
      element("div", { class: "scroll" }, table),
      this.none,
    ];
  }

  /** @param {Column | null} column */
  #head(column) {
    const made = element("th", { scope: "col", class: column?.figure ? "figure" : null });
    if (!column) made.append("state");
    else made.append(button(column.title, () => this.sort(column)));
    return made;
  }

  /** @param {Column} column */
  sort(column) {
    this.order = { column, down: this.order.column === column ? !this.order.down : column.figure === true };
    this.arrange();
  }

  /** @param {RunRow[]} rows */
  take(rows) {
    let isNew = false;
    for (const row of rows) {
      const known = this.rows.get(row.id);
      if (known && known.row.state !== row.state) announce(`${row.name}: ${sentence(row.state)}`);
      if (known) known.show(row);
      else this.rows.set(row.id, new Row(row, () => this.count()));
      isNew ||= !known;
    }
    if (!isNew) return;
    const texts = telling([...this.rows.values()].map(({ row }) => row));
    for (const [id, row] of this.rows) say(row.settings, texts.get(id) ?? "");
    this.arrange();
  }

  /** Sorts and filters. While figures change, rows stay where they are, so that nothing jumps under the pointer. */
  arrange() {
    const { column, down } = this.order;
    const wanted = this.search.value.trim().toLowerCase();
    const sorted = [...this.rows.values()].sort((a, b) => {
      const [x, y] = [column.by(a.row), column.by(b.row)];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    for (const row of sorted) row.element.hidden = !row.fits(wanted);
    fill(this.body, ...sorted.map((row) => row.element));
    [BY_NAME, null, ...COLUMNS].forEach((one, i) => {
      if (one === column) this.heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
      else this.heads[i].removeAttribute("aria-sort");
    });
    say(this.none, this.rows.size ? "" : "There are no runs here yet. ga3c train starts one.");
    this.count();
  }

  chosen() {
    return [...this.rows.values()].filter((row) => row.check.checked).map((row) => row.row.id);
  }

  count() {
    const number = this.chosen().length;
    this.compare.disabled = number < 2 || number > MOST_COMPARED;
    say(
      this.note,
      number > MOST_COMPARED
        ? `At most ${MOST_COMPARED} runs can be compared.`
        : number
          ? `${number} chosen`
          : "Choose two or more runs to compare them.",
    );
  }
}

/** @param {Place} place @param {AbortSignal} signal */
export async function runsPage(place, signal) {
  const list = new List();
  place.title("");
  list.take((await getJson("/api/runs", signal)).runs);
  list.arrange();
  fill(
    place.main,
    element("h1", { tabindex: -1 }, "Runs"),
    element("section", { class: "panel", "aria-label": "Runs" }, ...list.elements),
  );
  let isFirst = true;
  new Stream(
    [],
    {
      connection: place.connection,
      opened: async () => {
        // Rows that changed before the stream was there are in the list already, except after a lost connection.
        if (!isFirst) list.take((await getJson("/api/runs", signal)).runs);
        isFirst = false;
      },
      runs: (rows) => list.take(rows),
    },
    signal,
  );
}
