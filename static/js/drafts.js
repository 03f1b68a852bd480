// What is typed and not sent: for a thread or a dive there is a draft, saved soon, and at once where it is left.

import { showUnsent } from "./outbox.js";
import { all, body, browserStorage, isPassing, one, post, settled, spread, tabStorage, TRY_AGAIN, workspace } from "./page.js";

const MOST_UNSAVED = 5000; // ms of typing without a pause

const unsaved = new Set(); // fields whose text is not saved yet, be they on the page or not
const tried = new WeakMap(); // of a field: the texts that were sent to be saved since the last answer
const unanswered = new WeakSet(); // fields whose last text no server took, or a broken one
let saving = Promise.resolve();
let isLeft = false; // another page was asked for, and the server may have made it before it hears of what is saved from now on

export const isDrafted = (field) => field.matches("#composer-body, #dive-body");

let submittedForm = null; // it goes with the page, and is not lost

/** Whether somebody typed what stands in a field, here or in what came back refused. */
export const isUnsaved = (field) => field.value !== field.defaultValue || (field.value.trim() !== "" && field.form?.dataset.typed !== undefined);

/** Whether something is typed in `root` that would be lost with it. What only searches is no loss, nor is a password. */
export const isTyped = (root = document) => all("form[method=post] :is(textarea, input:not([type=hidden], [type=checkbox], [type=radio], [type=password]))", root)
  .some((field) => !isDrafted(field) && field.form !== submittedForm && isUnsaved(field));

addEventListener("submit", ({ target, defaultPrevented }) => { if (!defaultPrevented) submittedForm = target; });
addEventListener("input", () => { submittedForm = null; }); // the page stayed
addEventListener("beforeunload", (event) => { if (workspace && isTyped()) event.preventDefault(); }); // browsers ask in their own words

/** The version of the draft that is known here: it goes with the message that is sent of it. */
export const draftVersion = (field) => field.dataset.version;

const successors = new WeakMap(); // of a field: the one that has its text since it left the page

/** `next` goes on with the text of `field`: what is saved of that one, now or on its way, is known to it. */
export function succeed(field, next) {
  next.dataset.version = draftVersion(field);
  successors.set(field, next);
}

function setVersion(field, version) {
  for (let each = field; each; each = successors.get(each)) each.dataset.version = version;
}

/** Of a form whose `data-sending` is set it is not known yet what is left of its text. `leaves`: nobody is there to choose;
    `hides`: nor is the page. */
async function save(field, { leaves = false, hides = false } = {}) {
  if (field.form.dataset.sending) return;
  const text = field.value;
  const before = tried.get(field) ?? [];
  tried.set(field, [...before, text]);
  const fields = { body: text, version: draftVersion(field), sent: before.at(-1) ?? "", ...(leaves && { leaves: "1" }) };
  if (hides && (unanswered.has(field) || !fits(fields))) return keepHere(field, fields.sent);
  if (hides) keep(field, tabStorage, fields);
  let state;
  try {
    const { version } = await post(field.form.dataset.draftUrl, fields, { keepalive: hides });
    setVersion(field, version);
    tried.delete(field);
    unanswered.delete(field);
    forgetKept(field.form.dataset.draftUrl, text, keptTexts.get(field));
    offered(field)?.remove();
    if (field.value === text && !isLeft) unsaved.delete(field);
    state = text.trim() && field.value ? "Draft saved" : "";
  } catch (problem) {
    if (problem.code === "draft_changed") return onChanged(field, problem, before, { leaves, hides });
    if (isPassing(problem)) saveAgain();
    if (isPassing(problem) || [401, 403].includes(problem.status)) { // of the session, perhaps
      unanswered.add(field);
      keepHere(field, fields.sent, { leaves: false }); // a browser that crashes, or a phone that is out of memory, asks no page
    }
    state = problem.status ? problem.message : "Draft not saved: offline";
    if (problem.code === "stale_page") state = text.trim() ? "Draft not saved: reload the page" : "";
  }
  one("[data-saved]", field.form).textContent = state;
}
const saveAll = (options) => Promise.all([...unsaved].map((field) => save(field, options)));

function saveNow() {
  saveSoon.cancel();
  saving = saving.then(() => saveAll()).catch(reportError); // one after the other, or an older one might come last
}
const saveSoon = settled(saveNow, 800, MOST_UNSAVED);
const saveAgain = spread(() => { if (unsaved.size) saveNow(); }, TRY_AGAIN);

export function draftSoon(field) {
  unsaved.add(field);
  saveSoon();
}

/** Resolves once what is on its way is saved: it would come after what is sent of it. */
export const draftsSaved = () => saving;

/** Load the page anew, unless more is typed than drafts; answers whether it does. Drafts are saved first: the new page
    would not know of them. */
export async function reloadIfSaved() {
  saveNow();
  await saving;
  if (isTyped()) return false;
  location.reload();
  return true;
}

/** What was sent is no draft any more; what was not, or was typed on, is one. */
export function keepRest(field) {
  if (field.value.trim() || tried.has(field)) draftSoon(field);
  else unsaved.delete(field);
}

// --- two texts for one composer -----------------------------------------------------------------------------
const offered = (field) => (field.form ? one(".draft-choice", field.form) : null);

/** Another text stands: our own of an answer that was lost, or one that another tab or device saved. */
function onChanged(field, { text, version }, before, { leaves, hides }) {
  tried.delete(field);
  if (before.includes(text)) {
    setVersion(field, version);
    return save(field, { leaves, hides });
  }
  if (!leaves && !field.isConnected) return save(field, { leaves: true });
  one("[data-saved]", field.form).textContent = "Draft not saved";
  if (!leaves) offer(field, text, version);
}

