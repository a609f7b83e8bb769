/** The events of a run: starts and stops, restarts, warnings, what the tuner and people changed. Newest first. */

import { at, getJson } from "./api.js";
import { element, section } from "./element.js";
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
  /** @type {Set<string>} */
  const known = new Set();
  /** @type {Set<string>} */
  const kinds = new Set();
  /** @type {number | null} */
  let next = null;

  /** @param {RunEvent} event */
  function add(event) {
    const key = JSON.stringify([event.time, event.kind, event.text]);
    if (!event.text || known.has(key)) return;
    known.add(key);
    const made = row(event, key);
    made.hidden = kind.value !== "" && kind.value !== event.kind;
    // What was missed comes after what happened since.
    const older = [...rows.children].find(
      (one) => one instanceof HTMLElement && (one.dataset.time ?? "") <= event.time,
    );
    rows.insertBefore(made, older ?? null);
    if (rows.children.length > MOST) forget(rows.lastElementChild);
    if (!kinds.has(event.kind)) kind.append(element("option", {}, event.kind));
    kinds.add(event.kind);
  }

  /** @param {Element | null} oldest */
  function forget(oldest) {
    if (oldest instanceof HTMLElement) known.delete(oldest.dataset.key ?? "");
    oldest?.remove();
  }

  /** The newest events at first, and later what came since. */
  async function load() {
    try {
      for (let isFull = true; isFull && !signal.aborted;) {
        const answer = await getJson(at(run.id, "events", { after: next, most: PAGE }), signal);
        answer.events.forEach(add);
        isFull = next !== null && answer.events.length === PAGE;
        next = answer.next;
      }
    } catch {
      // The page says that the connection is lost, and comes back.
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
    element("div", { class: "toolbar" }, kind),
    element("div", { class: "scroll tall", tabindex: 0, role: "group", "aria-label": "Events" }, table),
  );
}

/** @param {RunEvent} event @param {string} key */
function row({ time, seconds, steps, kind, text }, key) {
  const cells = [
    element("td", { class: "figure" }, clock(seconds)),
    element("td", { class: WARNED.has(kind) ? "warned" : null }, kind),
    element("td", { class: "text" }, text),
    element("td", { class: "figure" }, number(steps)),
    element("td", { class: "soft" }, moment(time)),
  ];
  return element("tr", { "data-kind": kind, "data-time": time, "data-key": key }, ...cells);
}
