// What events of the stream change on the page. They hold what the page needs of them: messages of the thread that is
// shown as HTML, what the sidebar marks as data. The little that they do not hold is fetched, not by all pages at once.

import { all, elements, getFragment, getOwn, isAnswered, one, oneAtATime, refocus, spread, workspace } from "./page.js";
import { arrive, catchUp, conversation, refetch, threadId } from "./feed.js";
import { forgetNames, showProblem } from "./composer.js";
import { reloadIfSaved } from "./drafts.js";
import { gone, signedOut } from "./access_end.js";
import * as stream from "./stream.js";

let mayBeGone = false;
let marked = 0; // what events changed on the page itself: an answer asked for before the newest of them is too old to be shown

// --- what is fetched again ----------------------------------------------------------------------------------
const refreshSidebar = oneAtATime(async () => {
  const before = marked;
  const response = await getFragment(`${workspace}sidebar/`).catch(() => null);
  if (response?.status === 401) return signedOut();
  if (response?.status === 404) return gone();
  if (!isAnswered(response, sidebarSoon)) return;
  const html = await response.text();
  if (one("#sidebar details[open]")) {
    owesSidebar = true;
    return;
  }
  if (before !== marked) return sidebarSoon();
  showSidebar(html);
});
const sidebarSoon = spread(refreshSidebar, 400, 5000);

/** The sidebar as the server shows it now: what is marked as open stays so, and who was in it stays where they were. */
export function showSidebar(html) {
  const sidebar = one("#sidebar");
  if (!sidebar) return; // the session ended meanwhile
  const current = one("[aria-current='page']", sidebar)?.getAttribute("href");
  const held = sidebar.contains(document.activeElement) ? document.activeElement : null;
  sidebar.innerHTML = html;
  marked += 1;
  all(".nav-item", sidebar).forEach((item) => {
    const href = item.getAttribute("href");
    if (href === current) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  });
  if (held) refocus(held, sidebar);
}

/** Who works where is fetched by itself, and by pages that somebody looks at: answers begin and end all the time. */
const refreshWork = oneAtATime(async () => {
  const place = one("#at-work");
  if (!place || document.visibilityState !== "visible") return;
  const response = await getFragment(`${workspace}at-work/`).catch(() => null);
  if (isAnswered(response, workSoon) && place.isConnected && !place.contains(document.activeElement)) place.innerHTML = await response.text();
});
const workSoon = spread(refreshWork, 300, 3000);

/** One may write here now, or no longer: then what was typed meanwhile stays. */
function onComposerChanged(fresh) {
  const reason = one(".composer-closed", fresh)?.textContent.trim();
  if (reason && one("#composer-body")?.value.trim()) showProblem(`${reason} What you typed is still here, to be copied.`);
  else reloadIfSaved();
}

/** Replace parts of the page by what the server shows now; the whole content goes when it is not visible any more. */
const refreshParts = oneAtATime(async () => {
  if (!conversation && !one("[data-refresh]") && !mayBeGone) return;
  mayBeGone = false;
  const before = marked;
  const address = location.href;
  const response = await getOwn(address).catch(() => null);
  if (response && [403, 404].includes(response.status)) return gone();
  if (response?.redirected && response.url.includes("/accounts/")) return signedOut();
  if (!isAnswered(response, partsSoon)) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if (address !== location.href || (before !== marked && !conversation)) return partsSoon();
  document.title = fresh.title;
  const parts = conversation ? [".feed-head"] : ["[data-refresh]"];
  for (const selector of parts) {
    const old = one(selector);
    const now = one(selector, fresh);
    if (!old || !now || old.innerHTML === now.innerHTML) continue;
    if (one("details[open]", old)) {
      owesParts = true;
      continue;
    }
    if (one(".htmx-request", old)) {  // its answer comes first
      partsSoon();
      continue;
    }
    const held = old.contains(document.activeElement) ? document.activeElement : null;
    const around = held?.closest("[data-review]")?.id;
    old.innerHTML = now.innerHTML;
    htmx.process(old);
    if (held) refocus(held, old, (around && document.getElementById(around)) ?? one("[data-review]", old) ?? old);
  }
  if (conversation && Boolean(one("#composer")) !== Boolean(one("#composer", fresh))) onComposerChanged(fresh);
});
const partsSoon = spread(refreshParts, 500, 5000);

