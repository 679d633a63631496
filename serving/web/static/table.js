/** A table in a text: its first row is the header, and it scrolls by itself where it is too wide. */

import { element } from "./dom.js";

/** @param {Node[][][]} rows What each cell of each row holds */
export function table(rows) {
  const [header = [], ...body] = rows;
  return element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" }, element("table", {},
    element("thead", {}, element("tr", {}, ...header.map((cell) => element("th", { scope: "col" }, ...cell)))),
    element("tbody", {}, ...body.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, ...cell)))))));
}

/**
 * The cells of a line, as ranges of the text that contains it.
 * @param {string} line @param {number} start Its place in the text @param {string} mark What is between two cells
 * @param {(text: string) => number} [count] How places in the text are counted
 * @returns {{start: number, end: number}[]}
 */
export function cells(line, start, mark, count = (text) => text.length) {
  let at = start;
  return line.split(mark).map((cell) => {
    const begin = at + count(cell) - count(cell.trimStart());
    at += count(cell + mark);
    return { start: begin, end: begin + count(cell.trim()) };
  });
}
