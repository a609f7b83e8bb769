/** The binary answer of the wall: the places of the gallery that changed, each with its picture. */

/**
 * @typedef {{place: number, agent: number, sequence: bigint, score: number, length: number, picture: Blob | null}}
 *   Place
 */

const HEADER = 40; // bytes of "<HHIqdqII": place, kind, agent, sequence, score, length, bytes, 0
const PNG = 1;

/** @param {ArrayBuffer} bytes @returns {Place[]} */
export function read(bytes) {
  const view = new DataView(bytes);
  /** @type {Place[]} */
  const places = [];
  for (let at = 0; at + HEADER <= bytes.byteLength;) {
    const size = view.getUint32(at + 32, true);
    const picture =
      view.getUint16(at + 2, true) === PNG
        ? new Blob([bytes.slice(at + HEADER, at + HEADER + size)], { type: "image/png" })
        : null;
    places.push({
      place: view.getUint16(at, true),
      agent: view.getUint32(at + 4, true),
      sequence: view.getBigInt64(at + 8, true),
      score: view.getFloat64(at + 16, true),
      length: Number(view.getBigInt64(at + 24, true)),
      picture,
    });
    at += HEADER + size;
  }
  return places;
}