let owesSidebar = false; // a menu was open there: it stays, and what changed meanwhile is shown once it is closed
let owesParts = false;
function onMenuClosed({ target }) {
  if (target.open) return;
  if (owesSidebar && target.closest("#sidebar")) {
    owesSidebar = false;
    sidebarSoon();
  } else if (owesParts && target.closest(".feed-head, [data-refresh]")) {
    owesParts = false;
    partsSoon();
  }
}

// --- what the sidebar shows ---------------------------------------------------------------------------------
const item = (path) => one(`#sidebar .nav-item[href="${workspace}${path}"]`);
const channels = () => all("#sidebar .nav-item[data-channel]");
const channelItem = (id) => one(`#sidebar .nav-item[data-channel="${id}"]`);
const MAX_COUNTED = 200;  // as the server counts mentions
const countText = (count) => (count >= MAX_COUNTED ? `${MAX_COUNTED}+` : String(count));
const countOf = (link) => Number.parseInt(one(".count", link)?.textContent ?? "0", 10) || 0;

function mark(row, isUnread, count = 0) {
  if (!row) return;
  marked += 1;
  row.classList.toggle("is-unread", isUnread);
  all("[data-news]", row).forEach((words) => { words.hidden = !isUnread; });
  all(".count", row).forEach((number) => showCount(number, count));
}

function showCount(number, count) {
  number.hidden = count === 0;
  number.firstChild.data = countText(count);
}

/** What stands first in a list of the sidebar that has what is unread first; then by name. */
function weightOf(row) {
  const link = one(".nav-item", row);
  return (countOf(link) > 0 ? 2 : 0) + (link.classList.contains("is-unread") ? 1 : 0);
}
const nameOf = (row) => one(".clip", row).textContent;
const inOrder = (a, b) => weightOf(b) - weightOf(a) || (nameOf(a) < nameOf(b) ? -1 : 1);

/** Such a list, after something changed in it; not under the keyboard. */
function reorder(list) {
  if (list && !list.contains(document.activeElement)) list.append(...[...list.children].toSorted(inOrder));
}

const isDirect = (link) => link.dataset.direct !== undefined;
const sumOf = (links) => links.reduce((sum, each) => sum + countOf(each), 0);

/** A channel has something new, or was read. */
function markChannel(id, isUnread, count) {
  const link = channelItem(id);
  if (!link) return;
  mark(link, isUnread, count);
  reorder(link.closest("[data-order='unread']"));
  const mentions = sumOf(channels().filter((each) => !isDirect(each)));
  const direct = sumOf(channels().filter(isDirect));
  all("[data-direct-count] .count").forEach((number) => showCount(number, direct));
  const inbox = item("");
  mark(inbox, channels().some((each) => each.classList.contains("is-unread")) || Number(inbox?.dataset.notices) > 0);
  mark(item("mentions/"), mentions > 0, mentions);
}

function onPosted(event) {
  const isRead = event.thread === threadId && document.visibilityState === "visible";
  if (event.dive) return;
  const link = channelItem(event.channel);
  if (!link) return sidebarSoon();  // the first that was said between these two
  if (event.mine || isRead) return;
  const isUnread = !event.muted || link.classList.contains("is-unread");
  const counts = event.named || (isDirect(link) && !event.muted); // a direct message counts by itself
  markChannel(event.channel, isUnread, countOf(link) + (counts ? 1 : 0));
}

