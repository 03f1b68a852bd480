// Reactions, saved messages, who is here: their keys, closing the choice of emoji, and where the keyboard goes afterwards.

import { all, announce, body, one, workspace } from "./page.js";
import { currentRow } from "./feed.js";
import { register } from "./keys.js";

document.addEventListener("openvibe:presence", ({ detail }) => {
  all("[data-here]").forEach((dot) => { dot.hidden = !detail.includes(Number(dot.dataset.here)); });
});

const choices = () => all(".reactions[data-editing]");
const close = (choice) => one("[data-close-reactions]", choice)?.click();

register("l", "Save the message, or no longer", () => one("[data-save]", currentRow() ?? document)?.click());
register("g s", "Go to saved messages", () => location.assign(`${workspace}saved/`));
register(":", "Add a reaction to the message", () => one("[data-react]", currentRow() ?? document)?.click());

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-react]")) choices().filter((each) => each.isConnected && !each.contains(event.target)).forEach(close);
});
document.addEventListener("keydown", (event) => {
  const choice = event.key === "Escape" && event.target.closest?.(".reactions[data-editing]");
  if (!choice) return;
  event.preventDefault();
  close(choice);
});
// What was pressed is gone: its message has the keyboard.
body.addEventListener("htmx:afterSettle", (event) => {
  const { target } = event.detail;
  if (!target.matches?.(".reactions") || document.activeElement !== body) return;
  document.getElementById(target.id)?.closest(".message")?.focus({ preventScroll: true });
});
body.addEventListener("htmx:afterRequest", ({ detail: { successful, requestConfig } }) => {
  if (!successful || !requestConfig.elt.matches("form:has([data-save])")) return;
  announce(requestConfig.formData.has("unsave") ? "No longer saved." : "Saved.");
});
