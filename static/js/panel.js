// The right panel: its address stands in the URL as ?panel=, so that it survives a reload.

import { body, one, workspace } from "./page.js";

const panel = one("#panel");
const shell = one(".shell");
let opener = null;

function setAddress(path) {
  const url = new URL(location.href);
  if (path) url.searchParams.set("panel", path);
  else url.searchParams.delete("panel");
  history.replaceState(history.state, "", url);
}

export async function open(href, from = null) {
  const url = new URL(href, location.href);
  if (!url.pathname.startsWith(workspace)) return location.assign(href);
  opener = from;
  shell.classList.add("has-panel");
  setAddress(url.pathname.slice(workspace.length));
  await htmx.ajax("GET", url.pathname + url.search, { target: panel, swap: "innerHTML" });
  panel.tabIndex = -1;
  panel.focus({ preventScroll: true });
}

export function close() {
  if (!shell?.classList.contains("has-panel")) return false;
  shell.classList.remove("has-panel");
  panel.replaceChildren();
  setAddress("");
  opener?.focus?.();
  opener = null;
  return true;
}

function addClose() {
  if (!panel.childElementCount || one("[data-panel-close]", panel)) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "icon-button panel-close";
  button.dataset.panelClose = "";
  button.setAttribute("aria-label", "Close");
  button.innerHTML = '<svg class="icon"><use href="#i-close"/></svg>';
  panel.prepend(button);
}

export function start() {
  if (!panel) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-panel]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      open(link.href, link);
    } else if (event.target.closest("[data-panel-close]")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && !event.target.closest("textarea, input, dialog")) close();
  });
  panel.addEventListener("htmx:afterSwap", addClose);
  body.addEventListener("htmx:responseError", (event) => { if (event.detail.target === panel) close(); });
}
