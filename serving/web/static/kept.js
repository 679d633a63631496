/** The page of an answer that was given before. */

import { copying } from "./copy.js";
import { byId, element, elsewhere, link } from "./dom.js";
import { openPassage, pageAt } from "./passage.js";
import { prose } from "./prose.js";
import { numbering, placed, quotesOf } from "./quotes.js";
import { sharing } from "./share.js";

const data = document.getElementById("data");
if (data) {
  const { answer_id, answer, quotes, sources, ...given } = JSON.parse(data.textContent ?? "");
  const sentences = placed(answer, given.sentences), number = numbering();
  byId("text").replaceChildren(...prose(answer, sentences, (index, at) => {
    const source = sources[index - 1], shown = String(number(index));
    if (!source || source.chunk_index === null) return document.createTextNode("");
    const quoted = quotesOf({ sentences, quotes }, index, at);
    const anchor = /** @type {HTMLAnchorElement} */ (link(pageAt(source, quoted), shown));
    anchor.classList.add("cite");
    anchor.title = source.title;
    anchor.addEventListener("click", (event) => {
      if (elsewhere(event)) return;
      event.preventDefault();
      openPassage(source, quoted, anchor);
    });
    return element("sup", {}, anchor);
  }));
  const list = /** @type {HTMLElement} */ (document.querySelector(".sources"));
  const items = /** @type {HTMLElement[]} */ ([...list.children]).map((item) => ({ item, index: Number(item.dataset.index), shown: number(Number(item.dataset.index)) }));
  items.sort((one, other) => one.shown - other.shown);
  for (const { item, shown } of items) /** @type {HTMLElement} */ (item.querySelector(".index")).textContent = String(shown);
  list.append(...items.map(({ item }) => item));
  copying(byId("copy"), byId("said"), answer, items.map(({ index }) => sources[index - 1]).filter((one) => one.link), number);
  const button = document.getElementById("share");
  if (button) sharing(button, byId("said"), answer_id);
}
