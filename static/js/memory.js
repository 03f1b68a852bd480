// The memory map keeps up: while a compaction runs its numbers move, and once it is over the map is drawn anew.

import { all, elements, getFragment, oneAtATime, one, settled } from "./page.js";

async function fresh(map, part) {
  const response = await getFragment(`${map.dataset.url}${part ? `?part=${part}` : ""}`).catch(() => null);
  return response?.ok ? elements(await response.text())[0] : null;
}

function put(old, now) {
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  old.replaceWith(now);
  htmx.process(now);
  if (focused) document.getElementById(focused)?.focus();
}

const refresh = oneAtATime(async () => {
  for (const map of all(".memory-map[data-url]")) {
    const state = await fresh(map, "state");
    const old = one(".map-state", map);
    if (!state || !old) continue;
    const isOver = one(".map-progress", old) && !one(".map-progress", state);
    put(old, state);
    // What somebody has opened, or is typing, stays as it is.
    if (!isOver || one("details[open]", map) || map.contains(document.activeElement?.closest?.("input"))) continue;
    const whole = await fresh(map, "");
    if (whole) put(map, whole);
  }
});

// A summary that stands open shows what was deleted or edited below it no longer than it takes to ask.
const told = (inside) => all(":scope > .map-words, :scope > .map-original", inside).map((part) => part.textContent);

const freshen = oneAtATime(async () => {
  for (const inside of all(".memory-map .map-inside[data-url]")) {
    if (inside.closest("details:not([open])") || !one(".map-words", inside)) continue;
    const response = await getFragment(`${inside.dataset.url}?inside`).catch(() => null);
    const now = document.createElement("div");
    now.append(...elements(response?.ok ? await response.text() : ""));
    const before = told(inside);
    if (!response?.ok || told(now).every((text, at) => text === before[at])) continue;
    inside.replaceChildren(...now.childNodes);
    htmx.process(inside);
  }
});
const soon = settled(() => { refresh(); freshen(); }, 300);

document.addEventListener("openvibe:event", ({ detail }) => {
  if (detail.kind === "memory_changed" && one(`.memory-map[data-thread="${detail.thread}"]`)) soon();
});
