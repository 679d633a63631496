/** Call the HTTP interface with the session of this page. */

import { element } from "./dom.js";

/** A problem that the service reported, or a connection that failed. Its message is for the person. */
export class Problem extends Error {
  /** @param {string} message @param {number} status @param {number} [wait] Seconds after which it may be tried again; 0: unknown */
  constructor(message, status, wait = 0) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

/**
 * @param {string} path
 * @param {{method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>} Raises `Problem` for every status but 2xx, and goes to the sign-in page when the session is over.
 */
export async function call(path, { method = "GET", body, headers = {}, signal } = {}) {
  const sent = { "X-Concordance": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers };
  const asked = fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: "same-origin" });
  const answer = await arrived(asked, "Concordance cannot be reached. Check your connection and try again.");
  for (const read of /** @type {const} */ (["json", "text"])) answer[read] = () => arrived(Response.prototype[read].call(answer), BROKEN);
  if (answer.ok) {
    document.getElementById("signed-out")?.remove();
    return answer;
  }
  if (answer.status === 401) {
    toSignIn();
    throw new Problem("Your session is over. Sign in again.", 401);
  }
  throw new Problem(await detail(answer), answer.status, Number(answer.headers.get("Retry-After")) || 0);
}

/** Go to the sign-in page, and then back to this one, unless the page has what it would lose: one that says so itself cancels the event. */
export function toSignIn() {
  if (!dispatchEvent(new CustomEvent("signed-out", { cancelable: true }))) return;
  if (!loses()) return location.assign(signIn());
  document.getElementById("signed-out")?.remove();
  const again = element("a", { href: signIn(), target: "_blank" }, "Sign in");
  document.querySelector("main")?.prepend(element("p", { id: "signed-out", class: "note warn", role: "alert" }, "Your session is over. ", again, " in a new tab, and then go on here."));
}

/** Whether a question, or words that were typed and are not in the address, would be lost with the page. */
function loses() {
  const address = new URLSearchParams(location.search);
  const fields = /** @type {NodeListOf<HTMLInputElement | HTMLTextAreaElement>} */ (document.querySelectorAll("input:is([type=text], [type=search], :not([type])), textarea"));
  return document.querySelector("#answer .answer") || [...fields].some((one) => one.value !== one.defaultValue && one.value.trim() !== address.get(one.name));
}

/** The address at which to sign in for this page. */
export function signIn() {
  return `/sign-in?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`;
}

const BROKEN = "The connection broke off. Try again.";

/**
 * @template T @param {Promise<T>} part @param {string} otherwise What to say if the connection fails; a call that was aborted stays so.
 * @returns {Promise<T>}
 */
async function arrived(part, otherwise) {
  try {
    return await part;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(otherwise, 0);
  }
}

/** What went wrong: a problem in JSON, or in place of a part of a page. @param {Response} answer */
async function detail(answer) {
  try {
    if (answer.headers.get("Content-Type")?.startsWith("text/html")) {
      const said = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[role=alert]");
      if (said?.textContent) return said.textContent;
    }
    const problem = await answer.json();
    return String(problem.detail || problem.title);
  } catch {
    return `Concordance answered with status ${answer.status}. Try again in a moment.`;
  }
}

/**
 * The beginning of a text, without half of an emoji at its end, which the service would refuse.
 * @param {string} text @param {number} most UTF-16 code units
 */
export function cut(text, most) {
  return text.slice(0, most).replace(/[\ud800-\udbff]$/, "");
}

/**
 * Read server-sent events.
 * @param {Response} answer
 * @param {() => void} alive Called whenever something arrives, also between events
 * @returns {AsyncGenerator<{name: string, data: any}>}
 */
export async function* events(answer, alive) {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await arrived(reader.read(), BROKEN);
    if (done) return;
    alive();
    rest = (rest + value).replaceAll("\r\n", "\n");
    const whole = rest.split("\n\n");
    rest = whole.pop() ?? "";
    for (const event of whole) {
      const fields = event.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).replace(/^ /, "")]);
      const name = fields.find(([field]) => field === "event")?.[1];
      const data = fields.filter(([field]) => field === "data").map(([, text]) => text).join("\n");
      if (name) yield { name, data: JSON.parse(data) };
    }
  }
}
