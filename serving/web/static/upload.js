/** The upload page: choose files, send them with progress, and wait until each can be found. */

import { Problem, call, signIn } from "./api.js";
import { onceConfirmed } from "./confirm.js";
import { byId, element } from "./dom.js";
import { uploadFields } from "./fields.js";
import { send } from "./send.js";

const MB = 1024 * 1024;
const FIRST_LOOK = 1000, SLOWEST = 8000, LOOKS = 60, ASK_WHY = 4, ASKED = 5;
const HOPELESS = [413, 415]; // the same file would be refused again
const form = /** @type {HTMLFormElement} */ (byId("upload"));
const input = /** @type {HTMLInputElement} */ (byId("files"));
const drop = byId("drop"), queue = byId("queue"), mine = byId("mine"), said = byId("said");
const fields = uploadFields(form);
const limit = Number(form.dataset.limit);
/** @type {{file: File, item: HTMLElement, state: HTMLElement}[]} Chosen and not yet sent */
let chosen = [];
let sending = false;
/** @type {Map<string, {state: HTMLElement, begun: number}>} Sent and not yet found, by document */
const waiting = new Map();

/** @param {number} bytes */
function sizeOf(bytes) {
  return bytes < MB ? `${Math.max(1, Math.round(bytes / 1024))} kB` : `${(bytes / MB).toFixed(1)} MB`;
}

/** @param {Iterable<File>} files */
function choose(files) {
  for (const file of files) {
    const state = element("div", { class: "soft tiny", role: "status" }, sizeOf(file.size));
    const item = element("li", { class: "card" }, element("b", {}, file.name), state);
    queue.append(item);
    if (file.size > limit) {
      fail(state, `The file is larger than the limit of ${Math.round(limit / MB)} MB.`);
      continue;
    }
    offer({ file, item, state });
  }
  input.value = "";
  draw();
}

/** Take a file among those to be sent. @param {{file: File, item: HTMLElement, state: HTMLElement}} entry */
function offer(entry) {
  chosen.push(entry);
  entry.item.append(element("button", { type: "button", class: "plain remove", "aria-label": `Leave out ${entry.file.name}`, onclick: () => {
    chosen = chosen.filter((one) => one !== entry);
    entry.item.remove();
    draw();
  } }, "Leave out"));
}

function draw() {
  byId("choices").hidden = !chosen.length;
  byId("send").textContent = chosen.length > 1 ? `Upload ${chosen.length} files` : "Upload";
  const title = /** @type {HTMLElement} */ (form.querySelector("#title")?.closest(".field"));
  title.hidden = chosen.length > 1; // each has its own
}

/** Say why a file was refused, without the list of types, which the page has. @param {HTMLElement} state @param {string} message */
function fail(state, message) {
  state.replaceChildren(element("p", { role: "alert" }, message.split(" Supported: ")[0] ?? ""));
}

/** Send a file; one that was refused for another reason than its content can be sent again. @param {{file: File, item: HTMLElement, state: HTMLElement}} entry @param {import("./send.js").Metadata} metadata @returns {Promise<string | null>} Its document */
async function sent(entry, metadata) {
  const { file, item, state } = entry;
  item.querySelector(".remove")?.remove();
  const bar = element("progress", { max: "100", value: "0", "aria-label": `Sending ${file.name}` });
  const note = element("span", {}, "Sending …");
  state.replaceChildren(bar, note);
  try {
    const { doc_id, known } = await send(file, metadata, (share) => bar.setAttribute("value", String(Math.round(100 * share))), (text) => (note.textContent = text));
    if (known) item.append(element("p", { class: "note" }, "You uploaded this file before: its title, tags and sharing are replaced by those given now."));
    state.textContent = "Sent. Waiting until it can be found …";
    return doc_id;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    fail(state, error.message);
    if (!HOPELESS.includes(error.status)) offer(entry);
    return null;
  }
}

/** Say of each upload in `waiting` when it can be found, or why not. One request looks after all of them. */
async function follow() {
  let pause = FIRST_LOOK;
  for (let look = 1; waiting.size && look <= LOOKS; look++) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 1.3, SLOWEST);
    try {
      const wanted = new URLSearchParams({ source_type: "upload", author: form.dataset.owner ?? "", include_archived: "true", limit: "200" });
      const { documents } = await (await call(`/api/documents?${wanted}`)).json();
      for (const one of documents) if (one.indexed_at) found(one);
      if (look % ASK_WHY === 0) for (const id of [...waiting.keys()].slice(0, ASKED)) await explain(id);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      pause = Math.max(pause, error.wait * 1000); // the uploads are stored: what fails here is only the look at them
    }
  }
  for (const { state } of waiting.values()) fail(state, "It is stored, but takes longer than usual to become searchable. Look at your uploads later.");
  waiting.clear();
}

/** @param {{doc_id: string, notes: {text: string}[]}} document */
function found({ doc_id: id, notes }) {
  const upload = waiting.get(id);
  if (!upload) return;
  waiting.delete(id);
  const seconds = Math.max(1, Math.round((performance.now() - upload.begun) / 1000));
  upload.state.replaceChildren(`Searchable in ${seconds} s. `, element("a", { href: `/documents/${id}` }, "Open it"));
  if (notes.length) upload.state.append(element("ul", { class: "plain-list" }, ...notes.map((note) => element("li", {}, note.text))));
}

/** @param {string} id */
async function explain(id) {
  const upload = waiting.get(id);
  const { state, reason } = await (await call(`/api/why?${new URLSearchParams({ source: id })}`)).json();
  if (!upload || (state !== "failed" && state !== "skipped")) return;
  waiting.delete(id);
  fail(upload.state, reason || "The file could not be read.");
}

/** Show the list of uploads as it is now. */
async function refresh() {
  try {
    mine.innerHTML = await (await call("/upload", { headers: { "X-Part": "1" } })).text(); // a template of ours, escaped on the server
    bind();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) said.textContent = error.message; // what to do then is said already
  }
}

function bind() {
  for (const button of mine.querySelectorAll("button")) {
    onceConfirmed(button, `Delete “${button.dataset.title}” for good?`, "Delete", async () => {
      try {
        await call(`/api/documents/${button.dataset.delete}`, { method: "DELETE" });
        await refresh();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        fail(/** @type {HTMLElement} */ (button.parentElement), error.message);
      }
    });
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!fields.check()) return;
  const batch = chosen, given = fields.values(), { title, tags, share } = given;
  const metadata = { title: batch.length === 1 ? title : null, tags, share };
  let refused = false;
  chosen = [];
  said.textContent = "";
  draw();
  sending = true;
  for (const entry of batch) {
    const begun = performance.now(), id = await sent(entry, metadata);
    if (id) waiting.set(id, { state: entry.state, begun });
    else refused = true;
  }
  sending = false;
  if (!refused && JSON.stringify(fields.values()) === JSON.stringify(given)) fields.clear();
  draw();
  await follow();
  await refresh();
});
addEventListener("signed-out", (event) => {
  if (!sending && !chosen.length) return;
  event.preventDefault(); // the files would have to be chosen again
  said.replaceChildren("Your session is over. ", element("a", { href: signIn(), target: "_blank" }, "Sign in"), " in a new tab, and then press Upload here.");
});
input.addEventListener("change", () => choose(input.files ?? []));
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  choose(event.dataTransfer?.files ?? []);
});
bind();
