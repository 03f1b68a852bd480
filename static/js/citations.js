// Chips of what an answer cites: on hover and focus a card says who said it, when, and the words, to whoever may see it.
// A click leads to the item in the answer's prompt, beside the page; without a script it is an ordinary link.

import { getOwn, one, workspace } from "./page.js";

const known = new Map(); // reference → HTML, empty where there is nothing to see
const card = document.createElement("div");
card.className = "cite-card";
card.id = "cite-card";
card.setAttribute("role", "tooltip");
card.hidden = true;
let shownFor = null;
let timer = 0;

async function learn(reference) {
  if (known.has(reference)) return known.get(reference);
  const response = await getOwn(`${workspace}previews/?${new URLSearchParams({ ref: reference })}`).catch(() => null);
  if (!response?.ok) return "";
  const html = (await response.json()).previews[reference] ?? "";
  known.set(reference, html);
  return html;
}

/** Under the chip, or over it where there is no room, and never past the edge of the window. */
function place(chip) {
  const at = chip.getClientRects()[0] ?? chip.getBoundingClientRect();
  const { width, height } = card.getBoundingClientRect();
  const below = at.bottom + 6;
  card.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8))}px`;
  card.style.top = `${below + height < innerHeight ? below : Math.max(8, at.top - height - 6)}px`;
}

function hide() {
  clearTimeout(timer);
  shownFor?.removeAttribute("aria-describedby");
  shownFor = null;
  card.hidden = true;
}

async function show(chip) {
  hide();
  shownFor = chip;
  const html = await learn(chip.dataset.reference);
  if (shownFor !== chip || !chip.isConnected || !html) return;
  card.innerHTML = html;
  card.hidden = false;
  chip.closest("#main, #panel").append(card); // in a landmark, as what it is about
  chip.setAttribute("aria-describedby", card.id);
  place(chip);
}

function onPointer({ target }) {
  const chip = target.closest?.("a.cite[data-reference]");
  clearTimeout(timer);
  if (card.contains(target) || (chip && chip === shownFor)) return;
  if (!chip && !shownFor) return;
  timer = setTimeout(chip ? () => show(chip) : hide, chip ? 150 : 200); // time to reach the card
}

export function start() {
  if (!workspace || !one("#main")) return;
  document.addEventListener("pointerover", onPointer);
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches?.("a.cite[data-reference]")) show(target);
    else hide();
  });
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("click", hide, { capture: true });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || card.hidden) return;
    hide();
    event.preventDefault(); // the card, and not what lies behind it
  }, { capture: true });
}
