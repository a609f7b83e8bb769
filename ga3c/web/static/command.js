/** Commands to a run, and how their outcome is shown: asked, done, or refused with the run's own sentence. */

import { at, post, told } from "./api.js";
import { element, say } from "./element.js";

/**
 * Asks a run for something. Throws its refusal.
 *
 * @param {string} run
 * @param {Record<string, unknown>} request a request of the control socket, such as `{do: "pause"}`
 * @returns {Promise<string>} what the run says it did
 */
export async function command(run, request) {
  /** @type {import("./types.js").Reply} */
  const reply = await post(at(run, "command"), request);
  if (!reply.ok) throw new Error(reply.text);
  return reply.text;
}

/** The line that tells how a command went. */
export class Outcome {
  constructor() {
    this.element = element("output", { class: "outcome" });
  }

  /**
   * Carries out a command and shows how it went.
   *
   * @param {string} asking what is asked for
   * @param {() => Promise<string>} act
   * @returns {Promise<boolean>} whether it was done
   */
  async follow(asking, act) {
    this.#show("asking", `… ${asking}`);
    try {
      this.#show("done", `✓ ${await act()}`);
      return true;
    } catch (error) {
      this.#show("refused", `✕ ${told(error)}`);
      return false;
    }
  }

  /** @param {"asking" | "done" | "refused"} state @param {string} text */
  #show(state, text) {
    this.element.dataset.state = state;
    say(this.element, text);
  }
}
