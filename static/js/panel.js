// The right panel: its address stands in the URL as ?panel=, so that it survives a reload.

import { all, body, focusWithin, one, refocus, workspace } from "./page.js";

const panel = one("#panel");
const shell = one(".shell");
let opener = null;
let openerRow = ""; // the id of the message it stands in: rows are replaced as they change
let newest = null; // what was asked for last, by path and address, and whether it is shown; what came before it is nobody's
let trail = []; // addresses of what was shown before, when a link inside the panel opened the next

const shown = () => new URL(location.href).searchParams.get("panel") ?? "";

/** `path`: of what the panel shows, after the workspace's own; empty for nothing. */
export function setAddress(path) {
  const url = new URL(location.href);
  if (path) url.searchParams.set("panel", path);
  else url.searchParams.delete("panel");
  history.replaceState(history.state, "", url);
}

const addressOf = (url) => url.pathname.slice(workspace.length);

export async function open(href, from = null) {
  const url = new URL(href, location.href);
  if (!url.pathname.startsWith(workspace)) return location.assign(href);
  const goBack = wayBack();
  const isInside = from && panel.contains(from);
  if (!isInside) {
    opener = from;
    openerRow = from?.closest(".message")?.id ?? "";
    trail = [];
  } else if (shown() && shown() !== addressOf(url)) trail = [...trail, shown()]; // pressed twice, it is asked for once more
  await show(url, goBack);
}

async function back() {
  if (!trail.length) return; // pressed twice
  const goBack = wayBack();
  const url = new URL(workspace + trail.at(-1), location.href);
  trail = trail.slice(0, -1);
  await show(url, goBack);
}

/** What puts things right when nothing answers: the panel goes on showing what it shows, or is closed again. */
function wayBack() {
  const before = [opener, openerRow, trail];
  const address = shown();
  return () => {
    if (!panel.childElementCount) return close();
    [opener, openerRow, trail] = before;
    setAddress(address);
  };
}

/** What htmx still waits for on behalf of the panel is not shown any more. */
function forgetAsked() {
  newest = null;
  htmx.trigger(body, "htmx:abort");
}

async function show(url, goBack) {
  forgetAsked();
  const mine = { path: url.pathname + url.search, address: addressOf(url), isShown: false };
  newest = mine;
  const before = document.activeElement;
  shell.classList.add("has-panel");
  setAddress(mine.address);
  const isAnswered = await htmx.ajax("GET", mine.path, { target: panel, swap: "innerHTML" }).then(() => true, () => false);
  if (mine !== newest) return;
  if (!isAnswered) {
    newest = null;
    return goBack();
  }
  panel.tabIndex = -1;
  const now = document.activeElement;
  const isWaiting = [before, body].includes(now) || (openerRow && now.closest(".message")?.id === openerRow);
  if (isWaiting) focusWithin(panel, panel); // whoever went elsewhere meanwhile, to write perhaps, stays there
}

export function close({ refocuses = true } = {}) {
  if (!shell?.classList.contains("has-panel")) return false;
  forgetAsked();
  shell.classList.remove("has-panel");
  panel.replaceChildren();
  setAddress("");
  if (opener && refocuses) refocus(opener, document.getElementById(openerRow) ?? one("#main"));
  opener = null;
  trail = [];
  return true;
}

/** Where the panel lies over the page, what the keyboard reaches behind it is shown. */
function onFocusBehind({ target }) {
  if (!shell.classList.contains("has-panel") || getComputedStyle(panel).position !== "fixed") return;
  if (target.getBoundingClientRect().left >= panel.getBoundingClientRect().left) close({ refocuses: false });
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
  if (!one("[data-panel-close]", panel)) button("close", "i-close", "Close");
  if (trail.length && !one("[data-panel-back]", panel)) button("back", "i-back", "Back");
  let address = all("[data-address]", panel).at(-1)?.dataset.address; // it may say how it is found again
  if (newest && !newest.isShown) {
    if (newest.path !== detail.requestConfig?.path) return; // what comes late: the address is another one's by now
    newest.isShown = true;
    address ??= newest.address;
  }
  if (address) setAddress(address);
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
  body.addEventListener("htmx:responseError", (event) => { if (event.detail.target === panel) close(); });
}
