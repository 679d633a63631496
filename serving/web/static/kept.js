/** The page of an answer that was given before. */

import { copying } from "./copy.js";
import { byId, element, elsewhere, link } from "./dom.js";
import { openPassage, pageAt } from "./passage.js";
import { prose } from "./prose.js";
import { placed, quotesOf } from "./quotes.js";
import { sharing } from "./share.js";

const data = document.getElementById("data");
if (data) {
  const { answer_id, answer, quotes, sources, ...given } = JSON.parse(data.textContent ?? "");
  const sentences = placed(answer, given.sentences);
  byId("text").replaceChildren(...prose(answer, sentences, (index, at) => {
    const source = sources[index - 1];
    if (!source || source.chunk_index === null) return document.createTextNode("");
    const quoted = quotesOf({ sentences, quotes }, index, at);
    const anchor = /** @type {HTMLAnchorElement} */ (link(pageAt(source, quoted), String(index)));
    anchor.classList.add("cite");
    anchor.title = source.title;
    anchor.addEventListener("click", (event) => {
      if (elsewhere(event)) return;
      event.preventDefault();
      openPassage(source, quoted, anchor);
    });
    return element("sup", {}, anchor);
  }));
  copying(byId("copy"), byId("said"), answer, sources.filter((/** @type {any} */ one) => one.cited && one.link));
  const button = document.getElementById("share");
  if (button) sharing(button, byId("said"), answer_id);
}