/** Show the other text and let its writer choose. Shown already, only what it reads is put right. */
function offer(field, text, version) {
  let box = offered(field);
  if (!box) {
    box = one("[data-draft-choice]", field.form).content.firstElementChild.cloneNode(true);
    one(".composer-box", field.form).before(box);
    one("[data-keep]", box).addEventListener("click", () => take(field, field.value));
    one("[data-use]", box).addEventListener("click", () => take(field, box.text));
    one("[data-both]", box).addEventListener("click", () => take(field, `${box.text}\n\n${field.value}`));
  }
  [box.text, box.version] = [text, version];
  one(".draft-other", box).textContent = text;
}

/** From the other text on: what `text` is from now on is saved in its place. */
function take(field, text) {
  field.dataset.version = offered(field).version;
  offered(field).remove();
  if (field.value !== text) {
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  field.focus();
  unsaved.add(field);
  saveNow();
}

/** Another page sent `text`: it is nothing to choose any more, and what stands here is saved. */
export function withdraw(field, text) {
  const box = offered(field);
  if (box?.text.trim() !== text.trim()) return;
  box.remove();
  draftSoon(field);
}

// --- what could not be saved while its page was left -----------------------------------------------------------
// Browsers send 64 KiB of a page that is left. What is longer, or was typed while no server answered, stays in this browser
// until a later page has saved it. What is sent stays in this tab alone: nobody hears whether it was stored, nor whether the
// next page was made before.
const KEPT = `draft-${body.dataset.participant}-`;
const MOST_SENT = 60_000; // bytes
const keptTexts = new WeakMap(); // of a field: what of it is kept
let leftBytes = MOST_SENT;

function fits(fields) {
  const bytes = new URLSearchParams(fields).toString().length;
  if (bytes > leftBytes) return false;
  leftBytes -= bytes;
  return true;
}

function kept(url, storage) {
  try {
    return JSON.parse(storage[KEPT + url] ?? null);
  } catch {
    return null; // nobody of here wrote it
  }
}

function keep(field, storage, { body: text, version, sent }) {
  keptTexts.set(field, text);
  try {
    storage[KEPT + field.form.dataset.draftUrl] = JSON.stringify({ text, version, sent });
  } catch { /* no room: the version that was saved last stands */ }
}

/** Beside what another tab keeps, once this page `leaves`. */
function keepHere(field, sent, { leaves = true } = {}) {
  const url = field.form.dataset.draftUrl;
  const other = kept(url, browserStorage)?.text;
  const own = keptTexts.get(field);
  const isAnotherTabs = other && other !== own && !field.value.includes(other);
  if (isAnotherTabs && !leaves) return;
  const both = own && other?.includes(own) ? other.replace(own, () => field.value) : `${other}\n\n${field.value}`;
  const text = isAnotherTabs ? both : field.value;
  keep(field, browserStorage, { body: text, version: draftVersion(field), sent });
}

/** The session ended: what is typed and not saved stays in this browser for its writer's next page. */
export function keepUnsaved() {
  saveSoon.cancel();
  unsaved.forEach((field) => keepHere(field, tried.get(field)?.at(-1) ?? ""));
  unsaved.clear();
}

/** Once `text` is saved, which came of `source` where it does not hold it any more. */
function forgetKept(url, text, source) {
  for (const storage of [tabStorage, browserStorage]) {
    const here = kept(url, storage);
    if (here && (here.text === source || text.includes(here.text))) drop(url, storage);
  }
}

function drop(url, storage) {
  delete storage[KEPT + url];
}

/** Save what is kept: from its composer, if that is here, where its writer sees it and what else was saved; or from any page. */
function saveKept() {
  leftBytes = MOST_SENT;
  for (const storage of [tabStorage, browserStorage]) keptUrls(storage).forEach((url) => saveOne(url, storage));
  if (unsaved.size) saveNow();
}

function saveOne(url, storage) {
  const { text, version, sent } = kept(url, storage);
  const field = all("form[data-draft-url] textarea").find((each) => isDrafted(each) && each.form.dataset.draftUrl === url);
  if (!field) {
    post(url, { body: text, version, sent, leaves: "1" }).then(() => forgetKept(url, text), ({ status, code, message }) => {
      if (![403, 404].includes(status) || code === "stale_page") return;
      const problem = `What you had begun to write as a message cannot be sent any more. ${message} It said:`;
      if (text.trim()) showUnsent(problem, text, { drop: () => drop(url, storage) });
      else drop(url, storage); // nobody of here writes there any more
    });
  } else if (field.value === text || (version !== draftVersion(field) && field.value.endsWith(`\n\n${text}`))) {
    drop(url, storage); // it was saved, or joined to another text when its page was left
  } else if (!unsaved.has(field)) {
    [field.value, field.dataset.version] = [text, version];
    tried.set(field, [sent]);
    keptTexts.set(field, text);
    unsaved.add(field);
  }
}

const keptUrls = (storage) => Object.keys(storage).filter((key) => key.startsWith(KEPT)).map((key) => key.slice(KEPT.length))
  .filter((url) => kept(url, storage));

document.addEventListener("input", ({ target }) => { if (isDrafted(target)) draftSoon(target); });
document.addEventListener("change", ({ target }) => { if (target.id === "dive-body") saveNow(); }); // its dive may be left
document.addEventListener("openvibe:connected", () => { if (unsaved.size) saveNow(); });
addEventListener("beforeunload", () => { isLeft = true; });
addEventListener("pagehide", () => saveAll({ leaves: true, hides: true }));
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  isLeft = false;
  saveKept();
});
// What was typed before this script ran.
all("#composer-body, #dive-body").filter((field) => field.value !== field.defaultValue).forEach(draftSoon);
saveKept();
