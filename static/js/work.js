// The work of a thread, kept as it is now. A form that is open is left alone until it is closed or sent.

import { all, elements, getFragment, oneAtATime, one, settled } from "./page.js";

const work = () => one("#work[data-work]");
const isEditing = (root) => all(".work-edit[open]", root).length > 0
  || all("input:not([type=hidden]), textarea", root).some((field) => field.value !== field.defaultValue);

const refresh = oneAtATime(async () => {
  const old = work();
  if (!old) return;
  if (isEditing(old)) return offer(old);
  const response = await getFragment(old.dataset.url).catch(() => null);
  if (!response?.ok || old !== work() || isEditing(old)) return;
  const fresh = elements(await response.text()).find((element) => element.id === "work");
  if (!fresh || !old.isConnected) return;
  for (const details of all("details[id][open]", old)) {
    const same = one(`#${CSS.escape(details.id)}`, fresh);
    if (same) same.open = true;
  }
  const hadFocus = old.contains(document.activeElement);
  old.replaceWith(fresh);
  htmx.process(fresh);
  if (hadFocus) fresh.focus({ preventScroll: true });
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
document.addEventListener("htmx:afterSettle", () => {
  if (document.activeElement === document.body) work()?.focus({ preventScroll: true });
});
// Ctrl+Enter sends a form, Escape closes it and not the panel.
document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.(".work-form");
  if (!form) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  if (event.key === "Escape") {
    event.preventDefault();
    const details = form.closest("details");
    details.open = false;
    one("summary", details).focus();
  }
});
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.(".work-edit") && event.newState === "open") one("input:not([type=hidden]), textarea", event.target)?.focus();
}, true);
