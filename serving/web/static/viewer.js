/** The page of a document: questions about it or about selected text, and for its owner changes and deletion. */

import { Problem, call, cut } from "./api.js";
import { answered, ask, reset, restore } from "./answer.js";
import { onceConfirmed } from "./confirm.js";
import { byId, element, elsewhere } from "./dom.js";
import { uploadFields } from "./fields.js";

const SHORTEST = 10, LONGEST = 5000;
const reader = /** @type {HTMLElement} */ (document.querySelector(".reader"));
const id = reader.dataset.document ?? "";
const article = /** @type {HTMLElement} */ (document.querySelector("article.document"));
const question = /** @type {HTMLInputElement} */ (byId("q"));
const about = byId("about");
const offer = byId("ask-selection");
const said = byId("said");
let quoted = "";

const outline = /** @type {HTMLDetailsElement | null} */ (document.querySelector(".outline"));
if (outline && matchMedia("(min-width: 64rem)").matches) outline.open = true;
const current = () => /** @type {HTMLElement | null | undefined} */ (outline?.querySelector("a[aria-current]"));
if (outline && current()) outline.scrollTop = (current()?.offsetTop ?? 0) - outline.clientHeight / 2;
if (location.search.includes("chunk=") && !location.hash) document.getElementById("place")?.scrollIntoView({ block: "center" });

/** A section that is on the page is not loaded again. */
outline?.addEventListener("click", (event) => {
  const anchor = event.target instanceof Element ? event.target.closest("a") : null;
  if (!anchor || elsewhere(event) || !document.getElementById(anchor.hash.slice(1))) return;
  event.preventDefault();
  current()?.removeAttribute("aria-current");
  anchor.setAttribute("aria-current", "location");
  location.hash = anchor.hash;
});

/** What is selected of the document's text. */
function selected() {
  const selection = getSelection();
  if (!selection || selection.isCollapsed || !article.contains(selection.anchorNode) || !article.contains(selection.focusNode)) return "";
  return selection.toString().trim();
}

/** @param {string} text What the question is about; empty: the whole document */
function quote(text) {
  quoted = cut(text, LONGEST);
  about.hidden = !quoted;
  about.replaceChildren(`About: “${quoted.length > 80 ? `${quoted.slice(0, 80)}…` : quoted}”`, element("button", { "aria-label": "Ask about the whole document instead", onclick: () => quote("") }, "×"));
}

document.addEventListener("selectionchange", () => {
  offer.hidden = selected().length < SHORTEST;
});
offer.addEventListener("pointerdown", (event) => event.preventDefault()); // a press would end the selection
offer.addEventListener("click", () => {
  quote(selected());
  offer.hidden = true;
  question.focus();
});

const whole = { filters: { document_ids: [id], include_archived: true }, understand: false };
/** What of the text the answers on this page are about; empty: all of it. @type {string} */
let asked = history.state?.quoted ?? "";
const narrowing = () => (asked ? { selection: { document_id: id, text: asked } } : whole);
const remember = () => history.replaceState({ ...history.state, ...answered(), quoted: asked }, "");
quote(asked);
restore(narrowing());
addEventListener("hashchange", remember); // another section has a state of its own
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!question.value.trim()) return question.focus();
  reset();
  asked = quoted;
  remember();
  ask(question.value.trim(), narrowing());
});

/** @param {() => Promise<string>} work Returns what to say */
async function report(work) {
  said.textContent = "One moment …";
  try {
    said.textContent = await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    said.replaceChildren(element("span", { role: "alert" }, error.message));
  }
}

const removal = document.getElementById("delete");
if (removal) {
  const verb = removal.textContent ?? "", own = verb === "Delete"; // another person's upload is taken down
  const title = document.querySelector("h1")?.textContent;
  const lines = own ? [] : ["It is hidden at once and erased after the retention time. The same content cannot be handed in again."];
  onceConfirmed(removal, own ? `Delete “${title}” for good?` : `Take “${title}” down for good?`, verb, () => report(async () => {
    await call(`/api/documents/${id}`, { method: "DELETE" });
    location.assign(own ? "/upload" : "/admin/take-downs");
    return own ? "Deleted." : "Taken down.";
  }), lines);
}

const changes = /** @type {HTMLFormElement | null} */ (document.getElementById("changes"));
if (changes) {
  const fields = uploadFields(changes, JSON.parse(changes.dataset.changes ?? "{}"));
  let before = fields.values();
  changes.addEventListener("submit", (event) => {
    event.preventDefault();
    if (fields.check()) report(async () => {
      const now = fields.values();
      const body = Object.fromEntries(Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[/** @type {keyof typeof now} */ (name)])));
      const { message } = await (await call(`/api/documents/${id}`, { method: "PATCH", body })).json();
      before = now;
      return `${message}.`;
    });
  });
}