/** The thread of a post moves to the top of the list that is shown; whether it is in it. */
function moveUp(event) {
  const line = one(`[data-refresh] .thread-item a[href="${workspace}t/${event.thread}/"]`)?.closest(".thread-item");
  if (!line || !event.row) return false;
  const [fresh] = elements(event.row);
  for (const part of ["time", ".thread-preview", "[data-count]"]) one(part, line)?.replaceWith(one(part, fresh));
  mark(line, line.classList.contains("is-unread") || !(event.mine || event.muted));
  // What was read stands below what was not, in the inbox: there the server says where one's own words lead.
  if (event.mine && line.closest("#inbox")) return false;
  if (line.matches(".is-pinned") || line.contains(document.activeElement)) return true;
  const lastPinned = all(".is-pinned", line.parentElement).at(-1);
  if (lastPinned) lastPinned.after(line);
  else line.parentElement.prepend(line);
  return true;
}

/** An agent began or ended this answer: it works while one of those it writes is left. */
function markWork({ agent, message, writing }) {
  const label = one(`#sidebar .agent-works[data-agent="${agent}"]`);
  if (!label) return;
  marked += 1;
  const replies = new Set(label.dataset.replies.split(" ").filter(Boolean));
  if (writing) replies.add(String(message));
  else replies.delete(String(message));
  label.dataset.replies = [...replies].join(" ");
  label.hidden = replies.size === 0;
}

// --- events ---------------------------------------------------------------------------------------------
const IN_THREADS = ["message_changed", "reactions_changed", "run_changed", "run_step", "feedback_changed", "pins_changed", "work_changed", "memory_changed"];
const shownChannel = /\/c\/(\d+)\//.exec(location.pathname)?.[1];

/** What stands on a page besides a conversation, and what the sidebar cannot be told of, is fetched when it changed. */
function refreshWhatIsMeant(event) {
  const shows = one(`[data-refresh] .thread-item a[href="${workspace}t/${event.thread}/"], [data-refresh] .presence`);
  if (event.kind === "run_changed" && shows) partsSoon();  // what an agent replied is shown once it is whole
  if (event.kind === "run_changed") workSoon();
  if (event.kind === "sidebar_changed") return sidebarSoon();
  if (IN_THREADS.includes(event.kind)) return;
  const isTold = event.thread || event.kind !== "read_changed"; // all was marked as read: of no channel in particular
  if (!isTold || (!["message_posted", "read_changed", "dive_changed", "saved_changed"].includes(event.kind) && !event.new)) sidebarSoon();
  if (conversation || event.dive || (shownChannel && event.channel && String(event.channel) !== shownChannel)) return;
  if (event.kind !== "message_posted" || !moveUp(event)) partsSoon();
}

function onEvent(event) {
  if (event.thread && event.thread === threadId) {
    arrive(event);
    if (event.kind === "thread_changed") forgetNames();
    if (["thread_changed", "dive_changed", "work_changed"].includes(event.kind)) partsSoon();
  }
  if (event.agent) markWork(event);
  if (event.kind === "message_posted") onPosted(event);
  if (event.kind === "read_changed" && event.unread !== undefined) markChannel(event.channel, event.unread, event.mentions);
  if (event.kind === "access_changed") {
    forgetNames();
    mayBeGone = true;
    refreshParts();
  }
  if (["channel_changed", "agent_changed", "members_changed"].includes(event.kind)) forgetNames();
  if (event.kind === "channel_changed" && conversation) partsSoon();
  refreshWhatIsMeant(event);
  document.dispatchEvent(new CustomEvent("openvibe:event", { detail: event }));
}

/** No stream tells what is new for now: look for it. */
function lookForNews() {
  refreshSidebar();
  refreshParts();
  catchUp();
  all('#messages .message[data-state="writing"]').forEach((row) => refetch(Number(row.dataset.id)));
  document.dispatchEvent(new CustomEvent("openvibe:no-stream"));
}

export function start() {
  document.addEventListener("visibilitychange", workSoon);
  stream.start({ onEvent, lookForNews, askAccess: refreshSidebar });
  document.addEventListener("toggle", onMenuClosed, true);
}
