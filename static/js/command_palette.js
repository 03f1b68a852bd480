// The command palette (Ctrl/⌘K): go to a place, search, do something. What the page already holds (the sidebar, its
// lists, the shortcuts) answers at once; the server adds threads, people and knowledge by name. Of the places where
// somebody was, only keys are kept: the server says which of them are still there for her, and how they are called.

import { all, body, one, post, settled, toast, workspace } from "./page.js";
import { reloadIfSaved } from "./drafts.js";
import { threadId } from "./feed.js";
import { register, shortcuts } from "./keys.js";

const dialog = one("#palette");
const input = dialog && one("input", dialog);
const list = dialog && one("#palette-list", dialog);
const MAX_RECENT = 12;
const MAX_SHOWN = 14;
const WAIT = 60; // ms between a key and the question to the server
const ON_MESSAGES = ["r", "d", "e", "x", "+", "-", "p"]; // shortcuts about the message that has the focus
const GOES = /^(\/|j|k|g .)$/; // shortcuts that a place of the list stands for, or that only move
const store = `openvibe:recent:${body.dataset.workspace}:${body.dataset.participant}`;

let asked = 0; // the newest question; an older answer is not shown
let answered = []; // places of the server for what is typed now
let shown = [];
let row = null; // the message that had the focus when the palette opened

// --- places -------------------------------------------------------------------------------------------------
const KINDS = [
  [/\/t\/(\d+)\/$/, "t", "i-thread", "Thread"],
  [/\/c\/(\d+)\/$/, "c", "i-hash", "Channel"],
  [/\/knowledge\/(\d+)\/$/, "k", "i-book", "Knowledge"],
  [/\/agents\/([a-z0-9-]+)\/$/, "a", "i-agent", "Agent"],
  [/\/people\/([a-z0-9_-]+)\/$/, "p", "i-people", "Person"],
];

function kindOf(href) {
  for (const [pattern, letter, icon, detail] of KINDS) {
    const match = pattern.exec(href);
    if (match) return { key: letter + match[1], icon, detail };
  }
  return { key: href, icon: "i-link", detail: "Page" };
}

const recent = () => {
  try {
    return JSON.parse(localStorage.getItem(store) || "[]").filter((key) => typeof key === "string");
  } catch {
    return [];
  }
};

function remember() {
  const { key, detail } = kindOf(location.pathname);
  if (detail === "Page") return;
  try {
    localStorage.setItem(store, JSON.stringify([key, ...recent().filter((other) => other !== key)].slice(0, MAX_RECENT)));
  } catch { /* storage is full or closed: nothing is remembered */ }
}

/** A link's words without what is only for screen readers, badges and keys. */
function wordsOf(link) {
  const named = one(".clip, .thread-name, .switcher-name", link) ?? one("span:not([aria-hidden], .visually-hidden, .avatar)", link) ?? link;
  const copy = named.cloneNode(true);
  all(".visually-hidden, .badge, .count, kbd, [aria-hidden]", copy).forEach((part) => part.remove());
  return copy.textContent.trim();
}

const LINKS = '#sidebar .nav-list a[href], #sidebar .menu-list a[href], #main .thread-item a[href], #main .crumb[href]';

/** A page of the settings, found by what its title says as well. */
function settingsPlace(link) {
  return { key: link.getAttribute("href"), icon: "i-gear", name: link.textContent.trim(), detail: link.title || "Settings", more: link.title, href: link.getAttribute("href") };
}

function heldPlaces() {
  const places = all(LINKS).map((link) => {
    const href = link.getAttribute("href");
    return { ...kindOf(href), name: wordsOf(link), href };
  });
  places.push(...all("[data-settings] a", dialog).map(settingsPlace));
  return places.filter((place, at) => place.name && places.findIndex((other) => other.href === place.href) === at);
}

// --- what may be done ---------------------------------------------------------------------------------------
/** Shortcuts that make sense here, and links that the sidebar has only for those who may. */
function commands() {
  const fitting = shortcuts.filter(([keys, , , isHere]) => !GOES.test(keys) && (row || !ON_MESSAGES.includes(keys)) && (isHere?.() ?? true));
  return fitting.map(([keys, name, run]) => ({ name, detail: keys ? keys.toUpperCase() : "", icon: "i-check", run }));
}

const sidebarLink = (path) => one(`#sidebar a[href^="${workspace}${path}"]`);

function switchTheme() {
  const buttons = all("[data-theme-switch] button");
  const at = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  const next = buttons[(at + 1) % buttons.length];
  next?.click();
  toast(`Theme: ${next?.textContent.trim()}.`);
}

async function readAll() {
  try {
    const { read } = await post(list.dataset.readAll, {});
    if (!threadId || !(await reloadIfSaved())) toast(read ? `${read} thread${read === 1 ? "" : "s"} marked as read.` : "Everything was read already.");
  } catch (problem) {
    toast(problem.message);
  }
}

function registerCommands() {
  for (const [name, path] of [["New channel", "channels/new/"], ["New agent", "new-agent/"]]) {
    register("", name, () => location.assign(`${workspace}${path}`), () => sidebarLink(path));
  }
  register("", "Mark all as read", readAll);
  register("", "Switch theme", switchTheme, () => one("[data-theme-switch]"));
}

