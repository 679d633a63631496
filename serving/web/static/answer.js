/** Ask a question and show the answer as it is written, with its sources, what was left out, and a follow-up question. */

import { Problem, call, events } from "./api.js";
import { copying } from "./copy.js";
import { byId, element, link, loading } from "./dom.js";
import { closePassage, openPassage, pageOf } from "./passage.js";
import { prose } from "./prose.js";
import { numbering, placed, quotesOf } from "./quotes.js";
import { sharing } from "./share.js";

const LATEST = 5;
const STOPPED = "Stopped.";
const SILENCE = 60_000; // the service gives a sign of life every 15 seconds
/** @type {{role: string, content: string}[]} */
let conversation = [];
/** The answers of the conversation, by their IDs. @type {string[]} */
let answers = [];
/** @type {AbortController | null} */
let running = null;

/** Forget the conversation and stop an answer that is still being written. */
export function reset() {
  running?.abort();
  conversation = [];
  answers = [];
  byId("answer").replaceChildren();
  closePassage();
}

/** What the browser's history keeps, so that the answers can be shown again. */
export function answered() {
  return { answers: [...answers] };
}

/** Show the answers that this page had when it was left or loaded again. @param {Record<string, unknown>} narrowing As of `ask` */
export async function restore(narrowing) {
  const mine = (running = new AbortController());
  const panel = byId("answer");
  answers = history.state?.answers ?? [];
  /** @type {[HTMLElement, any] | null} */
  let last = null;
  for (const id of answers) {
    const text = element("div", { class: "text" });
    const card = element("article", { class: "answer" });
    try {
      const kept = await (await call(`/api/answers/${id}`, { signal: mine.signal })).json();
      if (!kept.own) throw new Problem("Another person asked this.", 404); // who was signed in here before
      if (kept.answer === null) text.append(element("p", { class: "note warn" }, "A source of this answer was deleted, or you may no longer read it, so its text is not shown."));
      const said = !last && kept.query === /** @type {HTMLInputElement} */ (byId("q")).value.trim();
      card.append(...(said ? [] : [element("p", { class: "question" }, kept.query)]), text);
      panel.querySelector(".follow")?.remove();
      panel.append(card);
      if (kept.answer !== null) complete(card, text, kept.query, asGiven(kept), narrowing);
      last = [card, kept];
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      if (error.status === 404) {
        answers = answers.filter((one) => one !== id);
        continue;
      }
      text.append(element("p", { role: "alert" }, error.message), element("button", { class: "quiet", onclick: () => { reset(); restore(narrowing); } }, "Try again"));
      card.append(text);
      panel.querySelector(".follow")?.remove();
      return panel.append(card);
    }
  }
  if (last) again(...last, narrowing);
  history.replaceState({ ...history.state, ...answered() }, "");
}

/** Offer to ask again what was asked last. @param {HTMLElement} card @param {any} kept @param {Record<string, unknown>} narrowing */
function again(card, { answer_id: id, query, answer }, narrowing) {
  const button = element("button", { class: "quiet", onclick: () => {
    if (answers.at(-1) === id) {
      answers.pop();
      if (answer !== null) conversation.splice(-2);
    }
    card.remove();
    ask(query, narrowing);
  } }, "Ask again");
  (card.querySelector(".actions") ?? card).append(button);
}

/** An answer that was given before, in the form of a new one. What became of its sources is in them. @param {any} kept */
function asGiven(kept) {
  const sources = kept.sources.map((/** @type {any} */ one) => ({ ...one, section_path: [], citation: one }));
  const cited = kept.sources.filter((/** @type {any} */ one) => one.cited).map((/** @type {any} */ one) => one.index);
  return { ...kept, sources, cited, held_back: 0 };
}

