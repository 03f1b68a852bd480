// Where one was in the parts of a page that scroll by themselves, kept with the entry of the browser's history: "Back"
// and a reload lead there. Browsers do that for whole pages, and with pages that they kept as they were.

import { all, one, settled } from "./page.js";
import { rows } from "./feed.js";

const PARTS = ["main", "panel"]; // ids
const SAVED_AFTER = 150; // ms of quiet
const scroller = one("#scroller");

/** The first message in sight, and how far it is below the upper edge: rows above it may be others next time. */
function messagePlace() {
  if (!scroller || scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2) return null; // at the end
  const top = scroller.getBoundingClientRect().top;
  const row = rows().find((each) => each.getBoundingClientRect().bottom > top);
  return row ? { id: row.dataset.id, offset: row.getBoundingClientRect().top - top } : null;
}

function save() {
  const places = Object.fromEntries(PARTS.map((id) => [id, document.getElementById(id)?.scrollTop ?? 0]));
  history.replaceState({ ...history.state, places: { ...places, message: messagePlace() } }, "");
}
const saveSoon = settled(save, SAVED_AFTER);

function restore({ message, ...parts }) {
  for (const id of PARTS) {
    const part = document.getElementById(id);
    if (part && parts[id]) part.scrollTop = parts[id];
  }
  if (!message || !scroller) return;
  const row = all(".message", scroller).find((each) => each.dataset.id === message.id);
  if (row) scroller.scrollTop += row.getBoundingClientRect().top - scroller.getBoundingClientRect().top - message.offset;
  else if (!location.search.includes("at=")) location.replace(`?at=${message.id}`); // further up than what came with the page
}

export function start() {
  const [navigation] = performance.getEntriesByType("navigation");
  const isBack = navigation?.type === "back_forward";
  if (isBack && navigation.transferSize === 0 && navigation.decodedBodySize > 0) return location.reload(); // as it was then
  if ((isBack || navigation?.type === "reload") && history.state?.places) restore(history.state.places);
  document.addEventListener("scroll", saveSoon, { passive: true, capture: true });
  addEventListener("pagehide", save);
}
