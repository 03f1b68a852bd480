// The page of a run, alone or in the panel, kept as it is now.

import { all, getElements, oneAtATime, one, replace, settled } from "./page.js";

/** Whether somebody reads what they opened in it, or waits for the answer to something pressed there. */
const isInHand = (page) => Boolean(one("details[open], .htmx-request", page));

let isStale = false; // something changed while it was in somebody's hands

const refresh = oneAtATime(async () => {
  const old = one("#run-page");
  isStale = Boolean(old && isInHand(old));
  if (!old || isStale) return;
  const fresh = (await getElements(old.dataset.url, refresh))?.find((element) => element.id === "run-page");
  isStale = isInHand(old);
  if (!fresh || !old.isConnected || isStale || old.innerHTML === fresh.innerHTML) return;
  replace(old, fresh);
});
const refreshSoon = settled(refresh, 300);
const renewStale = () => { if (isStale) refreshSoon(); };
document.addEventListener("htmx:afterRequest", renewStale);
document.addEventListener("toggle", renewStale, true);

document.addEventListener("openvibe:event", ({ detail }) => {
  const isMeant = ["run_changed", "run_step", "work_changed", "message_changed"].includes(detail.kind);
  if (isMeant && String(detail.thread) === one("#run-page")?.dataset.thread) refreshSoon();
});
// A button of the page was used, and is perhaps gone with what was replaced: the keyboard stays here.
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.target?.id === "run-page" && document.activeElement === document.body) one("#run-page")?.focus({ preventScroll: true });
});

// A model thinks: how long, counted on from what the server said.
const begins = new WeakMap();
setInterval(() => {
  for (const place of all("[data-ticking]")) {
    if (!begins.has(place)) begins.set(place, Date.now() - 1000 * Number(place.dataset.ticking));
    place.textContent = `${Math.max(Math.round((Date.now() - begins.get(place)) / 1000), 0)} s`;
  }
}, 1000);

// What grows in an open fold is replaced as a whole: somebody who reads in it stays there, and at its end where they were at it.
let reading = null;
const placeIn = (part) => ({
  top: part.scrollTop,
  isAtEnd: part.scrollTop > 0 && part.scrollHeight - part.scrollTop - part.clientHeight < 8,
  hasFocus: part === document.activeElement,
});
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const part = detail.target?.matches?.(".run-thoughts, .run-steps-list") ? detail.target : null;
  reading = part && { around: part.parentElement, places: all("[tabindex]", part).map(placeIn) };
});
document.addEventListener("htmx:afterSwap", () => {
  if (!reading) return;
  all("[tabindex]", reading.around).forEach((each, index) => {
    const place = reading.places[index];
    if (!place) return;
    each.scrollTop = place.isAtEnd ? each.scrollHeight : place.top;
    if (place.hasFocus) each.focus({ preventScroll: true });
  });
  reading = null;
});
// What was opened below the end of what is in sight is brought into it.
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.target?.matches?.(".run-fold-body")) detail.target.scrollIntoView({ block: "nearest" });
});