/** @param {string} question @param {Record<string, unknown>} narrowing Fields of the request that narrow the search */
export async function ask(question, narrowing) {
  running?.abort();
  const mine = (running = new AbortController());
  const panel = byId("answer");
  const text = element("div", { class: "text" }, loading());
  let timer = 0, ended = "";
  /** @param {string} why */
  const end = (why) => {
    ended = why;
    mine.abort();
  };
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => end("No answer has come for a minute."), SILENCE);
  };
  const stop = element("p", { class: "row" }, element("button", { class: "quiet", onclick: () => end(STOPPED) }, "Stop"));
  const card = element("article", { class: "answer" }, conversation.length ? element("p", { class: "question" }, question) : null, text, stop);
  if (!conversation.length) {
    panel.replaceChildren();
    answers = [];
  }
  const before = panel.querySelector(".follow");
  const typing = before?.contains(document.activeElement);
  before?.remove();
  panel.append(card);
  panel.setAttribute("aria-busy", "true");
  try {
    const body = { query: question, stream: true, conversation_history: conversation.slice(-LATEST), ...narrowing };
    alive();
    const done = await written(await call("/api/ask", { method: "POST", body, signal: mine.signal }), text, alive);
    const stopping = stop.contains(document.activeElement);
    stop.remove();
    const follow = complete(card, text, question, done, narrowing);
    answers.push(done.answer_id);
    history.replaceState({ ...history.state, ...answered() }, "");
    if ((typing || stopping) && document.activeElement === document.body) follow.querySelector("input")?.focus({ preventScroll: true });
  } catch (error) {
    const aborted = error instanceof DOMException && error.name === "AbortError";
    if (aborted && !ended) return card.remove();
    if (!aborted && !(error instanceof Problem)) throw error;
    const again = element("button", { class: "quiet", onclick: () => { card.remove(); ask(question, narrowing); } }, "Try again");
    text.querySelector(".caret")?.classList.remove("caret");
    const sofar = ended === STOPPED ? text.querySelectorAll(":scope > :not(.loading)") : [];
    text.replaceChildren(...sofar, element("p", ended === STOPPED ? { class: "note", role: "status" } : { role: "alert" }, ended || error.message), again);
    if (stop.contains(document.activeElement)) again.focus();
    stop.remove();
    if (conversation.length) card.append(followUp(narrowing));
  } finally {
    clearTimeout(timer);
    if (running === mine) panel.setAttribute("aria-busy", "false");
  }
}

/** Show tokens as they arrive, and return the whole answer. @param {Response} answer @param {HTMLElement} text @param {() => void} alive */
async function written(answer, text, alive) {
  let sofar = "", frame = 0;
  /** @type {any[]} */
  let sources = [];
  const draw = () => {
    frame = 0;
    const number = numbering();
    text.replaceChildren(...prose(sofar, [], (index) => citation(sources[index - 1], number(index), [])));
    text.lastElementChild?.classList.add("caret");
  };
  try {
    for await (const { name, data } of events(answer, alive)) {
      if (name === "sources") sources = data.sources;
      else if (name === "token") sofar += data.text;
      else if (name === "restart") sofar = "";
      else if (name === "error") throw new Problem(data.detail, 503);
      else if (name === "done") return data;
      if (sofar) frame ||= requestAnimationFrame(draw);
    }
  } finally {
    cancelAnimationFrame(frame);
  }
  throw new Problem("The answer broke off. Try again.", 0);
}

/** @param {any} source @param {number} number That readers see @param {any[]} quotes */
function citation(source, number, quotes) {
  if (!source || source.chunk_index === null) return document.createTextNode("");
  return element("button", { class: "cite", title: source.title, "aria-label": `Source ${number}: ${source.title}`, "aria-expanded": "false", onclick: (/** @type {Event} */ event) => openPassage(source, quotes, /** @type {HTMLElement} */ (event.currentTarget)) }, String(number));
}

/** Show a whole answer, and a field for the next question. @param {HTMLElement} card @param {HTMLElement} text @param {string} question @param {any} done @param {Record<string, unknown>} narrowing */
function complete(card, text, question, done, narrowing) {
  finish(card, text, done);
  conversation.push({ role: "user", content: question }, { role: "assistant", content: done.answer });
  const follow = followUp(narrowing);
  card.append(follow);
  return follow;
}

