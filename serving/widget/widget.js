/* The Concordance chat widget:
   <script src="https://HOST/widget.js" data-widget="NAME" async></script> */
(() => {
  "use strict";
  const tag = document.currentScript ?? document.querySelector("script[data-widget]");
  if (!tag?.dataset.widget || customElements.get("concordance-widget")) return;
  if (!("adoptedStyleSheets" in document && "TextDecoderStream" in window)) return; // a browser from before 2023
  const { widget, title = "Ask the docs", label = "Ask", suggestions = "" } = tag.dataset;
  const api = new URL(`api/widget/${encodeURIComponent(widget)}/`, tag.src);

  const FEWEST = 10; // words of a selection to ask about
  const MOST_SELECTED = 5000; // characters, as of each of the last four messages:
  const MOST_REMEMBERED = 1500;
  const SILENCE_MS = 60_000; // without a byte
  const HIGHLIGHT_MS = 2500;
  const UNAVAILABLE = "The assistant is temporarily unavailable. Try again.";
  const ICONS = {
    chat: "M20 12a8 8 0 0 1-8 8H4l1.8-2.9A8 8 0 1 1 20 12ZM8.5 10.5h7M8.5 14h4",
    close: "M6 6l12 12M18 6 6 18",
    fresh: "M12 5v14M5 12h14",
    send: "M12 19V5M6 11l6-6 6 6",
    stop: "M7 7h10v10H7z",
  };

  const STYLE = `
:host {
  all: initial; color-scheme: inherit;
  --bg: var(--concordance-background, light-dark(#fff, #1a1c22)); --text: var(--concordance-text, light-dark(#1c1f26, #eceef3));
  --muted: light-dark(#59606e, #a9b0be); --soft: light-dark(#f3f4f8, #262a33); --danger: light-dark(#b3261e, #ffb4ab);
  --line: 1px solid light-dark(#d8dce5, #383d49); --edge: light-dark(#868d9b, #757d8c);
  --accent: var(--concordance-accent, light-dark(#3b49c7, #aab4ff)); --on-accent: var(--concordance-on-accent, light-dark(#fff, #14172b));
  --offset: var(--concordance-offset, 20px);
  font: 15px/1.55 var(--concordance-font, system-ui, sans-serif); color: var(--text);
}
* { box-sizing: border-box; margin: 0; padding: 0; }
[hidden] { display: none !important; }
button, textarea { font: inherit; color: inherit; border: 0; background: none; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
svg { flex: none; width: 20px; fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
button.pill, .send, .cite:hover { background: var(--accent); color: var(--on-accent); }
.pill {
  position: fixed; z-index: 2147483000; display: flex; align-items: center; gap: 8px; height: 48px; padding: 0 18px 0 14px;
  border-radius: 24px; font-weight: 600; box-shadow: 0 4px 18px rgb(0 0 0 / .24);
}
button.pill:hover, .send:hover { filter: brightness(1.1); }
.launcher { height: auto; min-height: 48px; max-width: calc(100vw - 2 * var(--offset)); overflow-wrap: anywhere; right: var(--offset); bottom: calc(var(--offset) + env(safe-area-inset-bottom, 0px)); }
.about { height: 36px; font-size: 14px; }
.few { height: 30px; padding: 0 12px; border: var(--line); background: var(--bg); color: var(--muted); font-size: 13px; pointer-events: none; }
dialog {
  position: fixed; z-index: 2147483001; inset: auto var(--offset) var(--offset) auto; border: var(--line);
  width: min(420px, calc(100vw - 2 * var(--offset))); height: min(640px, calc(100vh - 2 * var(--offset))); height: min(640px, calc(100dvh - 2 * var(--offset)));
  border-radius: var(--concordance-radius, 14px); background: var(--bg); color: var(--text);
  flex-direction: column; overflow: hidden; box-shadow: 0 12px 48px rgb(0 0 0 / .28);
}
dialog[open], header, .row, .quoted, .source { display: flex; }
header { align-items: center; gap: 4px; padding: 10px 10px 10px 18px; border-bottom: var(--line); }
h2 { flex: 1; min-width: 0; overflow-wrap: anywhere; font-size: 16px; line-height: 1.3; }
p, li, pre, strong, blockquote, .question, .source span { unicode-bidi: plaintext; } /* Arabic begins on the right */
.icon, .send { display: grid; place-items: center; width: 36px; height: 36px; border-radius: 9px; flex: none; }
.icon, .note, .source span span, blockquote, h3, .intro p, .wait { color: var(--muted); }
.icon:hover, .chip:hover, a.source:hover, .question, code, pre, .cite { background: var(--soft); }
.log { flex: 1; overflow-y: auto; padding: 18px; scrollbar-width: thin; overscroll-behavior: contain; overflow-wrap: anywhere; }
.log:focus-visible { outline-offset: -3px; }
.chip, .source { border: var(--line); border-radius: 10px; }
.chip { display: block; width: 100%; margin-top: 8px; padding: 9px 13px; text-align: start; }
.question { margin: 0 0 14px auto; width: fit-content; max-width: 88%; padding: 8px 14px; border-radius: 14px 14px 4px 14px; }
blockquote, .source span span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; font-size: 13px; }
blockquote { padding-inline-start: 10px; margin-bottom: 4px; border-inline-start: 3px solid var(--edge); flex: 1; }
.answer { margin-bottom: 26px; }
.answer:last-child { min-height: calc(100% - 70px); margin: 0; } /* so that the question can be at the top */
.answer > *, .answer div > * { margin-bottom: 10px; }
ul, ol { padding-inline-start: 22px; }
code { font: .9em ui-monospace, monospace; padding: 1px 4px; border-radius: 4px; }
pre { padding: 10px 12px; border-radius: 8px; white-space: pre-wrap; }
.cite {
  margin-inline: 4px 2px; padding: 1px 6px; border-radius: 6px; box-shadow: 0 0 0 1px var(--edge);
  color: var(--accent); font-size: 12px; font-weight: 650; text-decoration: none;
}
.note, h3 { font-size: 12.5px; }
.sources { list-style: none; padding: 0; display: grid; gap: 6px; }
.source { gap: 10px; padding: 8px 12px; color: inherit; text-decoration: none; font-size: 13.5px; line-height: 1.4; }
.chip:hover, a.source:hover { border-color: var(--accent); }
.source b, .error button { color: var(--accent); }
.source strong { display: block; font-weight: 600; }
.error { padding: 10px 14px; border: 1px solid var(--danger); border-radius: 10px; }
.error button { font-weight: 600; text-decoration: underline; }
.form { margin: 0 14px; border: 1px solid var(--edge); border-radius: 12px; }
.form:focus-within { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent); }
.row { align-items: flex-end; gap: 6px; padding: 5px; }
textarea { flex: 1; min-width: 0; resize: none; padding: 7px 8px; max-height: 132px; line-height: 1.45; }
textarea:focus-visible { outline: 0; } /* its frame shows it */
textarea::placeholder { color: var(--muted); opacity: 1; }
.quoted { padding: 10px 6px 0 12px; }
footer { padding: 8px 18px calc(12px + env(safe-area-inset-bottom, 0px)); text-align: center; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (max-width: 480px) {
  dialog { inset: 0 0 auto; width: 100%; height: 100vh; height: 100dvh; max-width: none; max-height: none; border: 0; border-radius: 0; padding-top: env(safe-area-inset-top, 0px); }
  textarea { font-size: 16px; } /* below, iOS zooms in */
}
@media (prefers-reduced-motion: no-preference) {
  dialog[open] { animation: rise .18s ease-out; }
  .wait { animation: pulse 1.4s infinite; }
}
@keyframes rise { from { opacity: 0; transform: translateY(10px); } }
@keyframes pulse { 50% { opacity: .45; } }
@media print { :host { display: none; } }
`;
  const sheet = new CSSStyleSheet();
  const follows = CSS.supports("color", "light-dark(#000, #fff)"); // of itself, without `paint`
  const scheme = matchMedia("(prefers-color-scheme: dark)");

  /** Give the sheet the colours of a scheme: in browsers from before May 2024, which have no `light-dark()`, those of the page's now. */
  function paint(host) {
    const page = getComputedStyle(host).colorScheme;
    const dark = page.includes("dark") && (scheme.matches || !page.includes("light"));
    sheet.replaceSync(follows ? STYLE : STYLE.replace(/light-dark\(([^,]+), ([^)]+)\)/g, dark ? "$2" : "$1"));
  }

  /** Return an element. Attributes that begin with `on` are listeners; texts are never parsed as HTML. */
  function h(name, attributes, ...children) {
    const node = document.createElement(name);
    if (name === "button") node.type = "button";
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }

  function icon(name) {
    const [svg, path] = ["svg", "path"].map((one) => document.createElementNS("http://www.w3.org/2000/svg", one));
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", ICONS[name]);
    svg.append(path);
    return svg;
  }

  const iconButton = (name, what, onclick) => h("button", { class: "icon", "aria-label": what, title: what, onclick }, icon(name));

  /** Return nodes for **bold**, `code` and [n]; `cite` makes the node of a number. */
  function inline(text, cite) {
    const nodes = [];
    let at = 0;
    for (const found of text.matchAll(/`([^`]+)`|\*\*(.+?)\*\*|\[(\d{1,3})\]/g)) {
      const before = text.slice(at, found.index);
      const [whole, code, bold, number] = found;
      nodes.push(number ? before.trimEnd() : before); // a citation stays in the line of what it supports
      at = found.index + whole.length;
      nodes.push(code ? h("code", {}, code) : bold ? h("strong", {}, ...inline(bold, cite)) : cite(+number));
    }
    return [...nodes, text.slice(at)];
  }

  /** Return blocks for paragraphs, lists and fenced code. `order` receives the sources, which count from 1 as they are cited. */
  function blocks(text, cite, order = []) {
    const made = [];
    const nth = (index) => cite(index, order.indexOf(index) + 1 || order.push(index));
    text.split(/^```.*$/m).forEach((part, index) => {
      if (index % 2) return made.push(h("pre", {}, part.trim()));
      let last = null;
      for (const line of part.split("\n")) {
        const [, number, item] = /^\s*(?:[-*•]|(\d+)[.)])\s+(.*)/.exec(line) ?? [];
        const words = inline(item ?? line.replace(/^#+\s+/, ""), nth);
        if (!line.trim()) last = null;
        else if (item) {
          if (last?.tagName !== (number ? "OL" : "UL")) made.push((last = number ? h("ol", { start: number }) : h("ul", {})));
          last.append(h("li", {}, ...words));
        } else if (last) (last.tagName === "P" ? last : last.lastChild).append(" ", ...words);
        else made.push((last = h("p", {}, ...words)));
      }
    });
    return made;
  }

  /** Yield each event's name and data. */
  async function* eventsOf(body, alive) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      const parts = (text + value).split(/\r?\n\r?\n/);
      text = parts.pop();
      for (const part of parts) {
        const { event, data } = Object.fromEntries(part.split(/\r?\n/).map((line) => line.split(/: (.*)/s)));
        if (data) yield [event, JSON.parse(data)];
      }
    }
  }

  const cut = (text, most) => text.slice(0, most).replace(/[\ud800-\udbff]$/, ""); // no half emoji

  function wordsIn(text) {
    if (!Intl.Segmenter) return text.split(/\s+/).filter(Boolean).length;
    return [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)].filter((one) => one.isWordLike).length;
  }

  /** Return a page's path without what differs between two addresses of it. */
  const pathOf = ({ pathname }) => decodeURI(pathname).replace(/(\/index)?(\.html)?\/?$/, "");

  /** Return the element that a link points to, if it is on this page. */
  function targetOf(link) {
    const url = new URL(link);
    if (url.origin !== location.origin || pathOf(url) !== pathOf(location)) return null;
    return document.getElementById(decodeURIComponent(url.hash.slice(1))) ?? document.querySelector("h1") ?? document.body;
  }

  /** Scroll to a heading and highlight what is below it, without a change to the page's styles. */
  function reveal(target, focus, quote) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const range = mark(quote, target);
    const low = range && range.getBoundingClientRect().bottom - target.getBoundingClientRect().top > innerHeight / 2;
    const shown = low ? range.startContainer.parentElement : target;
    shown.scrollIntoView({ behavior: still ? "auto" : "smooth", block: low ? "center" : "start" });
    const shade = { backgroundColor: "rgb(255 205 60 / .38)" };
    let node = target;
    do {
      node.animate([shade, { ...shade, offset: 0.6 }, still ? shade : { backgroundColor: "transparent" }], HIGHLIGHT_MS);
      node = node.nextElementSibling ?? (node === target ? node.parentElement.nextElementSibling : null);
    } while (node && !/^H[1-6]$/.test(node.tagName));
    if (!focus) return;
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  }

  /** Return the words of what is quoted, without marks of Markdown and tables. */
  const wordsOf = (quote) => quote.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/^\s*(?:[-+]|#+|\d+\.)\s+|[|*_`<>[\]\\]+/g, " ").split(/\s+/).filter(Boolean);

  /** Return a link with which the opened page highlights what is quoted, in browsers that support text fragments. */
  function highlighting({ link, snippet, quote }) {
    const words = wordsOf(quote ?? snippet);
    if (!words.length) return link;
    const parts = words.length > 10 ? [words.slice(0, 5), words.slice(-5)] : [words];
    const text = parts.map((part) => encodeURIComponent(part.join(" ")).replaceAll("-", "%2D")).join(",");
    return `${link}${link.includes("#") ? "" : "#"}:~:text=${text}`;
  }

  /** Return the range of the page's text, from an element on, that holds the letters and digits of a quote. */
  function rangeOf(quote, from) {
    const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
    const wanted = plain(wordsOf(quote).join(" "));
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const places = [];
    let letters = "";
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (from.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_PRECEDING) continue;
      [...node.data].reduce((at, character) => {
        for (const letter of plain(character)) {
          letters += letter;
          places.push([node, at, character.length]);
        }
        return at + character.length;
      }, 0);
    }
    const at = wanted ? letters.indexOf(wanted) : -1;
    if (at < 0) return null;
    const range = document.createRange();
    const [first, start] = places[at];
    const [last, end, length] = places[at + wanted.length - 1];
    range.setStart(first, start);
    range.setEnd(last, end + length);
    return range;
  }

  let marks;

  /** Mark what is quoted until the next source is opened. Return its range, if it is on the page. */
  function mark(quote, from) {
    const range = quote && window.Highlight ? rangeOf(quote, from) : null;
    CSS.highlights?.delete("concordance");
    if (!range) return null;
    if (!marks) {
      marks = new CSSStyleSheet();
      marks.replaceSync("::highlight(concordance) { background: #ffd84d; color: #1c1f26; }");
    }
    if (!document.adoptedStyleSheets.includes(marks)) document.adoptedStyleSheets = [...document.adoptedStyleSheets, marks];
    CSS.highlights.set("concordance", new Highlight(range));
    return range;
  }

  class Failure extends Error {
    /** `again`: text of the button that asks again, if any. */
    constructor(message, again = "Try again") {
      super(message);
      this.again = again;
    }
  }

  let only; // the element: pages that keep copies of themselves copy the tag, too

  class ConcordanceWidget extends HTMLElement {
    #token = null;
    #history = [];
    #selection = null; // what the next question is about
    #running = null; // the AbortController of the answer being written
    #phone = matchMedia("(max-width: 480px)");
    #scrolled = 0; // how far, which a browser may forget
    #returns = 0;

    /** Build the widget, or carry on where it was when the page took it away. */
    connectedCallback() {
      if (only !== this) return this.remove();
      if (this.shadowRoot) return this.#return();
      const root = this.attachShadow({ mode: "open" });
      root.adoptedStyleSheets = [sheet];
      this.launcher = h("button", { class: "pill launcher", "aria-haspopup": "dialog", onclick: () => this.open() }, icon("chat"), label);
      this.few = h("div", { class: "pill few", role: "status", hidden: "" }, "Select at least ten words");
      this.about = h("button", { class: "pill about", hidden: "", onpointerdown: (event) => event.preventDefault() }, icon("chat"), "Ask about this");
      this.log = h("div", { class: "log", role: "log", tabindex: "0", "aria-label": "Conversation" });
      this.quoted = h("div", { class: "quoted" });
      this.input = h("textarea", { rows: "1", dir: "auto", maxlength: "1000", "aria-label": "Your question", enterkeyhint: "send", oninput: () => this.#grow() });
      this.send = h("button", { class: "send", onclick: () => (this.#running ? this.#running.abort("stopped") : this.#submit()) });
      const head = h("header", {}, h("h2", { id: "title" }, title), iconButton("fresh", "New conversation", () => this.#restart()), iconButton("close", "Close", () => this.close()));
      const form = h("div", { class: "form" }, this.quoted, h("div", { class: "row" }, this.input, this.send));
      const foot = h("footer", { class: "note" }, "Answers are made from these pages and can be wrong.");
      this.panel = h("dialog", { "aria-labelledby": "title", onclose: () => this.#closed() }, head, this.log, form, foot);
      root.append(this.few, this.about, this.launcher, this.panel);
      this.log.addEventListener("scroll", () => (this.#scrolled = this.log.scrollTop), { passive: true });
      this.input.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        if (!this.#running) this.#submit();
      });
      this.panel.addEventListener("keydown", (event) => {
        event.stopPropagation(); // shortcuts of the page, such as / for its search
        if (event.key === "Escape") this.close();
      });
      for (const name of ["resize", "scroll"]) visualViewport.addEventListener(name, () => this.#fit());
      this.#watchSelection();
      this.#watchScheme();
      this.#restart();
    }

    /** Keep a phone's sheet above its keyboard, which covers the page without resizing it. */
    #fit() {
      const { height, offsetTop, scale } = visualViewport;
      const covered = this.#phone.matches && scale < 1.05; // else the reader zoomed in
      this.panel.style.height = covered ? `${height}px` : "";
      this.panel.style.top = covered ? `${offsetTop}px` : "";
    }

    /** Come back to a page whose body was replaced (Turbo, Astro, htmx). */
    disconnectedCallback() {
      if (only !== this) return;
      const back = () => this.isConnected || document.body?.append(this);
      if (++this.#returns % 20) queueMicrotask(back);
      else setTimeout(back, 1000); // no endless loop with a page that removes it
    }

    #return() {
      this.#watchScheme();
      if (this.panel.open && this.#phone.matches) {
        this.panel.removeAttribute("open"); // the sheet is modal only where it was opened
        this.panel.showModal();
      }
      this.log.scrollTop = this.#scrolled;
    }

    /** Follow the page's scheme, which media and attributes of root and body decide. */
    #watchScheme() {
      paint(this);
      if (follows) return;
      scheme.onchange = () => paint(this);
      this.observer ??= new MutationObserver(() => paint(this));
      for (const node of [document.documentElement, document.body]) this.observer.observe(node, { attributes: true });
    }

    /** Open the panel, on a phone as a sheet over the page. */
    open() {
      if (!this.panel.open) this.#phone.matches ? this.panel.showModal() : this.panel.show();
      this.launcher.hidden = true;
      this.#fit();
      this.input.focus();
    }

    close() {
      this.panel.close();
    }

    #closed() {
      this.launcher.hidden = false;
      if (document.activeElement === this || document.activeElement === document.body) this.launcher.focus();
    }

    #restart() {
      this.#running?.abort("stopped");
      this.#history = [];
      this.#ready(null);
      this.#askAbout(null);
      const chips = suggestions.split("|").filter((one) => one.trim());
      this.log.replaceChildren(
        h("div", { class: "intro" }, h("p", {}, "Ask a question. The answer cites the sections that it comes from."), ...chips.map((one) => h("button", { class: "chip", onclick: () => this.#ask(one.trim()) }, one))),
      );
      if (this.panel.open) this.input.focus();
    }

    #watchSelection() {
      let pressed = false, waiting = 0;
      const look = ({ type }) => {
        if (type.startsWith("pointer")) pressed = type === "pointerdown";
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(() => this.#offer(pressed));
      };
      for (const name of ["selectionchange", "pointerdown", "pointerup", "pointercancel"]) document.addEventListener(name, look);
      for (const name of ["scroll", "resize"]) addEventListener(name, look, { passive: true });
    }

    /** Show "Ask about this" below a selection of enough words, and below a shorter one how many it takes. */
    #offer(pressed) {
      const selection = getSelection();
      const text = cut(selection.toString().trim(), MOST_SELECTED);
      const typed = document.activeElement?.matches("input, textarea, [contenteditable]");
      const words = pressed || typed || selection.anchorNode === this.parentNode ? 0 : wordsIn(text);
      this.about.hidden = words < FEWEST;
      this.few.hidden = words < 2 || words >= FEWEST; // a double click selects one word
      const shown = [this.about, this.few].find((one) => !one.hidden);
      if (!shown) return;
      const box = selection.getRangeAt(0).getBoundingClientRect();
      const { offsetWidth: width, offsetHeight: height, style } = shown;
      const within = (place, size, most) => `${Math.max(8, Math.min(place, most - size - 8))}px`;
      style.left = within(box.left + (box.width - width) / 2, width, innerWidth);
      style.top = within(box.bottom + 8, height, innerHeight);
      this.about.onclick = () => {
        this.about.hidden = true;
        this.#askAbout({ text, page: location.pathname });
        this.open();
      };
    }

    #grow() {
      this.input.style.height = ""; // Firefox has no `field-sizing`
      this.input.style.height = `${this.input.scrollHeight}px`;
    }

    /** Set what the next question is about, if not all. */
    #askAbout(selection) {
      this.#selection = selection;
      this.quoted.hidden = !selection;
      this.input.placeholder = selection ? "Ask about the selected text" : "Ask a question";
      const drop = () => {
        this.#askAbout(null);
        this.input.focus();
      };
      if (selection) this.quoted.replaceChildren(h("blockquote", {}, selection.text.slice(0, 300)), iconButton("close", "Remove the selected text", drop));
    }

    #submit() {
      const selection = this.#selection;
      const question = this.input.value.trim() || (selection && "What does this mean?");
      if (!question) return;
      this.input.value = this.input.style.height = "";
      this.#askAbout(null);
      this.#ask(question, selection);
    }

    /** Show that an answer is being written, or that a question can be asked. */
    #ready(running) {
      this.#running = running;
      this.send.replaceChildren(icon(running ? "stop" : "send"));
      this.send.setAttribute("aria-label", running ? "Stop" : "Send");
    }

    #ask(question, selection = null) {
      this.log.querySelector(".intro")?.remove();
      const asked = h("div", { class: "question" }, h("span", { class: "hidden" }, "You asked: "), question);
      if (selection) asked.prepend(h("blockquote", {}, selection.text.slice(0, 300)));
      const view = h("div", { class: "answer" });
      this.log.append(asked, view);
      this.log.scrollTop = asked.offsetTop - this.log.offsetTop - 16;
      this.#answer(question, selection, view);
    }

    async #answer(question, selection, view) {
      this.#running?.abort("stopped");
      const running = new AbortController();
      this.#ready(running);
      let sources = [], text = "", frame = 0;
      const cite = (index, number, quote) => this.#cite(number, sources[index - 1], quote);
      // screen readers get the whole answer, not every piece
      const live = h("div", { "aria-hidden": "true" }, h("p", { class: "wait" }, "Looking through the pages…"));
      view.replaceChildren(h("span", { class: "hidden" }, "Answering"), live);
      try {
        for await (const [name, data] of this.#stream({ query: question, conversation_history: this.#history, selection }, running)) {
          if (name === "sources") sources = data.sources;
          else if (name === "restart") text = "";
          else if (name === "token") text += data.text;
          else if (name === "done") return this.#show(view, question, data, sources, cite);
          else if (name === "error") break;
          cancelAnimationFrame(frame);
          if (text) frame = requestAnimationFrame(() => live.replaceChildren(...blocks(text, cite)));
        }
        throw new Failure(UNAVAILABLE);
      } catch (error) {
        if (running.signal.reason === "stopped") view.replaceChildren(...blocks(text, cite), h("p", { class: "note" }, "Stopped."));
        else this.#fail(view, error instanceof Failure ? error : new Failure(UNAVAILABLE), question, selection);
      } finally {
        cancelAnimationFrame(frame);
        if (this.#running === running) this.#ready(null);
      }
    }

    #show(view, question, { answer, found, quoted, uncertain, quotes, unsupported, closest, note }, sources, cite) {
      for (const { number, text } of quotes) sources[number - 1].quote ??= text;
      if (!found) {
        const near = closest.map((one) => h("li", {}, this.#link({ ...one, quote: "" }, { class: "source" }, h("span", {}, h("strong", {}, one.title)))));
        return view.replaceChildren(
          h("p", {}, "I found no answer in these pages. Try other words, such as those of the page that you expect, or a more specific question."),
          ...(note ? [h("p", { class: "note" }, note)] : []),
          ...(near.length ? [h("h3", {}, "Closest pages"), h("ol", { class: "sources" }, ...near)] : []),
        );
      }
      const notes = note ? [note] : [];
      if (quoted) notes.push(uncertain ? "Quoted from the closest sections. They may not answer your question." : "Quoted from the sections below.");
      if (unsupported.length) notes.push("No section supports a part of this answer. Check it before you rely on it.");
      const written = quoted ? answer.replaceAll("\n“", "\n\n“") : answer; // each quote is a paragraph
      const own = (index, number) => cite(index, number, quotes[0]?.number === index ? quotes.shift().text : null);
      const order = [], text = blocks(written, own, order);
      const shown = order.length ? order.map((index) => sources[index - 1]) : sources;
      view.replaceChildren(...text, ...notes.map((one) => h("p", { class: "note" }, one)), h("h3", {}, "Sources"), h("ol", { class: "sources" }, ...shown.map((one, at) => h("li", {}, this.#source(one, at + 1)))));
      const said = [["user", question], ["assistant", answer]].map(([role, content]) => ({ role, content: cut(content, MOST_REMEMBERED) }));
      this.#history = [...this.#history, ...said].slice(-4);
    }

    #fail(view, { message, again }, question, selection) {
      const retry = () => {
        this.input.focus();
        this.#answer(question, again === "Try again" ? selection : null, view);
      };
      view.replaceChildren(h("div", { class: "error" }, h("p", {}, message), ...(again ? [h("button", { onclick: retry }, again)] : [])));
    }

    #link(source, attributes, ...children) {
      if (!source.link) return h("div", { role: "note", ...attributes }, ...children);
      const onclick = (event) => {
        const target = targetOf(source.link);
        if (!target || event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        if (this.#phone.matches) this.close();
        reveal(target, event.detail === 0, source.quote); // 0: by the keyboard
      };
      // in this tab, it would end the conversation
      return h("a", { ...attributes, href: highlighting(source), target: "_blank", rel: "noopener", onclick }, ...children);
    }

    #cite(number, source, quote) {
      if (!source) return `[${number}]`;
      return this.#link({ ...source, quote: quote ?? source.quote }, { class: "cite", "aria-label": `Source ${number}: ${source.title}` }, String(number));
    }

    #source(source, number) {
      const [name, ...above] = [...new Set([source.title, ...source.section_path])].reverse();
      const place = above.reverse().join(" › ") || source.snippet;
      return this.#link(source, { class: "source" }, h("b", {}, String(number)), h("span", {}, h("strong", {}, name), h("span", {}, place)));
    }

    /** Yield the events of an answer, with a new token if the old one is refused. */
    async *#stream(question, running) {
      let timer = 0;
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(() => running.abort("silent"), SILENCE_MS);
      };
      try {
        alive();
        const ask = () => this.#post("ask", running.signal, question);
        let response = await ask();
        if (response.status === 401) {
          this.#token = null;
          response = await ask();
        }
        if (response.status === 404 && question.selection) throw new Failure("This page is not indexed yet, so there is no answer from it alone.", "Ask about all pages");
        if (!response.ok) throw this.#refusal(response);
        yield* eventsOf(response.body, alive);
      } finally {
        clearTimeout(timer);
      }
    }

    async #post(path, signal, body) {
      const headers = body && { Authorization: `Bearer ${await this.#tokenFor(signal)}`, "Content-Type": "application/json" };
      return fetch(new URL(path, api), { method: "POST", credentials: "omit", headers, body: body && JSON.stringify(body), signal });
    }

    async #tokenFor(signal) {
      if (!this.#token || this.#token.until < Date.now()) {
        const response = await this.#post("token", signal);
        if (!response.ok) throw this.#refusal(response);
        const { token, expires_in } = await response.json();
        this.#token = { value: token, until: Date.now() + (expires_in - 30) * 1000 };
      }
      return this.#token.value;
    }

    #refusal({ status, headers }) {
      if (status === 429) {
        const minutes = Math.ceil((headers.get("Retry-After") ?? 60) / 60);
        if (minutes > 60) return new Failure(`Too many questions today. Please come back in ${Math.ceil(minutes / 60)} hours.`, null);
        return new Failure(`Too many questions at the moment. Please try again in ${minutes > 1 ? `${minutes} minutes` : "a minute"}.`);
      }
      if (status === 403 || status === 404) return new Failure(`The assistant is not set up for ${location.origin}.`, null);
      return status < 500 ? new Failure("This question cannot be read. Please rephrase it.", null) : new Failure(UNAVAILABLE);
    }
  }

  customElements.define("concordance-widget", ConcordanceWidget);
  only = document.createElement("concordance-widget");
  const start = () => document.body.append(only);
  if (document.body) start();
  else document.addEventListener("DOMContentLoaded", start);
})();
