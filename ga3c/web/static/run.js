/** The page of one run. */

import { announce } from "./announcer.js";
import { at, getJson } from "./api.js";
import { Curves } from "./curves.js";
import { element, fill } from "./element.js";
import { engine } from "./engine.js";
import { files } from "./files.js";
import { happenings } from "./happenings.js";
import { header } from "./header.js";
import { logs } from "./logs.js";
import { settings } from "./settings.js";
import { isOver, sentence } from "./states.js";
import { steering } from "./steering.js";
import { Stream } from "./stream.js";
import { Timeline } from "./timeline.js";
import { times } from "./times.js";
import { tuner } from "./tuner.js";
import { wall } from "./wall.js";
import { Watched } from "./watched.js";

/** @typedef {import("./app.js").Place} Place */

const ASK_MS = 10_000; // between two questions to a run that trains and did not say what it is
const SETTLE_MS = 1500; // from the end of a run's process until its record says how it ended

/** @param {Place} place @param {string} id @param {AbortSignal} signal */
export async function runPage(place, id, signal) {
  const [details, { readonly }] = await Promise.all([getJson(at(id), signal), getJson("/api/runs", signal)]);
  const run = new Watched(details, readonly);
  place.title(`${details.name} (${details.env})`);
  const curves = new Curves(run, signal);
  const sections = [
    engine(run, signal),
    steering(run, signal),
    curves.first,
    ...wall(run, signal),
    curves.others,
    times(run, signal, new Timeline(run, signal).element),
    tuner(run, signal),
    happenings(run, signal),
    logs(run, signal),
    settings(run),
    files(run, signal),
  ];
  fill(place.main, header(run, signal), contents(id, sections), element("div", { class: "sections" }, ...sections));
  follow(run, place, signal);
}

/** Links to the sections. @param {string} id @param {HTMLElement[]} sections */
function contents(id, sections) {
  const links = sections
    .filter((one) => !one.hidden)
    .map((one) => {
      const title = one.querySelector("h2")?.textContent ?? "";
      return element("li", {}, element("a", { href: `#/run/${id}/${one.dataset.section}` }, title));
    });
  return element("nav", { class: "contents", "aria-label": "Sections of this page" }, element("ul", {}, ...links));
}

/**
 * A lost connection after the end of a run: `ga3c train --web` closes its control room with the run.
 *
 * @param {import("./stream.js").Connection} connection
 * @returns {import("./stream.js").Connection}
 */
function closed(connection) {
  return connection.state === "lost"
    ? { state: "lost", text: "the control room has closed: ga3c web opens it again" }
    : connection;
}

/**
 * Keeps what is known of the run up to date, and says when it ends or goes on.
 *
 * @param {Watched} run
 * @param {Place} place
 * @param {AbortSignal} signal
 */
function follow(run, place, signal) {
  let { state } = run.details;
  let isFirst = true;
  let asked = Date.now();

  async function catchUp() {
    try {
      await run.refresh(signal);
      run.missed.tell();
    } catch {
      // The page says that the connection is lost; the next one asks again.
    }
  }

  run.changed.on(() => {
    if (run.details.state === state) return;
    const wasOver = isOver(state);
    state = run.details.state;
    announce(wasOver && state === "running" ? "The run goes on." : sentence(state));
    if (wasOver !== run.isOver) catchUp();
  }, signal);

  new Stream(
    [run.id],
    {
      connection: (connection) => place.connection(run.isOver ? closed(connection) : connection),
      opened: () => {
        if (!isFirst) catchUp();
        isFirst = false;
      },
      runs: (rows) => {
        const row = rows.find((one) => one.id === run.id);
        if (row) run.takeRow(row);
      },
      snapshot: (message) => {
        if (message.run !== run.id) return;
        run.takeSnapshot(message.snapshot, message.bottleneck);
        if (run.live || Date.now() - asked < ASK_MS) return;
        asked = Date.now();
        run.refresh(signal).catch(() => {}); // asked again with a later snapshot
      },
      event: (message) => message.run === run.id && run.events.tell(message.event),
      state: (message) => {
        if (message.run !== run.id) return;
        const goesOn = run.live === null;
        run.takeLive(message.state);
        if (goesOn) catchUp();
      },
      gone: (message) => {
        if (message.run !== run.id) return;
        run.takeLive(null);
        setTimeout(catchUp, SETTLE_MS);
      },
    },
    signal,
  );
}
