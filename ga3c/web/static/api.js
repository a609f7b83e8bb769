/** Requests to the server. */

/** The server's own sentence about a request that failed. */
export class Refused extends Error {
  /**
   * @param {string} text
   * @param {number} status 0 if there was no answer
   */
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Refused("The server cannot be reached.", 0);
  }
  if (!response.ok) throw new Refused(await reason(response), response.status);
  return response;
}

/** @param {Response} response */
async function reason(response) {
  const text = await response.text();
  try {
    return `${JSON.parse(text).error}`;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function getJson(path, signal) {
  return (await ask(path, { signal })).json();
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
export async function getText(path, signal) {
  return (await ask(path, { signal })).text();
}

/**
 * The bytes of an answer, or null if the server has nothing new.
 *
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
export async function getBytes(path, signal) {
  const response = await ask(path, { signal });
  return response.status === 204 ? null : response.arrayBuffer();
}

/**
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<any>}
 */
export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/**
 * The address of something of a run.
 *
 * @param {string} run
 * @param {string} [what]
 * @param {Record<string, string | number | null | undefined>} [query]
 */
export function at(run, what = "", query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const text = new URLSearchParams(given.map(([name, value]) => [name, `${value}`])).toString();
  return `/api/runs/${encodeURIComponent(run)}${what && `/${what}`}${text && `?${text}`}`;
}

/** What to tell a person about an error. @param {unknown} error */
export function told(error) {
  return error instanceof Error ? error.message : `${error}`;
}
