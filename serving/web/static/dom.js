/** Make elements. Texts become text nodes, so nothing that a document contains is ever parsed as HTML. */

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes] `on…` are listeners, null and false are left out
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map((child) => /** @type {Node | string} */ (child)));
  return made;
}

/** @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no #${id}`);
  return found;
}

/** Whether a click on a link opens it in another tab or window. @param {MouseEvent} event */
export function elsewhere({ ctrlKey, metaKey, shiftKey }) {
  return ctrlKey || metaKey || shiftKey;
}

/** Lines that stand for text which is being loaded. */
export function loading() {
  return element("div", { class: "loading", "aria-hidden": "true" }, element("span"), element("span"), element("span"));
}

const OWN = /^\/documents\/[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** @param {string} address An address of the web, or a path of ours */
export function safe(address) {
  return /^(https?:\/\/|\/(?!\/))/i.test(address) ? address : null;
}

/**
 * A link that opens pages of other hosts in a new tab, and our own ones here, whatever name this host is called by.
 * @param {string} address
 * @param {string} text
 */
export function link(address, text) {
  const known = safe(address);
  if (!known) return element("span", {}, text);
  const url = new URL(known, location.href);
  const own = url.origin === location.origin || OWN.test(url.pathname);
  return own ? element("a", { href: url.pathname + url.search + url.hash }, text) : element("a", { href: known, target: "_blank", rel: "noopener noreferrer" }, text);
}