// --- ranking ------------------------------------------------------------------------------------------------
const split = (text) => text.toLowerCase().split(/\s+/).map((word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "")).filter(Boolean);

function isNamed(name, words) {
  const parts = ` ${name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ")}`;
  const whole = ` ${name.toLowerCase()}`;
  return words.every((word) => whole.includes(` ${word}`) || parts.includes(` ${word.replace(/[^\p{L}\p{N}]+/gu, " ")}`));
}

function results() {
  const typed = input.value.trim();
  const words = split(typed);
  const order = recent();
  const rank = (place) => { const at = order.indexOf(place.key); return at < 0 ? MAX_RECENT : at; };
  const here = kindOf(location.pathname).key;
  const held = heldPlaces();
  const named = typed ? held.filter((place) => isNamed(`${place.name} ${place.more ?? ""}`, words)) : held.filter((place) => rank(place) < MAX_RECENT || place.detail !== "Page" && place.icon !== "i-gear");
  const hrefs = new Set(named.map((place) => place.href));
  const more = answered.filter((place) => !hrefs.has(place.href) && isNamed(`${place.name} ${place.detail}`, words)); // of a shorter word, at first
  const places = [...named, ...more].filter((place) => typed || place.key !== here);
  places.sort((a, b) => rank(a) - rank(b));
  const done = commands().filter((command) => !typed || isNamed(command.name, words));
  const search = typed ? [{ name: `Search messages for “${typed}”`, detail: "Search", icon: "i-search", href: `${list.dataset.search}?q=${encodeURIComponent(typed)}` }] : [];
  const room = MAX_SHOWN - Math.min(done.length, 6) - search.length;
  return [...places.slice(0, Math.max(room, 6)), ...done, ...search];
}

// --- the list -----------------------------------------------------------------------------------------------
const idOf = (item) => item.href ?? item.name;

function line(item, at) {
  const element = document.createElement("li");
  element.className = "palette-item";
  element.id = `palette-${at}`;
  element.setAttribute("role", "option");
  element.innerHTML = `<svg class="icon" aria-hidden="true"><use href="#${item.icon}"/></svg><span class="clip"></span><span class="quiet-note clip"></span>`;
  element.children[1].textContent = item.name;
  element.children[2].textContent = item.detail;
  return element;
}

function select(at) {
  const options = [...list.children];
  options.forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
  if (options[at]) input.setAttribute("aria-activedescendant", options[at].id);
  else input.removeAttribute("aria-activedescendant");
  options[at]?.scrollIntoView({ block: "nearest" });
}

const selected = () => [...list.children].findIndex((option) => option.getAttribute("aria-selected") === "true");

/** The list anew; whoever has moved to a line stays on it. */
function draw({ keep = false } = {}) {
  const at = selected();
  const before = keep && at > 0 ? idOf(shown[at]) : null;
  shown = results();
  list.replaceChildren(...shown.map(line));
  select(Math.max(0, shown.findIndex((item) => idOf(item) === before)));
}

async function ask() {
  const number = ++asked;
  const query = new URLSearchParams({ q: input.value.trim(), recent: recent().filter((key) => /^[tkc]\d/.test(key)).join(",") });
  const response = await fetch(`${list.dataset.places}?${query}`, { headers: { Accept: "application/json" } }).catch(() => null);
  const places = response?.ok ? (await response.json()).places : [];
  if (number !== asked || !dialog.open) return; // something else was typed meanwhile
  answered = places.map((place) => ({ ...place, icon: kindOf(place.href).icon }));
  draw({ keep: true });
  one("[role=status]", dialog).textContent = `${shown.length} result${shown.length === 1 ? "" : "s"}`;
}

const askSoon = settled(ask, WAIT);

function choose(item) {
  if (!item) return;
  dialog.close(); // gives the focus back, so that what is done finds the message it is about
  if (item.href) location.assign(item.href);
  else item.run();
}

export function open() {
  if (dialog.open || one("dialog[open]")) return;
  row = document.activeElement.closest(".message");
  input.value = "";
  answered = [];
  dialog.showModal();
  input.focus();
  draw();
  ask();
}

function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    select((selected() + step + shown.length) % shown.length);
  } else if (event.key === "Enter" && !event.isComposing && event.target === input) {
    event.preventDefault();
    choose(shown[selected()]);
  }
}

export function start() {
  if (!dialog) return;
  document.documentElement.classList.toggle("is-mac", /Mac|iPhone|iPad/.test(navigator.platform));
  remember();
  registerCommands();
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) {
      event.preventDefault();
      open();
    } else if (event.target === dialog || event.target.closest("[data-palette-close]")) dialog.close();
  });
  dialog.addEventListener("keydown", onKey);
  input.addEventListener("input", () => {
    asked += 1;
    draw();
    askSoon();
  });
  list.addEventListener("click", (event) => choose(shown[[...list.children].indexOf(event.target.closest("[role=option]"))]));
}
