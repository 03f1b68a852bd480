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
const soon = settled(refresh, 300);

document.addEventListener("openvibe:event", ({ detail }) => {
  if (detail.kind === "memory_changed" && one(`.memory-map[data-thread="${detail.thread}"]`)) soon();
});
