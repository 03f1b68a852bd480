// What is typed and not sent: for a thread or a dive there is a draft, saved soon, and at once where it is left.

import { all, one, post, settled } from "./page.js";

const unsaved = new Set(); // fields whose text is not saved yet, be they on the page or not
let saving = Promise.resolve();

const isDrafted = (field) => field.matches("#composer-body, #dive-body");

/** Whether something is typed in `root`, or came back refused, that would be lost with it. What only searches is no loss. */
export const isTyped = (root = document) => all("form[method=post] :is(textarea, input:not([type=hidden], [type=checkbox], [type=radio]))", root)
  .some((field) => !isDrafted(field) && (field.value !== field.defaultValue || (field.value.trim() && field.form.dataset.typed !== undefined)));

/** Of a form whose `data-sending` is set it is not known yet what is left of its text. */
async function save(field, options) {
  if (field.form.dataset.sending) return;
  const text = field.value;
  const state = await post(field.form.dataset.draftUrl, { body: text }, options).then(
    () => {
      if (field.value === text) unsaved.delete(field);
      return text.trim() && field.value ? "Draft saved" : "";
    },
    (problem) => (problem.status ? problem.message : "Draft not saved: offline"),
  );
  one("[data-saved]", field.form).textContent = state;
}
const saveAll = (options) => Promise.all([...unsaved].map((field) => save(field, options)));

function saveNow() {
  saveSoon.cancel();
  saving = saving.then(() => saveAll()); // one after the other, or an older one might come last
}
const saveSoon = settled(saveNow, 800);

export function draftSoon(field) {
  unsaved.add(field);
  saveSoon();
}

/** Resolves once what is on its way is saved: it would come after what is sent of it. */
export const draftsSaved = () => saving;

/** What was sent is no draft any more; what was not, or was typed on, is one. */
export function keepRest(field) {
  if (field.value.trim()) draftSoon(field);
  else unsaved.delete(field);
}

document.addEventListener("input", ({ target }) => { if (isDrafted(target)) draftSoon(target); });
document.addEventListener("change", ({ target }) => { if (target.id === "dive-body") saveNow(); }); // its dive may be left
addEventListener("pagehide", () => saveAll({ keepalive: true }));
