/** The panel that shows the passage behind a citation. */

import { byId, element, link } from "./dom.js";
import { marking } from "./quotes.js";

/** @type {HTMLElement | null} */
let opener = null;

/**
 * @param {any} source A result of the HTTP interface
 * @param {{start: number, end: number, page: number | null}[]} quotes What is quoted of it, in order
 * @param {HTMLElement} from The control that opened it
 */
export function openPassage(source, quotes, from) {
  const panel = byId("passage");
  opener?.setAttribute("aria-expanded", "false");
  opener = from;
  from.setAttribute("aria-expanded", "true");
  const place = [source.path, ...source.section_path, pageOf(source, quotes)].filter(Boolean).join(" › ");
  panel.replaceChildren(
    element("button", { class: "quiet close", "aria-label": "Close", onclick: closePassage }, "×"),
    element("h2", {}, source.title),
    element("p", { class: "soft tiny" }, place),
    element("blockquote", {}, ...highlighted(source.chunk_text, quotes)),
    element("p", { class: "row tiny" }, link(marking(source.citation.link, quotes), "Open at this place"), element("a", { href: marking(`/documents/${source.doc_id}?chunk=${source.chunk_index}#place`, quotes) }, "Read here")),
  );
  panel.hidden = false;
  panel.focus({ preventScroll: true });
  const mark = panel.querySelector("mark");
  if (mark) panel.scrollTop += mark.getBoundingClientRect().top - panel.getBoundingClientRect().top - panel.clientHeight / 3;
}

/** The page of what is quoted. @param {any} source @param {{page: number | null}[]} quotes */
export function pageOf(source, quotes) {
  const page = quotes[0]?.page ?? source.page_start;
  return page ? `page ${page}` : "";
}

/** The passage with its quotes marked. @param {string} text @param {{start: number, end: number}[]} quotes */
function highlighted(text, quotes) {
  const characters = Array.from(text); // the server counts code points
  /** @type {(Node | string)[]} */
  const parts = [];
  let at = 0;
  for (const { start, end } of [...quotes].sort((one, other) => one.start - other.start)) {
    if (start < at) continue;
    parts.push(characters.slice(at, start).join(""), element("mark", {}, characters.slice(start, end).join("")));
    at = end;
  }
  return [...parts, characters.slice(at).join("")];
}

export function closePassage() {
  const panel = byId("passage");
  if (panel.hidden) return;
  const within = panel.contains(document.activeElement);
  panel.hidden = true;
  panel.replaceChildren();
  opener?.setAttribute("aria-expanded", "false");
  if (within) opener?.focus();
  opener = null;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closePassage();
});
