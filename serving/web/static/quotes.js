/** What the citations of an answer quote, by the places that the server found. */

/**
 * The sentences of an answer by places as JavaScript counts them: the server counts code points, of which an emoji is one.
 * @param {string} text @param {any[]} sentences @returns {any[]}
 */
export function placed(text, sentences) {
  const characters = Array.from(text);
  /** @param {number} place */
  const units = (place) => characters.slice(0, place).join("").length;
  return sentences.map((one) => ({ ...one, start: units(one.start), end: units(one.end) }));
}

/**
 * The quotes of a citation: those of its sentence, else all of its source.
 * @param {{sentences: any[], quotes: any[]}} answer @param {number} source Its number @param {number} [at] Its place in the text
 * @returns {{start: number, end: number, page: number | null}[]}
 */
export function quotesOf(answer, source, at) {
  const ofSource = answer.quotes.filter((one) => one.source === source);
  const here = ofSource.filter(({ sentence }) => at !== undefined && answer.sentences[sentence].start <= at && at <= answer.sentences[sentence].end);
  return here.length ? here : ofSource;
}

/**
 * Numbers for readers: sources count from 1 in the order in which an answer cites them. The server's numbers count all passages that it read.
 * @returns {(index: number) => number} From the server's number of a source; called first for a text, in its order
 */
export function numbering() {
  /** @type {Map<number, number>} */
  const numbers = new Map();
  return (index) => numbers.get(index) ?? numbers.set(index, numbers.size + 1).size;
}

const GAP = 10; // characters between neighbours, such as the mark of a list

/**
 * The address of a page of ours that marks the first quote, with the others as far as they are next to it; other addresses are kept.
 * @param {string} address @param {{start: number, end: number}[]} quotes
 */
export function marking(address, quotes) {
  const url = new URL(address, location.href);
  if (!quotes.length || !url.pathname.startsWith("/documents/") || !url.searchParams.has("chunk")) return address;
  let [{ start, end }] = quotes;
  const inOrder = [...quotes].sort((one, other) => one.start - other.start);
  for (const one of inOrder) if (one.start <= end + GAP) end = Math.max(end, one.end);
  for (const one of inOrder.reverse()) if (one.end >= start - GAP) start = Math.min(start, one.start);
  url.searchParams.set("from", String(start));
  url.searchParams.set("to", String(end));
  return url.href;
}
