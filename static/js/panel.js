// The right panel: its address stands in the URL as ?panel=, so that it survives a reload.

import { isTyped } from "./drafts.js";
import { all, body, focusWithin, one, refocus, reveal, workspace } from "./page.js";

const panel = one("#panel");
const shell = one(".shell");
// How one came to what is shown: what opened it, the id of the message that stands in (rows are replaced as they
// change), and the addresses of what was shown before, when a link inside the panel opened the next.
let way = { opener: null, row: "", trail: [] };
let newest = null; // what was asked for last: path, address, way, and whether it is shown; what came before it is nobody's

const shown = () => new URL(location.href).searchParams.get("panel") ?? "";

/** `path`: of what the panel shows, after the workspace's own; empty for nothing. */
export function setAddress(path) {
  const url = new URL(location.href);
  if (path) url.searchParams.set("panel", path);
  else url.searchParams.delete("panel");
  history.replaceState(history.state, "", url);
}

const addressOf = (url) => url.pathname.slice(workspace.length);
const mayGo = () => !isTyped(panel) || confirm("What you entered here is not saved. Leave it all the same?");

export async function open(href, from = null) {
  const url = new URL(href, location.href);
  if (!url.pathname.startsWith(workspace)) return location.assign(href);
  if (!mayGo()) return;
  const isInside = from && panel.contains(from);
  if (!isInside) return show(url, { opener: from, row: from?.closest(".message")?.id ?? "", trail: [] });
  const isNext = shown() && shown() !== addressOf(url); // pressed twice, it is asked for once more
  await show(url, { ...way, trail: isNext ? [...way.trail, shown()] : way.trail });
}

async function back() {
  if (!way.trail.length || !mayGo()) return;
  await show(new URL(workspace + way.trail.at(-1), location.href), { ...way, trail: way.trail.slice(0, -1) });
}

/** What htmx still waits for on behalf of the panel is not shown any more. */
function forgetAsked() {
  newest = null;
  htmx.trigger(body, "htmx:abort");
}

/** When nothing answers, the panel goes on showing what it shows, or is closed again. */
function onUnanswered() {
  if (panel.childElementCount) newest = null;
  else close();
}

async function show(url, by) {
  forgetAsked();
  const mine = { path: url.pathname + url.search, address: addressOf(url), way: by, isShown: false };
  newest = mine;
  const before = document.activeElement;
  shell.classList.add("has-panel");
  const isAnswered = await htmx.ajax("GET", mine.path, { target: panel, swap: "innerHTML" }).then(() => true, () => false);
  if (mine !== newest) return;
  if (!isAnswered) return onUnanswered();
  panel.tabIndex = -1;
  const now = document.activeElement;
  const isWaiting = [before, body].includes(now) || (way.row && now.closest(".message")?.id === way.row);
  if (!isWaiting) return; // whoever went elsewhere meanwhile, to write perhaps, stays there
  if (reveal(url.hash, panel)) return;
  if (before.hasAttribute("data-tab") && !before.isConnected) refocus(before, panel, panel);
  else focusWithin(panel, panel);
}

/** Whether it was open and is closed now: whoever typed something there that would be lost is asked. */
export function close({ refocuses = true } = {}) {
  if (!shell?.classList.contains("has-panel") || !mayGo()) return false;
  const { opener, row } = newest?.way ?? way;
  forgetAsked();
  shell.classList.remove("has-panel");
  panel.replaceChildren();
  setAddress("");
  if (opener && refocuses) refocus(opener, document.getElementById(row) ?? one("#main"));
  way = { opener: null, row: "", trail: [] };
  return true;
}

/** Where the panel lies over the page, what the keyboard reaches behind it is shown. */
function onFocusBehind({ target, relatedTarget }) {
  if (!shell.classList.contains("has-panel") || getComputedStyle(panel).position !== "fixed") return;
  if (target.getBoundingClientRect().left < panel.getBoundingClientRect().left) return;
  if (!close({ refocuses: false })) (panel.contains(relatedTarget) ? relatedTarget : panel).focus();
}

function button(name, mark, words) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = `icon-button panel-${name}`;
  made.setAttribute(`data-panel-${name}`, "");
  made.setAttribute("aria-label", words);
  made.innerHTML = `<svg class="icon"><use href="#${mark}"/></svg>`;
  panel.prepend(made);
}

function onShown({ detail }) {
  if (!shell.classList.contains("has-panel")) panel.replaceChildren(); // closed before it came
  if (!panel.childElementCount) return;
  const isNewest = newest && !newest.isShown && newest.path === detail.requestConfig?.path;
  if (isNewest) {
    newest.isShown = true;
    way = newest.way;
  }
  if (!one("[data-panel-close]", panel)) button("close", "i-close", "Close");
  if (way.trail.length && !one("[data-panel-back]", panel)) button("back", "i-back", "Back");
  const address = all("[data-address]", panel).at(-1)?.dataset.address; // it may say how it is found again
  if (address || isNewest) setAddress(address ?? newest.address);
}

export function start() {
  if (!panel) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-panel]");
    if (link?.hasAttribute("data-tab") && !panel.contains(link)) return; // a tab of the page changes the page
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      open(link.getAttribute("href"), link); // of an SVG link, too
    } else if (event.target.closest("[data-panel-close]")) close();
    else if (event.target.closest("[data-panel-back]")) back();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && !event.target.closest("textarea, input, dialog")) close();
  });
  one("#main").addEventListener("focusin", onFocusBehind);
  panel.addEventListener("htmx:afterSettle", onShown);
  body.addEventListener("htmx:responseError", (event) => { if (event.detail.target === panel) onUnanswered(); });
}
