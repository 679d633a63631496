/** The page of an answer that was given before. */

import { byId, element, link } from "./dom.js";
import { prose } from "./prose.js";
import { marking, quotesOf } from "./quotes.js";
import { sharing } from "./share.js";

const data = document.getElementById("data");
if (data) {
  const { answer_id, answer, sentences, quotes, sources } = JSON.parse(data.textContent ?? "");
  byId("text").replaceChildren(...prose(answer, sentences, (index, at) => {
    const source = sources[index];
    if (!source) return document.createTextNode("");
    const anchor = link(marking(source.link, quotesOf({ sentences, quotes }, index, at)), String(index));
    anchor.classList.add("cite");
    anchor.title = source.title;
    return element("sup", {}, anchor);
  }));
  const button = document.getElementById("share");
  if (button) sharing(button, byId("said"), answer_id);
}
