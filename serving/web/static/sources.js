/** The page of sources: start syncs and follow them, decide on deletions that wait. */

import { Problem, call } from "./api.js";
import { confirmed, say } from "./confirm.js";
import { byId } from "./dom.js";

const PAUSE = 2000, SLOWEST = 60_000;
const HOPELESS = [401, 403, 404];

/** Replace a source's card by its present state, and again while it syncs or cannot be asked for. @param {string} source @param {number} [pause] Before the next time */
async function follow(source, pause = PAUSE) {
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
    if (pause > PAUSE) byId("status").hidden = true; // it said why this failed
    if (next?.hasAttribute("data-running")) setTimeout(() => follow(source), PAUSE);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
    if (!(error instanceof Problem) || HOPELESS.includes(error.status)) return;
    const longer = Math.max(Math.min(2 * pause, SLOWEST), 1000 * error.wait);
    setTimeout(() => follow(source, longer), longer);
  }
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
    const answer = await call(`/api/held-deletions/${source}`, { method: "POST", body: { decision, partition, last_held_at: until } });
    say((await answer.json()).message);
    button.closest("section")?.remove();
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
  setTimeout(() => follow(/** @type {HTMLElement} */ (card).dataset.card ?? ""), PAUSE);
}
