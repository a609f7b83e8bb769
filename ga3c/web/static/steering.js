/** Steering: numbers of agents and threads, rates, the tuner, and pause, checkpoint and stop. The run confirms each. */

import { announce } from "./announcer.js";
import { Outcome, command } from "./command.js";
import { Control } from "./control.js";
import { button, element, say, section } from "./element.js";
import { levels, logarithmic } from "./scale.js";
import { number, plain } from "./text.js";

/** @typedef {import("./watched.js").Watched} Watched */
/** @typedef {import("./types.js").Live} Live */

const NUMBERS = /** @type {const} */ ([
  ["agents", "Agents"],
  ["predictors", "Predictors"],
  ["trainers", "Trainers"],
]);
const RATES = /** @type {const} */ ([
  ["learning_rate", "Learning rate"],
  ["entropy_weight", "Entropy weight"],
]);
const RESUMABLE = new Set(["stopped", "killed", "failed"]);
const SCALES = { learning_rate: logarithmic(1e-6, 1e-2), entropy_weight: logarithmic(1e-5, 1) };

/** The section. @param {Watched} run @param {AbortSignal} signal */
export function steering(run, signal) {
  const note = element("p", { class: "note" });
  const resume = element("pre", { tabindex: 0, role: "region", "aria-label": "The command that goes on with the run" });
  const outcome = new Outcome();
  const numbers = NUMBERS.map(([name, label]) => /** @type {const} */ ([name, new Control(run.id, name, label)]));
  const rates = RATES.map(([name, label]) => /** @type {const} */ ([name, new Control(run.id, name, label)]));
  const tuning = element("input", { type: "checkbox", role: "switch", id: "control-tuning" });
  const schedule = button("Follow the schedules again", () =>
    ask("asking for the schedules", { do: "set", schedule: true }),
  );
  const buttons = commands(run, ask);
  const body = element(
    "div",
    { class: "controls" },
    buttons.element,
    outcome.element,
    element("div", { class: "switch" }, tuning, element("label", { for: tuning.id }, "The tuner adjusts the numbers")),
    ...numbers.map(([, control]) => control.element),
    ...rates.map(([, control]) => control.element),
    schedule,
  );

  /** @param {string} asking @param {Record<string, unknown>} request */
  function ask(asking, request) {
    return outcome.follow(asking, () => command(run.id, request));
  }

  function show() {
    const { live } = run;
    const able = live !== null && !run.readonly;
    say(
      note,
      run.readonly
        ? "This page only shows: it was started with --web-readonly."
        : live
          ? ""
          : "Nothing can be changed now: no process of this run listens.",
    );
    resume.hidden = !RESUMABLE.has(run.details.state);
    say(resume, `ga3c resume ${run.details.folder}`);
    body.hidden = !able;
    if (!able) buttons.close();
    if (!live) return;
    tuning.checked = live.tuning;
    tuning.disabled = live.space === null;
    buttons.show(live);
    showNumbers(numbers, live);
    showRates(rates, run);
    schedule.hidden = live.held.learning_rate === null && live.held.entropy_weight === null;
  }

  tuning.addEventListener("change", async () => {
    const on = tuning.checked;
    if (!(await ask(`asking for the tuner to be ${on ? "on" : "off"}`, { do: "set", tuning: on ? "on" : "off" })))
      tuning.checked = !on;
  });
  run.changed.on(show, signal);
  run.snapshots.on(() => showRates(rates, run), signal);
  show();
  return section("steering", "Steering", note, resume, body);
}

/** @param {ReadonlyArray<readonly [typeof NUMBERS[number][0], Control]>} controls @param {Live} live */
function showNumbers(controls, live) {
  for (const [name, control] of controls) {
    const known = live.space?.[name] ?? [];
    const at = `${plain(live.setting[name])} at work`;
    const note =
      known.length > 1 ? `${at}, ${known[0]} to ${known[known.length - 1]} possible` : `${at}, fixed in this run`;
    control.show(live.setting[name], known.length > 1 ? levels(known) : null, note);
  }
}

/**
 * A rate by its schedule changes all the time, so the last snapshot knows it best.
 *
 * @param {ReadonlyArray<readonly [typeof RATES[number][0], Control]>} controls
 * @param {Watched} run
 */
function showRates(controls, { live, snapshot }) {
  if (!live) return;
  for (const [name, control] of controls) {
    const held = live.held[name];
    const rate = held ?? snapshot?.[name] ?? live.rates[name];
    control.show(rate, SCALES[name], held === null ? `${number(rate)} now, by its schedule` : `held at ${plain(held)}`);
  }
}

/**
 * Checkpoint, pause or resume, and stop, which asks first.
 *
 * @param {Watched} run
 * @param {(asking: string, request: Record<string, unknown>) => Promise<boolean>} ask
 */
function commands(run, ask) {
  const checkpoint = button("Checkpoint now", () => ask("asking for a checkpoint", { do: "checkpoint" }));
  const pause = button("Pause", () =>
    run.live?.paused ? ask("asking to go on", { do: "resume" }) : ask("asking for a pause", { do: "pause" }),
  );
  const question = confirmation(run, () => ask("asking to stop", { do: "stop" }));
  const stop = button("Stop…", () => question.showModal(), { class: "danger" });
  return {
    element: element("div", { class: "buttons" }, checkpoint, pause, stop, question),
    close() {
      question.close(); // a hidden question would keep the rest of the page from the keyboard
    },
    /** @param {Live} live */
    show(live) {
      say(pause, live.paused ? "Resume" : "Pause");
    },
  };
}

/** @param {Watched} run @param {() => Promise<boolean>} stop */
function confirmation(run, stop) {
  const question = element("dialog", { "aria-labelledby": "stop-title" });
  const yes = button(
    "Stop the run",
    () => {
      question.close();
      announce("Asking the run to stop.");
      stop();
    },
    { class: "danger" },
  );
  const no = button("Let it run", () => question.close());
  question.append(
    element("h3", { id: "stop-title" }, `Stop ${run.details.name}?`),
    element(
      "p",
      {},
      "The run writes a checkpoint and ends. ",
      element("code", {}, "ga3c resume"),
      " goes on from there.",
    ),
    element("div", { class: "buttons" }, no, yes), // the first gets the focus
  );
  return question;
}
