// What a page starts. Everything here makes an already working page quicker; nothing is needed to read or post.

import { all, body, one, toast } from "./page.js";
import * as feed from "./feed.js";
import * as composer from "./composer.js";
import * as live from "./live.js";
import * as panel from "./panel.js";
import * as keys from "./keys.js";
import * as commandPalette from "./command_palette.js";
import * as previews from "./previews.js";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;

document.addEventListener("click", (event) => {
  const { target } = event;
  if (target.closest("[data-dismiss]")) target.closest(".toast").remove();
  if (target.closest("[data-sidebar]")) one(".shell").classList.toggle("shows-sidebar");
  const filters = target.closest("[data-filters]");
  if (filters) filters.setAttribute("aria-expanded", String(filters.getAttribute("aria-expanded") !== "true"));
  const copy = target.closest("[data-copy-text]");
  if (copy) navigator.clipboard?.writeText(copy.dataset.copyText).then(() => toast("Copied."));
  all("details.menu[open]").forEach((menu) => { if (!menu.contains(target)) menu.open = false; });
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = event.target.closest?.("details.menu[open]");
  if (!menu) return;
  event.preventDefault();
  menu.open = false;
  one("summary", menu).focus();
});
document.addEventListener("focusin", (event) => { if (event.target.matches("[data-select]")) event.target.select(); });
const SENDING = 10_000; // after that it may be sent again: the first one perhaps never arrived

/** A form that loads the next page is sent once, however often its button is pressed meanwhile. */
function sendOnce(event) {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  if (form.dataset.sent) return event.preventDefault();
  setTimeout(() => {
    if (event.defaultPrevented) return; // a script sends it
    form.dataset.sent = "yes";
    setTimeout(() => { delete form.dataset.sent; }, SENDING);
  });
}

addEventListener("pageshow", () => all("form[data-sent]").forEach((form) => { delete form.dataset.sent; })); // gone back to

document.addEventListener("submit", (event) => {
  const { target } = event;
  sendOnce(event);
  if (event.defaultPrevented) return;
  if (target.dataset.confirm && !confirm(target.dataset.confirm)) event.preventDefault();
  if (target.matches("[data-theme-switch]") && event.submitter) {
    event.preventDefault();
    const { value } = event.submitter;
    document.documentElement.dataset.theme = value;
    all("button", target).forEach((button) => button.toggleAttribute("aria-pressed", false));
    event.submitter.setAttribute("aria-pressed", "true");
    fetch(target.action, { method: "POST", headers: { "HX-Request": "true" }, body: new FormData(target, event.submitter) });
  }
});

// An answer that says where it belongs is shown there even when it is a refusal; others become a note.
body.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.xhr.getResponseHeader("HX-Retarget")) event.detail.shouldSwap = true;
});
body.addEventListener("htmx:responseError", (event) => {
  if (!event.detail.xhr.getResponseHeader("HX-Retarget")) toast("That did not work. Nothing was changed; try again in a moment.");
});
body.addEventListener("htmx:sendError", () => toast("The server cannot be reached. Nothing was changed; try again in a moment."));

[feed, composer, panel, keys, commandPalette, live, previews].forEach((part) => part.start());
