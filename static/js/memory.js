// The memory map keeps up: while a compaction runs its numbers move, and once it is over the map is drawn anew.

import { all, announce, elements, getElements, getFragment, oneAtATime, one, replace, settled, workspace } from "./page.js";
import { setAddress } from "./panel.js";

const fresh = async (url) => (await getElements(url, soon))?.[0];

/** What is typed in a form goes on in the one that takes its place. */
function put(old, now) {
  for (const typed of all("input:not([type=hidden])", old).filter((field) => field.value !== field.defaultValue)) {
    const field = one(`input[name="${typed.name}"]`, now);
    if (field) field.value = typed.value;
  }
  replace(old, now);
}

const isInHand = (map) => Boolean(one("details[open]", map) || map.contains(document.activeElement?.closest?.("input")));

const refresh = oneAtATime(async () => {
  for (const map of all(".memory-map[data-url]")) {
    const state = await fresh(`${map.dataset.url}?part=state`);
    const old = one(".map-state", map);
    if (!state || !old) continue;
    if (one(".htmx-request", old)) {
      soon(); // the answer to what was pressed there comes first
      continue;
    }
    if (one(".map-progress", old) && !one(".map-progress", state)) {
      map.dataset.stale = "yes";
      announce(one("[data-outcome]", state)?.textContent ?? "");
    }
    put(old, state);
    // What somebody has opened, or is typing, stays as it is until they are done.
    if (!map.dataset.stale || isInHand(map)) continue;
    const whole = await fresh(map.dataset.shown);
    if (whole && !isInHand(map)) put(map, whole);
  }
});

// Steps through time replace the picture alone; the address says which step it is, so that it survives a reload.
let newest = 0; // an older answer never replaces a newer one
async function goToStep(link) {
  const picture = link.closest(".map-picture");
  const asked = (newest += 1);
  const response = await getFragment(`${link.pathname}?part=picture`).catch(() => null);
  const html = response?.ok ? await response.text().catch(() => "") : "";
  if (asked !== newest || !picture.isConnected) return;
  if (!html) {
    location.assign(link.href);
    return;
  }
  picture.closest(".memory-map").dataset.shown = link.pathname;
  const isInPanel = picture.closest("#panel");
  put(picture, elements(html)[0]);
  if (isInPanel) setAddress(link.pathname.slice(workspace.length));
  else history.replaceState(history.state, "", link.pathname);
}
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-step]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  goToStep(link);
});
const STEP_KEYS = { ArrowLeft: "#map-earlier", ArrowRight: "#map-later" };
document.addEventListener("keydown", (event) => {
  const picture = event.target.closest?.(".map-picture");
  if (!picture || !STEP_KEYS[event.key] || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  one(`${STEP_KEYS[event.key]}[data-step]`, picture)?.click();
});

// A summary that stands open shows what was deleted or edited below it no longer than it takes to ask.
const told = (inside) => all(":scope > .map-words, :scope > .map-original", inside).map((part) => part.textContent);

const freshen = oneAtATime(async () => {
  for (const inside of all(".memory-map .map-inside[data-url]")) {
    if (inside.closest("details:not([open])") || !one(".map-words", inside)) continue;
    const found = await getElements(`${inside.dataset.url}?inside`, soon);
    const now = document.createElement("div");
    now.append(...(found ?? []));
    const before = told(inside);
    if (!found || told(now).every((text, at) => text === before[at])) continue;
    inside.replaceChildren(...now.childNodes);
    htmx.process(inside);
  }
});
const soon = settled(() => { refresh(); freshen(); }, 300);
const renewStale = () => setTimeout(() => { if (all(".memory-map[data-stale]").some((map) => !isInHand(map))) soon(); }); // once the keyboard is where it goes
document.addEventListener("toggle", renewStale, true);
document.addEventListener("focusout", renewStale);

document.addEventListener("openvibe:event", ({ detail }) => {
  if (detail.kind === "memory_changed" && one(`.memory-map[data-thread="${detail.thread}"]`)) soon();
});
