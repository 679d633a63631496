/** The fields of an upload that its owner may fill in: title, tags and sharing. */

import { picker } from "./picker.js";

/**
 * @param {HTMLElement} form
 * @param {{title?: string, tags?: Record<string, unknown>, share?: string[]}} [present] Values to begin with
 */
export function uploadFields(form, { title = "", tags = {}, share = [] } = {}) {
  const titleField = /** @type {HTMLInputElement} */ (form.querySelector("[name=title]"));
  const tagField = /** @type {HTMLTextAreaElement} */ (form.querySelector("[name=tags]"));
  const readers = picker(/** @type {HTMLElement} */ (form.querySelector("[data-picker]")), share);
  titleField.value = title;
  tagField.value = Object.entries(tags).map(([name, value]) => `${name}: ${written(value)}`).join("\n");
  return { values: () => ({ title: titleField.value.trim() || null, tags: tagsOf(tagField.value), share: readers.values() }) };
}

/** A value of a tag as it is edited: texts as they are, unless they could be read as something else. @param {unknown} value */
function written(value) {
  return typeof value === "string" && read(value) === value ? value : JSON.stringify(value);
}

/** @param {string} text */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @param {string} text Lines of `name: value`; a name alone is true */
function tagsOf(text) {
  const pairs = text.split("\n").map((line) => line.split(/:(.*)/s, 2).map((part) => part.trim())).filter(([name]) => name);
  return Object.fromEntries(pairs.map(([name, value]) => [name, value ? read(value) : true]));
}