/** @param {HTMLElement} card @param {HTMLElement} text @param {any} done */
function finish(card, text, done) {
  done.sentences = placed(done.answer, done.sentences);
  const number = numbering();
  text.replaceChildren(...prose(done.answer, done.sentences, (index, at) => citation(done.sources[index - 1], number(index), quotesOf(done, index, at))));
  const unsure = done.sentences.filter((/** @type {any} */ one) => !one.supported && one.reason !== "language").length;
  const notes = done.warnings.map((/** @type {any} */ one) => one.message).filter((/** @type {string} */ one) => one !== done.unanswered?.message);
  if (unsure && done.mode === "model") notes.push(`${unsure === 1 ? "One sentence is" : `${unsure} sentences are`} not supported by the sources: ${unsure === 1 ? "it is" : "they are"} underlined.`);
  if (done.held_back) notes.push(`${done.held_back === 1 ? "One document is" : `${done.held_back} documents are`} left out until permissions have been checked again.`);
  if (done.mode === "extractive" && done.found && !done.warnings.length) notes.push("These are quotes from the documents.");
  if (done.changed) notes.push(`A source has changed since${done.shared_at ? ", so it is no longer shown to others" : ""}.`);
  const reading = document.getElementById("reading")?.textContent;
  if ((!done.found || done.warnings.length) && reading) notes.push(reading);
  if (done.unanswered) card.append(...nothing(done.unanswered));
  card.append(...notes.map((/** @type {string} */ note) => element("p", { class: "note" }, note)));
  const used = done.cited.length ? done.sources.filter((/** @type {any} */ one) => done.cited.includes(one.citation.index)) : done.sources;
  const shown = used.map((/** @type {any} */ one) => ({ ...one, number: number(one.citation.index) }));
  shown.sort((/** @type {any} */ one, /** @type {any} */ other) => one.number - other.number);
  if (done.found) card.append(sourceList(done, shown));
  card.append(actions(done, done.cited.length ? shown : [], number));
}

/** What was searched, what to do, and the closest documents. @param {any} unanswered */
function nothing({ message, closest }) {
  const said = element("p", { class: "soft" }, message);
  if (!closest.length) return [said];
  const list = element("ul", { class: "closest", "aria-label": "Closest documents" }, ...closest.map((/** @type {any} */ one) => element("li", {}, link(one.link, one.title))));
  return [said, element("p", { class: "soft tiny" }, "Closest documents"), list];
}

/** The name of a person, if the page says it of this address: results and documents do. @param {string | null} owner */
function named(owner) {
  return owner && (document.querySelector(`.person[title="${CSS.escape(owner)}"]`)?.textContent ?? owner);
}

/** @param {any} done @param {any[]} shown */
function sourceList(done, shown) {
  return element("ol", { class: "sources", "aria-label": "Sources" }, ...shown.map((one) =>
    element("li", {}, one.chunk_index === null ? link(one.link ?? `/documents/${one.doc_id}`, `${one.number} ${one.title ?? "Source"}`) : element("button", { "aria-expanded": "false", onclick: (/** @type {Event} */ event) => openPassage(one, quotesOf(done, one.citation.index), /** @type {HTMLElement} */ (event.currentTarget)) },
      element("b", {}, `${one.number} ${one.title}`), element("span", {}, [...one.section_path.slice(-1), pageOf(one, quotesOf(done, one.citation.index)), named(one.owner)].filter(Boolean).join(" · "))))));
}

/** @param {any} done @param {any[]} cited @param {(index: number) => number} number */
function actions(done, cited, number) {
  const said = element("span", { class: "soft tiny", role: "status" });
  /** @param {string} verdict @param {string} name */
  const rate = (verdict, name) => element("button", { class: "quiet", "aria-pressed": "false", onclick: async (/** @type {Event} */ event) => {
    const button = /** @type {HTMLElement} */ (event.currentTarget);
    try {
      await call("/api/feedback", { method: "POST", body: { verdict, answer_id: done.answer_id } });
      button.parentElement?.querySelectorAll("[aria-pressed]").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      said.textContent = verdict === "bad" ? "Thank you. Curators see your question, not the answer." : "Thank you.";
    } catch (error) {
      said.textContent = error instanceof Problem ? error.message : "That did not work. Try again.";
    }
  } }, name);
  const copy = element("button", { class: "quiet" }, "Copy");
  copying(copy, said, done.answer, cited.filter((one) => one.citation.link).map((one) => ({ ...one.citation, title: one.title })), number);
  const share = done.found && (answers[0] ?? done.answer_id) === done.answer_id ? element("button", { class: "quiet", "data-shared": done.shared_at ? "yes" : "no" }, done.shared_at ? "Stop sharing" : "Share by link") : null;
  if (share) sharing(share, said, done.answer_id);
  return element("div", { class: "actions" }, rate("good", "Useful"), rate("bad", "Not useful"), copy, share, said);
}

/** @param {Record<string, unknown>} narrowing */
function followUp(narrowing) {
  const input = /** @type {HTMLInputElement} */ (element("input", { type: "text", dir: "auto", maxlength: "1000", placeholder: "Ask a follow-up question", "aria-label": "Follow-up question" }));
  return element("form", { class: "follow", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    if (input.value.trim()) ask(input.value.trim(), narrowing);
  } }, input, element("button", { class: "quiet" }, "Ask"));
}
