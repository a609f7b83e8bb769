/** One run as the page follows it: what is known of it, and topics that tell what changes. */

import { at, getJson } from "./api.js";
import { isOver } from "./states.js";
import { Topic } from "./topic.js";

/** @typedef {import("./types.js").RunDetails} RunDetails */
/** @typedef {import("./types.js").Snapshot} Snapshot */

export class Watched {
  /** Told when a row of the list, the details or what the run says of itself changed. @type {Topic<void>} */
  changed = new Topic();
  /** @type {Topic<Snapshot>} */
  snapshots = new Topic();
  /** @type {Topic<import("./types.js").RunEvent>} */
  events = new Topic();
  /**
   * Told after a connection was made again, or the run goes on after its end: records must be fetched again.
   *
   * @type {Topic<void>}
   */
  missed = new Topic();
  /** The last snapshot of a live run. @type {Snapshot | null} */
  snapshot = null;

  /**
   * @param {RunDetails} details
   * @param {boolean} readonly whether the server refuses commands
   */
  constructor(details, readonly) {
    this.details = details;
    this.readonly = readonly;
  }

  get id() {
    return this.details.id;
  }

  get live() {
    return this.details.live;
  }

  get isOver() {
    return isOver(this.details.state);
  }

  /** A setting that is a number. @param {string} name @param {number} otherwise */
  setting(name, otherwise) {
    const value = this.details.all_settings[name];
    return typeof value === "number" ? value : otherwise;
  }

  /** Fetches everything about the run again. @param {AbortSignal} signal */
  async refresh(signal) {
    this.details = await getJson(at(this.id), signal);
    if (this.isOver) this.snapshot = null;
    this.changed.tell();
  }

  /** @param {import("./types.js").RunRow} row */
  takeRow(row) {
    Object.assign(this.details, row);
    this.changed.tell();
  }

  /** @param {import("./types.js").Live | null} live */
  takeLive(live) {
    this.details.live = live;
    if (!live) this.snapshot = null;
    this.changed.tell();
  }

  /** @param {Snapshot} snapshot @param {import("./types.js").Bottleneck | null} bottleneck */
  takeSnapshot(snapshot, bottleneck) {
    this.snapshot = snapshot;
    this.details.bottleneck = bottleneck;
    this.snapshots.tell(snapshot);
  }
}
