/** Where the parts of the engine's drawing are: side by side on a wide page, below one another on a phone. */

/** @typedef {"agents" | "prediction queue" | "predictors" | "training queue" | "trainers" | "model"} Place */
/** @typedef {{x: number, y: number, width: number, height: number}} Box */

/**
 * @typedef {{points: Array<[number, number]>, text: [number, number], anchor?: "start" | "middle", turned?: boolean,
 *   learns?: boolean}} Way
 * An arrow between two boxes, and where its text stands; `learns` tells the ways of training from those of acting.
 *
 * @typedef {{name: string, width: number, height: number, boxes: Record<Place, Box>, ways: Record<string, Way>}} Layout
 */

/** @param {number} x @param {number} y @param {number} width @param {number} height @returns {Box} */
const box = (x, y, width, height) => ({ x, y, width, height });

/** @type {Layout} */
const ACROSS = {
  name: "across",
  width: 1040,
  height: 366,
  boxes: {
    agents: box(2, 50, 200, 314),
    "prediction queue": box(280, 50, 196, 136),
    "training queue": box(280, 228, 196, 136),
    predictors: box(562, 50, 222, 136),
    trainers: box(562, 228, 222, 136),
    model: box(864, 50, 174, 314),
  },
  ways: {
    requests: {
      points: [
        [202, 112],
        [278, 112],
      ],
      text: [240, 102],
    },
    batches: {
      points: [
        [476, 112],
        [560, 112],
      ],
      text: [518, 102],
    },
    predictions: {
      points: [
        [784, 100],
        [862, 100],
      ],
      text: [823, 90],
    },
    weights: {
      points: [
        [864, 142],
        [786, 142],
      ],
      text: [825, 158],
    },
    actions: {
      points: [
        [672, 50],
        [672, 20],
        [102, 20],
        [102, 48],
      ],
      text: [387, 13],
    },
    rollouts: {
      points: [
        [672, 186],
        [672, 207],
        [378, 207],
        [378, 226],
      ],
      text: [525, 201],
      learns: true,
    },
    "updates' rollouts": {
      points: [
        [476, 290],
        [560, 290],
      ],
      text: [518, 280],
      learns: true,
    },
    updates: {
      points: [
        [784, 290],
        [862, 290],
      ],
      text: [823, 280],
      learns: true,
    },
  },
};

/** @type {Layout} */
const DOWN = {
  name: "down",
  width: 358,
  height: 922,
  boxes: {
    agents: box(2, 2, 310, 122),
    "prediction queue": box(2, 164, 310, 106),
    predictors: box(2, 310, 310, 124),
    "training queue": box(2, 474, 310, 106),
    trainers: box(2, 620, 310, 124),
    model: box(2, 784, 310, 136),
  },
  ways: {
    requests: {
      points: [
        [155, 124],
        [155, 162],
      ],
      text: [166, 148],
      anchor: "start",
    },
    batches: {
      points: [
        [155, 270],
        [155, 308],
      ],
      text: [166, 294],
      anchor: "start",
    },
    actions: {
      points: [
        [312, 340],
        [334, 340],
        [334, 60],
        [314, 60],
      ],
      text: [350, 200],
      turned: true,
    },
    rollouts: {
      points: [
        [155, 434],
        [155, 472],
      ],
      text: [166, 458],
      anchor: "start",
      learns: true,
    },
    "updates' rollouts": {
      points: [
        [155, 580],
        [155, 618],
      ],
      text: [166, 604],
      anchor: "start",
      learns: true,
    },
    updates: {
      points: [
        [155, 744],
        [155, 782],
      ],
      text: [166, 768],
      anchor: "start",
      learns: true,
    },
    weights: {
      points: [
        [312, 850],
        [334, 850],
        [334, 400],
        [314, 400],
      ],
      text: [350, 625],
      turned: true,
    },
  },
};

export const LAYOUTS = [ACROSS, DOWN];
