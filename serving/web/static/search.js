/** The search page: results while the user types, filters without reloading, more results, and questions. */

import { Problem, call, cut } from "./api.js";
import { answered, ask, reset, restore } from "./answer.js";
import { byId, element, elsewhere } from "./dom.js";
import "./entries.js";

const PAUSE = 250;
const SHORTEST = 2;
const input = /** @type {HTMLInputElement} */ (byId("q"));
const results = byId("results");
/** @type {AbortController | null} */
let running = null;
let timer = 0;
/** The address that the page shows. */
let shown = location.href;
/** How many pages of results were added to the first. */
let added = 0;

/** The search that the page shows: what was typed, and the filters. */
function parameters() {
  const form = results.querySelector("form");
  const chosen = form ? new URLSearchParams(/** @type {any} */ (new FormData(form))) : new URLSearchParams(location.search);
  const kept = new URLSearchParams({ q: input.value.trim() });
  for (const [name, value] of chosen) if (value && name !== "q" && name !== "cursor") kept.append(name, value);
  return kept;
}

/** @param {URLSearchParams} wanted @param {boolean} [push] Add an entry to the browser's history */
async function show(wanted, push = false) {
  running?.abort();
  const mine = (running = new AbortController());
  byId("top").classList.toggle("start", !wanted.get("q"));
  const address = wanted.get("q") ? `/?${wanted}` : "/";
  history[push ? "pushState" : "replaceState"](answered(), "", address);
  shown = location.href;
  added = 0;
  document.title = `${wanted.get("q") || "Search"} – Concordance`;
  results.setAttribute("aria-busy", "true");
  byId("count").textContent = "";
  try {
    const answer = await call(`/results?${wanted}`, { headers: { "X-Part": "1" }, signal: mine.signal });
    const found = await answer.text();
    const within = results.contains(document.activeElement) && document.activeElement;
    results.innerHTML = found; // a template of ours, escaped on the server
    if (within) /** @type {HTMLElement} */ ((within instanceof HTMLSelectElement && results.querySelector(`[name="${within.name}"]`)) || (within.closest(".filters") && results.querySelector(".filters")) || input).focus({ preventScroll: true });
    byId("count").textContent = results.querySelector(".count, .empty p")?.textContent ?? "";
  } catch (error) {
    if (!(error instanceof Problem)) return; // a newer search has replaced this one
    results.replaceChildren(element("p", { role: "alert" }, error.message), element("button", { class: "quiet", onclick: () => show(wanted) }, "Try again"));
  } finally {
    if (running === mine) results.setAttribute("aria-busy", "false");
  }
}

/** What an answer is narrowed to: the same filters as the results. */
function narrowing() {
  const wanted = parameters();
  const days = Number(wanted.get("days"));
  const ignored = wanted.getAll("ignore");
  /** @param {string} name */
  const list = (name) => (wanted.get(name) ? [wanted.get(name)] : []);
  return {
    filters: { source_types: list("source"), mime_types: list("type"), authors: list("author"), date_range: days ? { last_days: days } : null },
    understand: ["source", "type", "author", "channel", "date", "place", "without"].filter((name) => !ignored.includes(name)),
  };
}

input.addEventListener("input", () => {
  clearTimeout(timer);
  const text = input.value.trim();
  if (text.length && text.length < SHORTEST) return;
  timer = setTimeout(() => {
    const had = answered().answers.length > 0;
    reset();
    show(parameters(), had); // "Back" returns the answer
  }, PAUSE);
});

restore(narrowing());
again(history.state?.added ?? 0);
if (input.value !== input.defaultValue) input.dispatchEvent(new Event("input")); // typed before this script had loaded

document.querySelector("form.search")?.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  const question = input.value.trim();
  if (!question) return input.focus();
  reset();
  ask(question, narrowing());
  show(parameters(), true);
});

results.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement) show(parameters(), true);
});
results.addEventListener("submit", (event) => {
  event.preventDefault();
  show(parameters(), true);
});

results.addEventListener("click", async (event) => {
  const anchor = event.target instanceof Element ? event.target.closest("a") : null;
  if (!anchor || elsewhere(event) || anchor.origin !== location.origin || anchor.pathname !== "/") return;
  event.preventDefault();
  const wanted = new URLSearchParams(anchor.search);
  if (anchor.id !== "more") {
    input.value = wanted.get("q") ?? "";
    return show(wanted, true);
  }
  const [first] = await more(anchor);
  /** @type {HTMLElement | null | undefined} */ (first?.querySelector("h2 a"))?.focus();
});

/** Add the next page of results, and return them: none if there are none, or if it fails. @param {HTMLAnchorElement} anchor */
async function more(anchor) {
  if (anchor.hasAttribute("aria-busy")) return [];
  const search = running;
  anchor.setAttribute("aria-busy", "true");
  anchor.textContent = "Loading …";
  try {
    const next = element("div");
    next.innerHTML = await (await call(`/results${anchor.search}`, { headers: { "X-Part": "1" } })).text(); // escaped on the server
    if (running !== search || !anchor.isConnected) return []; // another search has replaced this one
    const found = next.querySelectorAll(".result");
    [...results.querySelectorAll(".results")].at(-1)?.append(...found);
    const another = next.querySelector("#more");
    if (another) anchor.replaceWith(another);
    else anchor.remove();
    byId("count").textContent = `${found.length} more ${found.length === 1 ? "result" : "results"}`;
    history.replaceState({ ...history.state, added: ++added }, "");
    return found;
  } catch (error) {
    anchor.removeAttribute("aria-busy");
    anchor.textContent = error instanceof Problem ? `${error.message} Try again` : "Try again";
    return [];
  }
}

/** Add as many pages of results as there were when this page was left. @param {number} pages */
async function again(pages) {
  while (added < pages) {
    const anchor = /** @type {HTMLAnchorElement | null} */ (document.getElementById("more"));
    if (!anchor || !(await more(anchor)).length) return;
  }
}

results.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-save]") : null;
  if (!(button instanceof HTMLButtonElement)) return;
  button.disabled = true;
  try {
    const body = { name: cut(button.dataset.save ?? "", 200), query: parameters().get("q"), filters: narrowing().filters };
    await call("/api/saved-searches", { method: "POST", body });
    button.textContent = "Saved";
  } catch (error) {
    button.disabled = false;
    button.textContent = error instanceof Error ? error.message : String(error);
  }
});

/** Go to the next or the previous result, from the box or from another one. @param {KeyboardEvent} event @param {number} step */
function walk(event, step) {
  const links = [...results.querySelectorAll(".result h2 a")].filter((one) => /** @type {HTMLElement} */ (one).offsetParent);
  const here = document.activeElement?.closest(".result")?.querySelector("h2 a");
  const at = here ? links.indexOf(here) : -1;
  if ((at < 0 && (document.activeElement !== input || step < 0)) || !links.length) return;
  event.preventDefault();
  /** @type {HTMLElement} */ (at + step < 0 ? input : links[Math.min(at + step, links.length - 1)]).focus();
}

addEventListener("popstate", () => {
  const { search, hash } = new URL(shown);
  shown = location.href;
  if (location.search === search && location.hash !== hash) return history.replaceState({ ...history.state, ...answered(), added }, ""); // skipped to the content: the answer stays
  location.reload();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement;
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    input.focus();
    input.select();
  } else if (!event.ctrlKey && !event.metaKey && !event.altKey && (!typing || event.target === input)) {
    if (event.key === "ArrowDown" || (event.key === "j" && !typing)) walk(event, 1);
    else if (event.key === "ArrowUp" || (event.key === "k" && !typing)) walk(event, -1);
  }
});
