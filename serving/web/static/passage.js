/** The panel that shows the passage behind a citation. */

import { byId, element, link } from "./dom.js";

/** @type {HTMLElement | null} */
let opener = null;

/** @param {any} source A result of the HTTP interface @param {HTMLElement} from The control that opened it */
export function openPassage(source, from) {
  const panel = byId("passage");
  opener?.setAttribute("aria-expanded", "false");
  opener = from;
  from.setAttribute("aria-expanded", "true");
  const place = [source.path, ...source.section_path, source.page_start ? `page ${source.page_start}` : ""].filter(Boolean).join(" › ");
  panel.replaceChildren(
    element("button", { class: "quiet close", "aria-label": "Close", onclick: closePassage }, "×"),
    element("h2", {}, source.title),
    element("p", { class: "soft tiny" }, place),
    element("blockquote", {}, ...highlighted(source)),
    element("p", { class: "row tiny" }, link(source.citation.link, "Open at this place"), element("a", { href: `/documents/${source.doc_id}?chunk=${source.chunk_index}#place` }, "Read here")),
  );
  panel.hidden = false;
  panel.focus({ preventScroll: true });
}

/** The passage with its best part marked. @param {any} source */
function highlighted(source) {
  const text = source.chunk_text, cut = source.snippet.replace(/^…\s*|\s*…$/g, "");
  const at = text.indexOf(cut);
  return at < 0 ? [text] : [text.slice(0, at), element("mark", {}, cut), text.slice(at + cut.length)];
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
