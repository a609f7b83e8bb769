/** Agents at play: a wall of games in colour. It asks for pictures only while it is on the screen. */

import { at, getBytes } from "./api.js";
import { element, fill, say, section } from "./element.js";
import { Looking } from "./look.js";
import { read } from "./places.js";
import { number } from "./text.js";
import { repeat, whileVisible } from "./visible.js";

const POLL_MS = 250;
const QUIET_MS = 2000; // between questions after one that failed

/** One game of the wall. */
class Game {
  /** The agent that plays it. */
  agent = -1;

  /** @param {(agent: number) => void} choose */
  constructor(choose) {
    this.canvas = element("canvas", { width: 160, height: 210, "aria-hidden": "true" });
    this.agentText = element("span", {});
    this.score = element("b", {});
    const hidden = (/** @type {string} */ text) => element("span", { class: "hidden" }, text);
    const caption = element(
      "span",
      { class: "caption" },
      hidden("look at agent "),
      this.agentText,
      hidden(" score "),
      this.score,
    );
    this.button = element("button", { type: "button", class: "game" }, this.canvas, caption);
    this.button.addEventListener("click", () => choose(this.agent));
  }

  /** @param {import("./places.js").Place} place */
  async show({ agent, score, picture }) {
    this.agent = agent;
    say(this.agentText, `#${agent}`);
    say(this.score, number(score));
    if (!picture) return;
    const bitmap = await createImageBitmap(picture);
    if (this.canvas.width !== bitmap.width || this.canvas.height !== bitmap.height) {
      [this.canvas.width, this.canvas.height] = [bitmap.width, bitmap.height];
    }
    this.canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
    bitmap.close();
  }
}

/**
 * The sections of the wall and of a closer look.
 *
 * @param {import("./watched.js").Watched} run
 * @param {AbortSignal} signal
 */
export function wall(run, signal) {
  /** @type {Map<number, Game>} */
  const games = new Map();
  const grid = element("div", { class: "games" });
  const note = element("p", { class: "note" });
  const looking = new Looking(run, mark, signal);
  let since = 0n;

  /** @param {number | null} agent */
  function mark(agent) {
    for (const game of games.values()) game.button.setAttribute("aria-pressed", `${game.agent === agent}`);
  }

  /** @param {import("./places.js").Place} place */
  function show(place) {
    let game = games.get(place.place);
    if (!game) {
      game = new Game((agent) => looking.open(agent));
      game.agent = place.agent;
      games.set(place.place, game);
      const order = [...games.values()].sort((a, b) => a.agent - b.agent);
      fill(grid, ...order.map(({ button }) => button));
    }
    if (place.sequence > since) since = place.sequence;
    return game.show(place);
  }

  async function poll(/** @type {AbortSignal} */ seen) {
    if (!run.live?.gallery || run.live.paused) return;
    try {
      const bytes = await getBytes(at(run.id, "wall", { since: `${since}` }), seen);
      if (bytes) await Promise.all(read(bytes).map(show));
    } catch {
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    }
  }

  function describe() {
    say(note, words(run));
    grid.hidden = !run.live?.gallery && !games.size;
    place.classList.toggle("plain", grid.hidden);
    grid.classList.toggle("still", !run.live || run.live.paused);
    looking.enable(run.live !== null, (run.live?.setting.agents ?? 1) - 1);
  }

  const place = section("wall", "Agents at play", note, grid, looking.chooser);
  run.changed.on(describe, signal);
  // A run that goes on after its end counts its pictures from the start.
  run.missed.on(() => (since = 0n), signal);
  describe();
  whileVisible(grid, signal, (seen) => repeat(() => poll(seen), POLL_MS, seen));
  return [place, looking.panel];
}

/** @param {import("./watched.js").Watched} run */
function words({ live }) {
  if (!live) return "Nobody plays: the run is over. Its videos are below.";
  if (!live.gallery) return "This environment has no pictures. Choose an agent to see what it observes and does.";
  return live.paused ? "The run is paused." : "Choose a game to see what its agent observes and does.";
}
