// Single-key shortcuts: one registry, from which the help is made. Off while typing, and off for good in the profile.

import { all, body, one, workspace } from "./page.js";
import { currentRow, reply, threadId } from "./feed.js";

const stops = () => all(".message, .thread-item a, .hit a, .entry-topic, [data-review]").filter((item) => !item.parentElement.closest("[data-review]"));

function move(step) {
  const items = stops();
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : at + step;
  const target = at < 0 && items[0]?.classList.contains("message") ? items.length - 1 : next;
  items[Math.max(0, Math.min(items.length - 1, target))]?.focus();
}

function newThread() {
  const form = one("#new-thread");
  if (form) {
    form.open = true;
    one("#new-thread-title").focus();
    return;
  }
  const channel = one(".crumb") ?? one('#sidebar a[href*="/c/"]');
  if (channel) location.assign(`${channel.getAttribute("href")}#new-thread-title`);
}

const press = (selector) => one(selector, currentRow() ?? document)?.click();

function openMenu() {
  const menu = one(".message-more", currentRow() ?? document);
  if (!menu) return;
  menu.open = true;
  one(".menu-item", menu).focus();
}

/** [keys, what it does, how]; without keys it is done from the command palette alone. Others may add with `register`. */
export const shortcuts = [
  ["/", "Search", () => location.assign(`${workspace}search/`)],
  ["j", "Next message or thread", () => move(1)],
  ["k", "Previous message or thread", () => move(-1)],
  ["n", "Next unread thread", () => location.assign(`${workspace}next/${threadId ? `?from=${threadId}` : ""}`)],
  ["c", "New thread", newThread],
  ["r", "Reply to the message", () => reply(currentRow())],
  ["d", "Dive from the message", () => press("[data-dive]")],
  ["e", "Edit your message", () => press("[data-edit]")],
  ["m", "More to do with the message", openMenu],
  ["x", "Why this answer? What the agent read", () => press('a[href*="/context/"]')],
  ["+", "Helpful", () => press(".thumb")],
  ["-", "Not helpful", () => press(".thumb + .thumb")],
  ["g i", "Go to the inbox", () => location.assign(workspace)],
  ["p", "Pin to knowledge", () => press("[data-pin]")],
  ["g k", "Go to knowledge", () => location.assign(`${workspace}knowledge/`)],
  ["g m", "Go to mentions", () => location.assign(`${workspace}mentions/`)],
  ["?", "Keyboard help", () => showHelp()],
];

/** A page's own key takes the place of the general one. `isHere` tells whether it can be done on this page. */
export function register(keys, label, run, isHere = () => true) {
  const at = keys ? shortcuts.findIndex(([taken]) => taken === keys) : -1;
  if (at < 0) shortcuts.push([keys, label, run, isHere]);
  else shortcuts[at] = [keys, label, run, isHere];
}

function showHelp() {
  const dialog = one("#help");
  const list = document.createElement("dl");
  list.className = "help-list";
  for (const [keys, label] of shortcuts.filter(([some]) => some)) {
    const term = document.createElement("dt");
    keys.split(" ").forEach((key) => {
      const cap = document.createElement("kbd");
      cap.textContent = key.length === 1 && /[a-z]/.test(key) ? key.toUpperCase() : key;
      term.append(cap, " ");
    });
    const text = document.createElement("dd");
    text.textContent = label;
    list.append(term, text);
  }
  const title = document.createElement("h2");
  title.id = "help-title";
  title.textContent = "Keyboard";
  const close = document.createElement("button");
  close.className = "button";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(title, list, close);
  dialog.showModal();
}

const isTyping = (target) => target.isContentEditable || target.closest("input, textarea, select, dialog");
let first = "";
let timer;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
  const typed = first ? `${first} ${event.key.toLowerCase()}` : event.key.toLowerCase();
  first = "";
  clearTimeout(timer);
  const found = shortcuts.find(([keys]) => keys && keys === typed);
  if (found) {
    event.preventDefault();
    found[2]();
  } else if (shortcuts.some(([keys]) => keys.startsWith(`${typed} `))) {
    first = typed;
    timer = setTimeout(() => { first = ""; }, 1000);
  }
}

export function start() {
  if (body.dataset.shortcuts === "on") document.addEventListener("keydown", onKey);
  if (location.hash.startsWith("#new-thread") && one("#new-thread")) newThread();
}
