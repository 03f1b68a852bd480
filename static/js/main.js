// What a page starts. Everything here makes an already working page quicker; nothing is needed to read or post.

import { all, body, one, passToasts, refocus, toast } from "./page.js";
import * as feed from "./feed.js";
import * as composer from "./composer.js";
import * as live from "./live.js";
import * as panel from "./panel.js";
import * as keys from "./keys.js";
import * as commandPalette from "./command_palette.js";
import * as citations from "./citations.js";
import * as previews from "./previews.js";
import * as typing from "./typing.js";
import * as scrollPlaces from "./scroll_places.js";
import * as card from "./card.js";
import { enlarge } from "./images.js";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;

// Whoever comes back to the form of a new thread, because no answer came, sends it under the key that it had.
const threadKey = one("#new-thread [name=client_id]");
if (threadKey) {
  threadKey.value = history.state?.threadKey ?? threadKey.value;
  history.replaceState({ ...history.state, threadKey: threadKey.value }, "");
}

passToasts();

/** A long list of choices is searched by the words of each; what is ticked stays in sight. */
function addChoiceSearch(list) {
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Search";
  search.setAttribute("aria-label", `Search in: ${list.dataset.choices}`);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
  search.addEventListener("input", () => {
    const words = search.value.trim().toLowerCase();
    for (const choice of all(".check", list)) {
      choice.hidden = !one("input", choice).checked && !choice.textContent.toLowerCase().includes(words);
    }
  });
  list.prepend(search);
}

for (const list of all("[data-choices]")) addChoiceSearch(list);

document.addEventListener("click", (event) => {
  const { target } = event;
  if (target.closest("[data-dismiss]")) target.closest(".toast").remove();
  if (target.closest("a[data-enlarge]")) enlarge(event, target.closest("a[data-enlarge]"));
  if (target.closest("[data-sidebar]")) one(".shell").classList.toggle("shows-sidebar");
  const filters = target.closest("[data-filters]");
  if (filters) filters.setAttribute("aria-expanded", String(filters.getAttribute("aria-expanded") !== "true"));
  const copy = target.closest("[data-copy-text]");
  if (copy) navigator.clipboard?.writeText(copy.dataset.copyText).then(() => toast("Copied."));
  closeMenus(target);
});

/** A menu is left by a click elsewhere, or by the keyboard: what has the focus is never under it. */
function closeMenus(target) {
  all("details.menu[open]").forEach((menu) => { if (!menu.contains(target)) menu.open = false; });
}

const ARROWS = { ArrowDown: 1, ArrowUp: -1 };

/** Up and down lead through a menu, but not out of a field in which they mean something. */
function onMenuKey(event) {
  const menu = event.target.closest?.("details.menu[open]");
  if (!menu) return;
  if (event.key === "Escape") {
    event.preventDefault();
    menu.open = false;
    one("summary", menu).focus();
  } else if (ARROWS[event.key] && !event.target.matches("input, textarea, select")) {
    event.preventDefault();
    const stops = all("summary, a[href], button, input:not([type=hidden]), textarea, select", menu).filter((stop) => stop.checkVisibility());
    stops[stops.indexOf(event.target) + ARROWS[event.key]]?.focus();
  }
}
document.addEventListener("keydown", onMenuKey);

/** Whoever goes on writing a message begins where its text ends; the browser would begin before it. */
function beginAtEnd(field) {
  if (field.dataset.begun || field.selectionEnd) return;
  field.dataset.begun = "yes";
  field.setSelectionRange(field.value.length, field.value.length);
}
document.addEventListener("focusin", ({ target }) => {
  if (target.matches("[data-select]")) target.select();
  if (target.matches("#composer-body, #dive-body, [data-editing] textarea[name=body]")) beginAtEnd(target);
  closeMenus(target);
});
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
    all("[data-theme-color]").forEach((meta) => {
      const { themeColor } = meta.dataset;
      meta.media = value === "system" ? `(prefers-color-scheme: ${themeColor})` : value === themeColor ? "all" : "not all";
    });
    all("button", target).forEach((button) => button.toggleAttribute("aria-pressed", false));
    event.submitter.setAttribute("aria-pressed", "true");
    fetch(target.action, { method: "POST", headers: { "HX-Request": "true" }, body: new FormData(target, event.submitter) });
  }
});

// Whoever pressed something in a part that is shown anew goes on where they were.
const REPLACED = "#work, .carried, .map-search";
let held = null;
body.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  held = target.matches(REPLACED) && target.contains(document.activeElement) ? document.activeElement : null;
});
body.addEventListener("htmx:afterSettle", ({ target }) => {
  if (held && target.matches(REPLACED) && document.activeElement === body) refocus(held, target);
  held = null;
});

// An answer that says where it belongs is shown there even when it is a refusal; others become a note.
body.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.xhr.getResponseHeader("HX-Retarget")) event.detail.shouldSwap = true;
});
body.addEventListener("htmx:responseError", (event) => {
  if (!event.detail.xhr.getResponseHeader("HX-Retarget")) toast("That did not work. Nothing was changed; try again in a moment.");
});
body.addEventListener("htmx:sendError", () => toast("The server cannot be reached. Nothing was changed; try again in a moment."));

const firstShown = (selector) => all(selector).find((element) => element.checkVisibility());

/** A page that came back with what is wrong with a form: the keyboard begins there, and a screen reader reads it. */
function beginAtProblem() {
  const problem = firstShown("main [aria-invalid=true]") ?? firstShown("main .form-problem[role=alert]");
  if (!problem) return;
  if (problem.matches(".form-problem")) problem.tabIndex = -1;
  problem.focus();
}

beginAtProblem();
[feed, composer, panel, keys, commandPalette, live, previews, citations, card, typing, scrollPlaces].forEach((part) => part.start());
