/** The page of an answer that was given before. */

import { Problem, call } from "./api.js";
import { byId, element, elsewhere, link } from "./dom.js";
import { openPassage } from "./passage.js";
import { prose } from "./prose.js";
import { marking, placed, quotesOf } from "./quotes.js";
import { sharing } from "./share.js";

/**
 * Show the passage of a source as it is today, or go to its page if it cannot be shown here.
 * @param {{link: string, doc_id: string, chunk_index: number}} source @param {any[]} quotes @param {HTMLAnchorElement} from
 */
async function open(source, quotes, from) {
  try {
    const read = await (await call(`/api/documents/${source.doc_id}?chunk=${source.chunk_index}&context=0`)).json();
    const text = Array.from(read.text).slice(read.place.start - read.text_start, read.place.end - read.text_start).join("");
    openPassage({ ...read, ...read.place, chunk_text: text, chunk_index: source.chunk_index }, quotes, from);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    location.assign(from.href);
  }
}

const data = document.getElementById("data");
if (data) {
  const { answer_id, answer, quotes, sources, ...given } = JSON.parse(data.textContent ?? "");
  const sentences = placed(answer, given.sentences);
  byId("text").replaceChildren(...prose(answer, sentences, (index, at) => {
    const source = sources[index];
    if (!source) return document.createTextNode("");
    const quoted = quotesOf({ sentences, quotes }, index, at);
    const anchor = /** @type {HTMLAnchorElement} */ (link(marking(source.link, quoted), String(index)));
    anchor.classList.add("cite");
    anchor.title = source.title;
    anchor.addEventListener("click", (event) => {
      if (elsewhere(event)) return;
      event.preventDefault();
      open(source, quoted, anchor);
    });
    return element("sup", {}, anchor);
  }));
  const button = document.getElementById("share");
  if (button) sharing(button, byId("said"), answer_id);
}
