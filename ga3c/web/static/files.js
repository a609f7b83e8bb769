/** What a run leaves: its report, its model card and its videos. */

import { at, getText, post, told } from "./api.js";
import { button, element, fill, say, section } from "./element.js";

const POLL_MS = 3000;

/** The section. @param {import("./watched.js").Watched} run @param {AbortSignal} signal */
export function files(run, signal) {
  const report = element("a", { href: at(run.id, "report"), target: "_blank", rel: "noopener" }, "Report as one page");
  const card = element("pre", {
    class: "tall",
    tabindex: 0,
    role: "region",
    hidden: true,
    "aria-label": "The model card",
  });
  const cardButton = button(
    "Model card",
    async () => {
      card.hidden = !card.hidden;
      cardButton.setAttribute("aria-expanded", `${!card.hidden}`);
      if (card.hidden) return;
      try {
        card.textContent = await getText(at(run.id, "card"), signal);
      } catch (error) {
        card.textContent = told(error);
      }
    },
    { "aria-expanded": "false" },
  );
  const videos = element("div", { class: "videos" });
  const outcome = element("span", { role: "status", class: "note" });
  const record = button("Record a video of an episode", () => film(run, outcome, signal));
  let shown = "";

  function show() {
    const { files: there } = run.details;
    cardButton.hidden = !there.card;
    record.hidden = run.readonly;
    if (there.videos.join("\n") === shown) return;
    shown = there.videos.join("\n");
    fill(videos, ...there.videos.map((name) => video(run.id, name)));
  }

  run.changed.on(show, signal);
  show();
  return section(
    "files",
    "Report, card and videos",
    element("div", { class: "toolbar" }, report, cardButton, record, outcome),
    card,
    videos,
  );
}

/** @param {string} run @param {string} name */
function video(run, name) {
  const player = element("video", {
    controls: true,
    preload: "metadata",
    src: at(run, `video/${encodeURIComponent(name)}`),
  });
  return element("figure", {}, player, element("figcaption", {}, name));
}

/**
 * Asks for a video and waits until it is there.
 *
 * @param {import("./watched.js").Watched} run
 * @param {HTMLElement} outcome
 * @param {AbortSignal} signal
 */
async function film(run, outcome, signal) {
  const before = run.details.files.videos.length;
  say(outcome, "Playing an episode…");
  try {
    await post(at(run.id, "video"), { episodes: 1 });
    do {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      await run.refresh(signal);
    } while (run.details.files.recording);
    const isThere = run.details.files.videos.length > before;
    say(outcome, isThere ? "The video is below." : run.details.files.failure || "There is no video.");
  } catch (error) {
    if (!signal.aborted) say(outcome, told(error));
  }
}
