/** The events of a run: starts and stops, restarts, warnings, what the tuner and people changed. Newest first. */

import { at, getJson } from "./api.js";
import { button, element, section } from "./element.js";
import { clock, moment, number } from "./text.js";

/** @typedef {import("./types.js").RunEvent} RunEvent */

const PAGE = 200;
const MOST = 1000; // rows that are kept
const WARNED = new Set(["warning", "restart"]);

/** The section. @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
export function happenings(run, signal) {
  const kind = element("select", { "aria-label": "Kind of events" }, element("option", { value: "" }, "all kinds"));
  const rows = element("tbody");
  const heads = ["training", "kind", "what happened", "steps", "time"].map((text) =>
    element("th", { scope: "col" }, text),
  );
  const table = element(
    "table",
    { class: "events" },
    element("caption", { class: "hidden" }, "Events, newest first"),
    element("thead", {}, element("tr", {}, ...heads)),
    rows,
  );
  const more = button("Load more", () => load(), { hidden: true });
  /** @type {Set<string>} */
  const known = new Set();
  /** @type {Set<string>} */
  const kinds = new Set();
  let next = 0;

  /** @param {RunEvent} event */
  function add(event) {
    const key = JSON.stringify([event.time, event.kind, event.text]);
    if (!event.text || known.has(key)) return;
    known.add(key);
    const made = row(event);
    made.hidden = kind.value !== "" && kind.value !== event.kind;
    rows.prepend(made);
    if (rows.children.length > MOST) rows.lastElementChild?.remove();
    if (!kinds.has(event.kind)) kind.append(element("option", {}, event.kind));
    kinds.add(event.kind);
  }

  async function load() {
    try {
      const answer = await getJson(at(run.id, "events", { after: next, most: PAGE }), signal);
      answer.events.forEach(add);
      next = answer.next;
      more.hidden = answer.events.length < PAGE;
    } catch {
      more.hidden = false;
    }
  }

  kind.addEventListener("change", () => {
    for (const one of /** @type {HTMLCollectionOf<HTMLTableRowElement>} */ (rows.children))
      one.hidden = kind.value !== "" && one.dataset.kind !== kind.value;
  });
  run.events.on(add, signal);
  run.missed.on(load, signal);
  load();
  return section(
    "events",
    "Events",
    element("div", { class: "toolbar" }, kind, more),
    element("div", { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "Events" }, table),
  );
}

/** @param {RunEvent} event */
function row({ time, seconds, steps, kind, text }) {
  const cells = [
    element("td", { class: "figure" }, seconds === null ? "" : clock(seconds)),
    element("td", { class: WARNED.has(kind) ? "warned" : null }, kind),
    element("td", { class: "text" }, text),
    element("td", { class: "figure" }, steps === null ? "" : number(steps)),
    element("td", { class: "soft" }, moment(time)),
  ];
  return element("tr", { "data-kind": kind }, ...cells);
}
