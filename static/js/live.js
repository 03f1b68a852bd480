// One event stream per tab. Events carry ids; what they mean is fetched, with the reader's rights of that moment.

import { all, body, getFragment, one, oneAtATime, settled, workspace } from "./page.js";
import { catchUp, conversation, refetch, threadId } from "./feed.js";
import { forgetNames } from "./composer.js";

let source = null;
let wasCut = false;
let mayBeGone = false;

// --- what is fetched again ----------------------------------------------------------------------------------
const refreshSidebar = oneAtATime(async () => {
  const response = await getFragment(`${workspace}sidebar/`).catch(() => null);
  if (response?.status === 404) return gone();
  if (!response?.ok || one("#sidebar details[open]")) return;
  const sidebar = one("#sidebar");
  const current = one("[aria-current='page']", sidebar)?.getAttribute("href");
  const focused = sidebar.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  sidebar.innerHTML = await response.text();
  all(".nav-item", sidebar).forEach((item) => {
    const href = item.getAttribute("href");
    if (href === current) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
    if (focused && href === focused) item.focus();
  });
});
const sidebarSoon = settled(refreshSidebar, 400);

/** Replace parts of the page by what the server shows now; the whole content goes when it is not visible any more. */
const refreshParts = oneAtATime(async () => {
  if (!conversation && !one("[data-refresh]") && !mayBeGone) return;
  mayBeGone = false;
  const response = await fetch(location.href, { cache: "no-store" }).catch(() => null);
  if (response && [403, 404].includes(response.status)) return gone();
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const parts = conversation ? [".feed-head"] : ["[data-refresh]"];
  for (const selector of parts) {
    const old = one(selector);
    const now = one(selector, fresh);
    if (!old || !now || one("details[open]", old) || old.innerHTML === now.innerHTML) continue;
    if (one(".htmx-request", old)) {  // its answer comes first
      partsSoon();
      continue;
    }
    const held = old.contains(document.activeElement) ? document.activeElement : null;
    const link = held?.getAttribute("href");
    const place = held?.closest("[id]")?.id;
    old.innerHTML = now.innerHTML;
    htmx.process(old);
    if (link) one(`[href="${CSS.escape(link)}"]`, old)?.focus();
    else if (place) (document.getElementById(place) ?? one("[data-review]", old))?.focus({ preventScroll: true });
  }
  if (conversation && Boolean(one("#composer")) !== Boolean(one("#composer", fresh))) location.reload();
});
const partsSoon = settled(refreshParts, 600);

/** Access ended: nothing of the conversation stays on the screen. */
export function gone() {
  source?.close();
  source = null;
  const note = document.createElement("div");
  note.className = "gone";
  note.setAttribute("role", "alert");
  const words = document.createElement("h1");
  words.textContent = "You no longer have access to this";
  const next = document.createElement("p");
  next.textContent = "You were removed, or it was closed to you. What you wrote stays with the team. Ask an owner or admin if this is a mistake.";
  const link = document.createElement("a");
  link.className = "button";
  link.href = "/";
  link.textContent = "Go to your workspaces";
  note.append(words, next, link);
  one("#main").replaceChildren(note);
  one("#panel").replaceChildren();
  one(".shell").classList.remove("has-panel");
  getFragment(`${workspace}sidebar/`).then((response) => { if (!response.ok) one("#sidebar").replaceChildren(); }, () => {});
}

// --- the stream ---------------------------------------------------------------------------------------------
const onMessage = {
  message_posted: () => catchUp(),
  message_changed: (event) => refetch(event.message),
  run_changed: (event) => refetch(event.message).then(catchUp),
  feedback_changed: (event) => refetch(event.message),
  pins_changed: (event) => refetch(event.message),
  episode_changed: (event) => event.message && refetch(event.message),
  dive_changed: (event) => refetch(event.message).then(partsSoon),
  thread_changed: () => {
    forgetNames();
    partsSoon();
  },
};

function onEvent(given) {
  const event = JSON.parse(given.data);
  if (event.thread && event.thread === threadId) onMessage[event.kind]?.(event);
  if (event.kind === "access_changed") {
    forgetNames();
    mayBeGone = true;
    refreshParts();
  }
  if (["channel_changed", "agent_changed", "members_changed"].includes(event.kind)) forgetNames();
  if (!["message_changed", "run_changed", "feedback_changed", "pins_changed", "work_changed", "memory_changed"].includes(event.kind)) {
    sidebarSoon();
    if (!conversation) partsSoon();
  }
  document.dispatchEvent(new CustomEvent("openvibe:event", { detail: event }));
}

function connect(after) {
  source = new EventSource(`${body.dataset.events}?after=${after}`);
  let last = after;
  source.addEventListener("message", (event) => {
    last = event.lastEventId || last;
    onEvent(event);
  });
  source.addEventListener("gone", gone);
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("open", () => {
    body.dataset.live = "on";
    if (wasCut) {
      catchUp();
      sidebarSoon();
    }
    wasCut = false;
  });
  source.addEventListener("error", () => {
    wasCut = true;
    body.dataset.live = "off";
    if (source?.readyState !== EventSource.CLOSED) return;
    // Refused, or a server without streams: look now and then instead.
    setTimeout(() => {
      if (!source) return;
      refreshSidebar();
      catchUp();
      connect(last);
    }, 8000);
  });
}

export function start() {
  if (body.dataset.events) connect(body.dataset.after);
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}
