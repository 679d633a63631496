/** The panel that shows the passage behind a citation. */

import { Problem, call } from "./api.js";
import { byId, element, link } from "./dom.js";
import { marking } from "./quotes.js";
import { cells, table } from "./table.js";

const CELL = " | "; // as parsers write tables

/** @type {HTMLElement | null} */
let opener = null;

/**
 * Show the passage of a source. That of an answer that was given before is shown as it is today, or on its page if it cannot be shown here.
 * @param {any} source A result of the HTTP interface, or a source of an answer that was given before
 * @param {{start: number, end: number, page: number | null}[]} quotes What is quoted of it, in order
 * @param {HTMLElement} from The control that opened it
 */
export async function openPassage(source, quotes, from) {
  /** @type {Problem | null} */
  let problem = null;
  try {
    if (source.chunk_text === undefined) source = await today(source);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    problem = error;
  }
  if (!from.isConnected || problem?.status === 401) return; // a notice says that the session is over
  if (problem?.status === 404) return location.assign(pageAt(source, quotes));
  if (problem) return opened(from, element("p", { role: "alert" }, problem.message));
  const opens = link(marking(source.citation.link, quotes), "Open at this place");
  const elsewhere = new URL(source.citation.link, location.href).pathname !== `/documents/${source.doc_id}`; // files and uploads have only our page
  const place = [source.path, ...source.section_path, pageOf(source, quotes)].filter(Boolean).join(" › ");
  opened(
    from,
    element("h2", {}, source.title),
    element("p", { class: "soft tiny" }, place),
    element("blockquote", {}, ...highlighted(source.chunk_text, quotes)),
    element("p", { class: "row tiny" }, elsewhere && opens, element("a", { href: pageAt(source, quotes) }, "Read here")),
  );
  const panel = byId("passage");
  const mark = panel.querySelector("mark");
  if (mark) panel.scrollTop += mark.getBoundingClientRect().top - panel.getBoundingClientRect().top - panel.clientHeight / 3;
}

/** @param {HTMLElement} from The control that opened the panel @param {...HTMLElement} parts */
function opened(from, ...parts) {
  const panel = byId("passage");
  opener?.setAttribute("aria-expanded", "false");
  opener = from;
  from.setAttribute("aria-expanded", "true");
  panel.replaceChildren(element("button", { class: "quiet close", "aria-label": "Close", onclick: closePassage }, "×"), ...parts);
  panel.hidden = false;
  panel.focus({ preventScroll: true });
}

/** @param {{doc_id: string, chunk_index: number}} source */
async function today({ doc_id: id, chunk_index: index }) {
  const read = await (await call(`/api/documents/${id}?chunk=${index}&context=0`)).json();
  const text = Array.from(read.text).slice(read.place.start - read.text_start, read.place.end - read.text_start).join("");
  return { ...read, ...read.place, chunk_text: text, chunk_index: index };
}

/** The address of our page of a source, with its quotes marked. @param {any} source @param {{start: number, end: number}[]} quotes */
export function pageAt(source, quotes) {
  return marking(`/documents/${source.doc_id}?chunk=${source.chunk_index}#place`, quotes);
}

/** The page of what is quoted. @param {any} source @param {{page: number | null}[]} quotes */
export function pageOf(source, quotes) {
  const page = quotes[0]?.page ?? source.page_start;
  return page ? `page ${page}` : "";
}

/** The passage with its quotes marked, and its tables as tables. @param {string} text @param {{start: number, end: number}[]} quotes */
function highlighted(text, quotes) {
  const characters = Array.from(text);
  /** @type {Node[]} */
  const parts = [];
  /** @type {Node[][][]} */
  let rows = [];
  let at = 0, from = 0;
  for (const line of [...text.split("\n"), null]) {
    const end = at + points(line ?? "");
    if (!rows.length) from = at;
    if (line?.includes(CELL)) rows.push(cells(line, at, CELL, points).map((cell) => marked(characters, cell.start, cell.end, quotes)));
    else if (line !== "" || rows.length !== 1) { // the head may stand alone
      if (rows.length > 1) parts.push(table(rows));
      parts.push(...marked(characters, rows.length === 1 ? from : at, Math.min(end + 1, characters.length), quotes));
      rows = [];
    }
    at = end + 1;
  }
  return parts;
}

/** The length of a text as the server counts it, in code points. @param {string} text */
function points(text) {
  return Array.from(text).length;
}

/** A range of the passage with its quotes marked. @param {string[]} characters @param {number} start @param {number} end @param {{start: number, end: number}[]} quotes */
function marked(characters, start, end, quotes) {
  /** @type {Node[]} */
  const parts = [];
  let at = start;
  /** @param {number} to */
  const text = (to) => document.createTextNode(characters.slice(at, to).join(""));
  for (const quote of [...quotes].sort((one, other) => one.start - other.start)) {
    const from = Math.max(at, quote.start), to = Math.min(end, quote.end);
    if (from >= to) continue;
    parts.push(text(from));
    at = from;
    parts.push(element("mark", {}, text(to)));
    at = to;
  }
  return [...parts, text(end)];
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
