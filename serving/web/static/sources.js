/** The page of sources: start syncs and follow them, decide on deletions that wait. */

import { Problem, call } from "./api.js";
import { confirmed, say } from "./confirm.js";
import { byId } from "./dom.js";

const PAUSE = 2000, SLOWEST = 60_000;
const HOPELESS = [401, 403, 404];

/** The next look at each source. @type {Map<string, number>} */
const looks = new Map();
let fault = ""; // that a look met last

/** Look at a source again. @param {string} source @param {number} [pause] */
function later(source, pause = PAUSE) {
  clearTimeout(looks.get(source));
  looks.set(source, setTimeout(() => follow(source, pause), pause));
}

/** Replace a source's card by its present state, and again while it syncs or cannot be asked for. @param {string} source @param {number} [pause] Since the time before */
async function follow(source, pause = PAUSE) {
  const status = byId("status");
  try {
    const answer = await call(`/sources/${source}`, { headers: { "X-Part": "1" } });
    const card = document.querySelector(`[data-card="${source}"]`);
    if (!card) return;
    const open = [...card.querySelectorAll("details")].map((one) => one.open);
    const focused = card.contains(document.activeElement);
    card.outerHTML = await answer.text(); // a template of ours, escaped on the server
    const next = document.querySelector(`[data-card="${source}"]`);
    next?.querySelectorAll("details").forEach((one, number) => (one.open = open[number] ?? false));
    if (focused) /** @type {HTMLElement | null} */ (next?.querySelector("button, a, summary"))?.focus();
    if (pause > PAUSE && status.textContent === fault) status.hidden = true;
    if (next?.hasAttribute("data-running")) later(source);
  } catch (error) {
    const over = !(error instanceof Problem) || HOPELESS.includes(error.status);
    if (over || pause === PAUSE) say((fault = error instanceof Error ? error.message : String(error)), true);
    if (!over) later(source, Math.max(Math.min(2 * pause, SLOWEST), 1000 * error.wait));
  }
}

/** What waits of a root or channel, as the page shows it now. @param {string} source @param {string} partition */
async function waiting(source, partition) {
  const page = new DOMParser().parseFromString(await (await call("/sources")).text(), "text/html");
  const button = page.querySelector(`[data-decide][data-source="${CSS.escape(source)}"][data-partition="${CSS.escape(partition)}"]`);
  return button?.closest("section") ?? "";
}

/** @param {HTMLButtonElement} button */
async function sync(button) {
  const source = button.dataset.sync ?? "";
  const label = button.textContent;
  button.disabled = true;
  button.textContent = "Starting …";
  try {
    await call(`/api/sync/${source}`, { method: "POST", body: {} });
  } catch (error) {
    button.disabled = false;
    button.textContent = label;
    say(error instanceof Error ? error.message : String(error), true);
  }
  await follow(source);
}

/** @param {HTMLButtonElement} button */
async function decide(button) {
  const { decide: decision, source = "", partition = "", until = "", name = "", count = "" } = button.dataset;
  const documents = `${Number(count).toLocaleString("en")} document${count === "1" ? "" : "s"}`;
  const approve = decision === "approve";
  const question = approve
    ? confirmed(`Delete ${documents} of ${name}?`, ["They leave the index with a sync that starts now, and are erased after the retention time.", "If they come back at the source, they are indexed again."], "Delete them")
    : confirmed(`Keep ${documents} of ${name}?`, ["They stay until the source reports their deletion again."], "Keep them");
  if (!(await question)) return;
  button.disabled = true;
  try {
    const answer = await call(`/api/held-deletions/${source}`, { method: "POST", body: { decision, partition, last_held_at: until || null } });
    const { message, left } = await answer.json();
    say(message);
    button.closest("section")?.replaceWith(left ? await waiting(source, partition) : "");
    await follow(source);
  } catch (error) {
    button.disabled = false;
    say(error instanceof Error ? error.message : String(error), true);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (button?.dataset.sync) sync(button);
  else if (button?.dataset.decide) decide(button);
});

for (const card of document.querySelectorAll("[data-running]")) {
  later(/** @type {HTMLElement} */ (card).dataset.card ?? "");
}
