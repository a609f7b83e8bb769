/** What limits a run and what to change, in words. */

import { announce } from "./announcer.js";
import { element, fill } from "./element.js";

/** The paragraph. @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
export function limit(run, signal) {
  const place = element("p", { class: "limit" });
  let shown = "";
  let stage = run.details.bottleneck?.stage;

  function show() {
    const found = run.details.bottleneck;
    const verb = run.isOver ? "was limited" : "is limited";
    const key = JSON.stringify([found, verb]);
    if (key === shown) return;
    shown = key;
    place.classList.toggle("found", !!found);
    if (!found)
      return fill(
        place,
        run.isOver ? "No stage stood out as the limit of this run." : "No stage stands out as the limit yet.",
      );
    const head = `The run ${verb} by ${found.stage === "agents" ? "too few agents" : `the ${found.stage}`}.`;
    const what = `${found.what.slice(0, 1).toUpperCase()}${found.what.slice(1)}`;
    fill(
      place,
      element("b", {}, head),
      ` ${what}. `,
      element("b", {}, "What to change: "),
      ...flags(`${found.advice}.`),
    );
    // Its shares change each second; only another stage is news.
    if (found.stage !== stage && !run.isOver) announce(head);
    stage = found.stage;
  }

  run.snapshots.on(show, signal);
  run.changed.on(show, signal);
  show();
  return place;
}

/** The parts of a text, with flags as code, which keeps each on one line. @param {string} text */
function flags(text) {
  return text.split(/(--[a-z][a-z-]*)/).map((part) => (part.startsWith("--") ? element("code", {}, part) : part));
}
