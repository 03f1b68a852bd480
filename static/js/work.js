// The work of a thread, kept as it is now. A form that is open is left alone until it is closed or sent.

import { all, getElements, oneAtATime, one, replace, settled } from "./page.js";

const work = () => one("#work[data-work]");
const isEditing = (root) => all(".work-edit[open]", root).length > 0
  || all("input:not([type=hidden]), textarea", root).some((field) => field.value !== field.defaultValue);

const refresh = oneAtATime(async () => {
  const old = work();
  if (!old) return;
  if (isEditing(old)) return offer(old);
  const fresh = (await getElements(old.dataset.url, refresh))?.find((element) => element.id === "work");
  if (!fresh || old !== work()) return;
  if (isEditing(old)) return offer(old);
  for (const details of all("details[id][open]", old)) {
    const same = one(`#${CSS.escape(details.id)}`, fresh);
    if (same) same.open = true;
  }
  replace(old, fresh);
});
const refreshSoon = settled(refresh, 300);

/** Somebody else changed the work while a form is open here: say so, and let the reader choose when to look. */
function offer(root) {
  if (one(".work-stale", root)) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button work-stale";
  button.textContent = "The work has changed. Close the forms and show it";
  button.addEventListener("click", () => {
    all(".work-edit[open]", root).forEach((details) => { details.open = false; });
    all("form", root).forEach((form) => form.reset());
    refresh();
  });
  root.prepend(button);
}

document.addEventListener("openvibe:event", ({ detail }) => {
  if (["work_changed", "memory_changed"].includes(detail.kind) && String(detail.thread) === work()?.dataset.work) refreshSoon();
});
// Sending one form replaces the whole of the work: other forms that are open keep what was typed in them.
let open = [];
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const sent = detail.requestConfig?.elt;
  open = detail.target?.id === "work" ? all("details[id][open]", detail.target).filter((details) => !details.contains(sent)) : [];
});
document.addEventListener("htmx:afterSwap", () => {
  for (const old of open.splice(0)) {
    const now = document.getElementById(old.id);
    if (!now || now === old) continue;
    now.open = true;
    for (const typed of all("input:not([type=hidden]), textarea", old)) {
      const field = typed.value !== typed.defaultValue && one(`[name="${typed.name}"]`, now);
      if (field) field.value = typed.value;
    }
  }
});
// Ctrl+Enter sends a form, Escape closes it and not the panel: asked before the panel is.
document.addEventListener("keydown", (event) => {
  const details = event.target.closest?.(".work-edit[open]");
  if (!details) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form?.requestSubmit();
  if (event.key === "Escape") {
    event.preventDefault();
    details.open = false;
    one("summary", details).focus();
  }
}, true);
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.(".work-edit") && event.newState === "open") one("input:not([type=hidden]), textarea", event.target)?.focus();
}, true);
