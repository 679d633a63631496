/** The fields of an upload that its owner may fill in: title, tags and sharing. */

import { byId } from "./dom.js";
import { picker } from "./picker.js";

const LONGEST_NAME = 200;
/** An address, `public`, or what suggestions stand for: a group, a domain, a workspace. The server checks the rest. */
const READER = /^(?:public|(?:group:)?[^\s@:]+@[^\s@:]+\.[^\s@:]+|domain:@?[^\s@:]+\.[^\s@:]+|slack:\w+)$/i;

/**
 * @param {HTMLElement} form
 * @param {{title?: string, tags?: Record<string, unknown>, share?: string[]}} [present] Values to begin with
 */
export function uploadFields(form, { title = "", tags = {}, share = [] } = {}) {
  const titleField = /** @type {HTMLInputElement} */ (form.querySelector("[name=title]"));
  const tagField = /** @type {HTMLTextAreaElement} */ (form.querySelector("[name=tags]"));
  const readers = picker(/** @type {HTMLElement} */ (form.querySelector("[data-picker]")), share);
  titleField.value = title;
  tagField.value = Object.entries(tags).map(([name, value]) => `${plain(name) && !/^"|:/.test(name) ? name : JSON.stringify(name)}: ${written(value)}`).join("\n");
  /** Say what is wrong with the fields and go to the first that is. @returns {boolean} whether all are right */
  function check() {
    const faults = [fault(tagField, faultOfTags(tagField.value)), fault(readers.input, faultOfReaders(readers.values()))];
    faults.find((one) => one)?.focus();
    return !faults.some((one) => one);
  }

  /** Empty the fields: they are for one upload. */
  function clear() {
    titleField.value = tagField.value = "";
    readers.clear();
  }

  return { check, clear, values: () => ({ title: titleField.value.trim() || null, tags: tagsOf(tagField.value), share: readers.values() }) };
}

/** Show a fault below its field. @param {HTMLElement} field @param {string} text @returns {HTMLElement | null} The field, if there is one */
function fault(field, text) {
  byId(`${field.id}-fault`).textContent = text;
  field.setAttribute("aria-invalid", String(Boolean(text)));
  return text ? field : null;
}

/** @param {string} text */
function faultOfTags(text) {
  const names = lines(text).map(([name]) => name);
  if (names.includes("")) return "Write a name before the colon: topic: kitchen";
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice) return `“${twice}” is there twice. Write one line for each name.`;
  return names.some((name) => name.length > LONGEST_NAME) ? `The name of a tag has at most ${LONGEST_NAME} letters.` : "";
}

/** @param {string[]} readers */
function faultOfReaders(readers) {
  const wrong = readers.find((one) => !READER.test(one));
  return wrong ? `“${wrong}” is no address. Choose a suggestion, or write one like name@company.com.` : "";
}

const STRINGS = /"(?:[^"\\]|\\.)*"/g, NUMBERS = /[-+.\w]*\d[-+.\w]*/g;

/** A value of a tag as it is edited: texts as they are, unless they could be read as something else. @param {unknown} value */
function written(value) {
  return typeof value === "string" && plain(value) && read(value) === value ? value : JSON.stringify(value);
}

/** Whether a text stays the same as a part of a line. @param {string} text */
function plain(text) {
  return Boolean(text) && text.trim() === text && !/[\r\n]/.test(text);
}

/** The value that a text stands for, unless a number in it would be written in another way, as "1.10" and long IDs. @param {string} text */
function read(text) {
  try {
    const value = JSON.parse(text);
    const numbers = text.replace(STRINGS, "").match(NUMBERS) ?? [];
    return numbers.every((one) => String(Number(one)) === one) ? value : text;
  } catch {
    return text;
  }
}

/** A name, in quotes if it has a colon or more than a line, and what follows its colon. */
const LINE = /^("(?:[^"\\]|\\.)*"(?=\s*(?::|$))|[^:]*)(?::(.*))?$/s;

/** @param {string} text @returns {[string, string][]} Names and values as they are written */
function lines(text) {
  const found = text.split("\n").map((line) => line.trim()).filter((line) => line).map((line) => line.match(LINE) ?? []);
  return found.map(([, name = "", value = ""]) => [name.startsWith('"') ? String(read(name.trim())) : name.trim(), value.trim()]);
}

/** @param {string} text Lines of `name: value`; a name alone is true */
function tagsOf(text) {
  return Object.fromEntries(lines(text).map(([name, value]) => [name, value ? read(value) : true]));
}
