/** Show the text of an answer: paragraphs, headings, lists, tables, emphasis, code and citations; sentences without support are marked. */

import { element } from "./dom.js";
import { cells, table } from "./table.js";

const INLINE = /\*\*(.+?)\*\*|`([^`]+)`|\[(\d{1,2})\]/g;
const ITEM = /^\s*(?:[-*•]|(\d{1,2})[.)])\s+/;

const HEADING = /^(#{1,6})\s+/;
const ROW = /^\s*\|(.+)\|\s*$/, RULE = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/;
const HIGHEST = 2, LOWEST = 4; // levels of headings: the first is the page's title

const REASONS = {
  uncited: "no source is cited",
  number: "a number is not in the cited source",
  negation: "the cited source says the opposite",
  subject: "the cited source says it of something else",
};

/**
 * @param {string} text
 * @param {{start: number, end: number, supported: boolean, reason?: string}[]} sentences Verdicts, by ranges of `text`
 * @param {(index: number, at: number) => Node} cite Makes the button of a citation; `at` is its place in `text`
 * @returns {Node[]}
 */
export function prose(text, sentences, cite) {
  /** @type {Node[]} */
  const blocks = [];
  /** @type {HTMLElement | null} */
  let list = null;
  /** The paragraph of a quote that goes on in the next line. @type {HTMLElement | null} */
  let quote = null;
  /** @type {Node[][][] | null} */
  let rows = null;
  let at = 0, level = HIGHEST - 1;
  const lines = text.split("\n");
  const counted = inOrder(lines);
  const top = Math.min(...lines.map((line) => line.match(HEADING)?.[1].length ?? 6));
  /** @param {number} from @param {number} to */
  const written = (from, to) => ranges(text, from, to, sentences).map((range) => shown(range, cite));
  for (const [number, line] of lines.entries()) {
    const start = at;
    at += line.length + 1;
    if (quote && line.trim()) {
      quote.append("\n", ...written(start, start + line.length));
      if (line.includes("”")) quote = null;
      continue;
    }
    const heading = line.match(HEADING), row = line.match(ROW);
    if (row && (rows || RULE.test(lines[number + 1] ?? ""))) {
      if (RULE.test(line)) continue;
      const found = cells(row[1], start + line.indexOf("|") + 1, "|").map((cell) => written(cell.start, cell.end));
      (rows ??= []).push(found);
      continue;
    }
    if (rows) blocks.push(table(rows));
    rows = null;
    if (!line.trim()) {
      list = quote = null;
      continue;
    }
    if (heading) {
      list = null;
      level = Math.min(HIGHEST + heading[1].length - top, level + 1, LOWEST);
      blocks.push(element(`h${level}`, {}, ...written(start + heading[0].length, start + line.length)));
      continue;
    }
    const item = line.match(ITEM);
    if (item && (!item[1] || counted.has(number))) {
      const content = written(start + item[0].length, start + line.length);
      const kind = item[1] ? "ol" : "ul";
      if (list?.localName !== kind) blocks.push((list = element(kind)));
      list.append(element("li", { value: item[1] }, ...content));
    } else {
      list = null;
      const paragraph = element("p", {}, ...written(start, start + line.length));
      blocks.push(paragraph);
      if (line.startsWith("“") && !line.includes("”")) quote = paragraph;
    }
  }
  if (rows) blocks.push(table(rows));
  return blocks;
}

/** Which lines are items of a numbered list: those that count up, or repeat the number just above. Another may begin with a date. @param {string[]} lines */
function inOrder(lines) {
  /** @type {Set<number>} */
  const found = new Set();
  let last = -1, before = NaN;
  for (const [at, line] of lines.entries()) {
    const number = Number(line.match(ITEM)?.[1] ?? NaN);
    if (Number.isNaN(number)) continue;
    if (number === before + 1 || (number === before && at === last + 1)) found.add(last).add(at);
    [last, before] = [at, number];
  }
  return found;
}

/**
 * Cut a range of the text at the limits of sentences without support.
 * @param {string} text @param {number} start @param {number} end
 * @param {{start: number, end: number, supported: boolean, reason?: string}[]} sentences
 * @returns {{text: string, start: number, reason: string | null}[]}
 */
function ranges(text, start, end, sentences) {
  const found = [];
  let at = start;
  for (const one of sentences) {
    if (one.supported || one.end <= at || one.start >= end) continue;
    const from = Math.max(at, one.start), to = Math.min(end, one.end);
    if (from > at) found.push({ text: text.slice(at, from), start: at, reason: null });
    found.push({ text: text.slice(from, to), start: from, reason: one.reason ?? "" });
    at = to;
  }
  if (at < end) found.push({ text: text.slice(at, end), start: at, reason: null });
  return found;
}

/** @param {{text: string, start: number, reason: string | null}} range @param {(index: number, at: number) => Node} cite */
function shown(range, cite) {
  const parts = inline(range.text, range.start, cite);
  if (range.reason === null) return element("span", {}, ...parts);
  const why = REASONS[/** @type {keyof typeof REASONS} */ (range.reason)] ?? "the cited source does not say this";
  return element("span", { class: "unsupported", title: `Check this: ${why}` }, ...parts, element("span", { class: "hidden-text" }, ` (not supported: ${why})`));
}

/** @param {string} text @param {number} start @param {(index: number, at: number) => Node} cite */
function inline(text, start, cite) {
  /** @type {(Node | string)[]} */
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(at, match.index));
    if (match[1]) parts.push(element("b", {}, ...inline(match[1], start + match.index + 2, cite)));
    else if (match[2]) parts.push(element("code", {}, match[2]));
    else parts.push(cite(Number(match[3]), start + match.index));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}
