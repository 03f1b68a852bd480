// The list of messages: loading as one scrolls, keeping the place, reading, and what arrives meanwhile.

import { all, elements, getElements, getFragment, one, oneAtATime, post, spread, tabStorage, toast, workspace } from "./page.js";
import { reloadIfSaved } from "./drafts.js";
import { addWords } from "./growing.js";
import { insertPage, isInHand, pageLoads, place as put, rowsOf, seqOf } from "./rows.js";

const MOST_ROWS = 400;
const NEAR_BOTTOM = 80;
const READ_PAUSE = 10_000;

export const conversation = one("#conversation");
const scroller = one("#scroller");
const list = one("#messages");
const newer = one("#newer");
const unseen = new Set(); // ids of what others posted below what is in sight
const loads = pageLoads();

export const threadId = conversation ? Number(conversation.dataset.thread) : null;
export const rows = () => rowsOf(list);
const lastRow = () => rows().at(-1);
const hasNewer = () => Boolean(one("[data-newer]", list));
const isAtBottom = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_BOTTOM;

export function toBottom() {
  scroller.scrollTop = scroller.scrollHeight;
  unseen.clear();
  showNewer();
}

// --- rows in and out ----------------------------------------------------------------------------------------
function place(row) {
  const placed = put(row, list);
  watch(placed);
  return placed;
}

function trim(fromTop) {
  const surplus = rows().slice(0);
  const extra = surplus.length - MOST_ROWS;
  if (extra <= 0) return;
  const gone = fromTop ? surplus.slice(0, extra) : surplus.slice(-extra);
  gone.forEach((row) => row.remove());
  const edge = fromTop ? rows()[0] : lastRow();
  one(fromTop ? "[data-older]" : "[data-newer]", list)?.remove();
  const line = document.createElement("li");
  line.className = "more-line";
  line.dataset[fromTop ? "older" : "newer"] = edge.dataset.seq;
  const link = document.createElement("a");
  link.href = fromTop ? `?before_seq=${edge.dataset.seq}` : `?after_seq=${edge.dataset.seq}`;
  link.textContent = fromTop ? "Earlier messages" : "Later messages";
  line.append(link);
  if (fromTop) list.prepend(line);
  else list.append(line);
  edges.observe(line);
}

async function load(line) {
  const items = await insertPage(line, conversation.dataset.url, scroller);
  if (!items.length) return;
  items.forEach((item) => (item.dataset.seq ? watch(item) : edges.observe(item)));
  const upward = line.dataset.older !== undefined;
  const before = scroller.scrollHeight;
  trim(!upward);
  if (!upward) scroller.scrollTop -= before - scroller.scrollHeight;
}

const edges = new IntersectionObserver(
  (seen) => {
    for (const entry of seen) if (entry.isIntersecting) loads.add(load(entry.target));
  },
  { root: scroller, rootMargin: "400px 0px" },
);

// --- what arrives -------------------------------------------------------------------------------------------
/**
 * Fetch everything after the last row, and place it. Nothing is placed while later messages are not loaded; those that
 * are on their way come first: their answer may be older than what is asked for here.
 */
export const catchUp = oneAtATime(async () => {
  if (!conversation) return;
  await loads.settled();
  if (hasNewer()) return;
  for (let page = 0; page < 8; page += 1) {
    const from = lastRow()?.dataset.seq ?? 0;
    const found = await getElements(`${conversation.dataset.url}?after_seq=${from}&live=1`, catchUp);
    if (!found) return;
    const arrived = found.filter((item) => item.dataset.seq && !document.getElementById(item.id));
    if (!arrived.length) return;
    append(arrived);
    if (!found.some((item) => item.dataset.newer)) return;
  }
  reloadMissed();
});

/** What this page missed is too much, or not kept any more. What is typed in the composer is a draft; of anything else nothing is taken. */
export async function reloadMissed() {
  if (await reloadIfSaved()) return;
  toast("This page was open for so long that it no longer shows all that was said. What you typed is still here: send it or copy it, then reload.", { lasts: true });
}

function append(arrived) {
  const wasAtBottom = isAtBottom();
  arrived.forEach(place);
  one("#empty")?.remove();
  if (wasAtBottom) {
    trim(true);
    toBottom();
  } else {
    arrived.filter((row) => row.dataset.mine !== "yes").forEach((row) => unseen.add(Number(row.dataset.id)));
    showNewer();
  }
}

async function showNewest() {
  const response = await getFragment(conversation.dataset.url).catch(() => null);
  if (!response?.ok) return location.assign(conversation.dataset.url);
  const found = elements(await response.text());
  list.replaceChildren(...found, ...all("[data-pending]", list));
  htmx.process(list);
  all(".more-line", list).forEach((line) => edges.observe(line));
  rows().forEach(watch);
  placeNewLine();
  const address = new URL(location.href);
  ["at", "before_seq", "after_seq"].forEach((name) => address.searchParams.delete(name));
  address.hash = "";
  history.replaceState(history.state, "", address);
}

/** Leave what was said earlier for the newest messages; what is being sent stays below them. */
export const toNewest = oneAtATime(async () => {
  await loads.settled();
  if (hasNewer()) await loads.add(showNewest());
  await catchUp();
  toBottom();
});

/** Show what an event holds of this thread's message. Only what it does not hold, or what came before, is fetched. */
export function arrive(event) {
  if (event.kind === "message_posted" && !event.mine && hasNewer()) {
    unseen.add(event.message);
    showNewer();
  }
  // A page on its way may hold the message as it was before this.
  if (loads.isLoading()) loads.settled().then(() => { if (isShown(event.message)) refetch(event.message); });
  if (event.fetch && event.kind === "message_posted") return catchUp();
  // An answer on its way is older than this: it is asked for again, or it would take back what is shown here.
  if (event.fetch || refetches.get(event.message)?.isRunning()) return refetch(event.message);
  const wasAtBottom = isAtBottom();
  if (event.to !== undefined) {
    const isFurtherUp = !isShown(event.message) && lastRow() && event.at <= seqOf(lastRow());
    if (!isFurtherUp && !addWords(event, list)) return refetch(event.message);
  } else if (event.html) {
    const row = elements(event.html)[0];
    if (!isShown(event.message)) {
      const last = lastRow() ? seqOf(lastRow()) : 0;
      if (seqOf(row) <= last) return; // further up than what is loaded
      return hasNewer() || seqOf(row) > last + 1 ? refetch(event.message) : append([row]);
    }
    place(row);
  }
  if (wasAtBottom) toBottom();
}

function showNewer() {
  newer.hidden = !unseen.size;
  newer.textContent = `${unseen.size} new ↓`;
}

const refetches = new Map();

export const isShown = (id) => Boolean(one(`.message[data-id="${id}"]`, list));

/**
 * Fetch one message again; never twice at a time, once more when it changed meanwhile. One that is not shown may be
 * on its way, in an answer older than this change: it is fetched again once it has arrived.
 */
export function refetch(id) {
  if (!list) return Promise.resolve();
  if (!isShown(id)) return catchUp().then(() => (isShown(id) ? refetch(id) : undefined));
  if (!refetches.has(id)) {
    refetches.set(id, oneAtATime(async () => {
      const found = await getElements(`${workspace}m/${id}/`, () => refetch(id));
      if (!found) return;
      const wasAtBottom = isAtBottom();
      found.filter((item) => item.dataset.seq).forEach(place);
      if (wasAtBottom) toBottom();
    }));
  }
  return refetches.get(id)().finally(() => refetches.size > MOST_ROWS && refetches.clear());
}

// --- reading ------------------------------------------------------------------------------------------------
let readSeq = conversation ? Number(conversation.dataset.readSeq) : 0;
let seenSeq = readSeq;
let marksRead = true;

const SEEN = `seen-${threadId}`;

/** What was seen here before the server was told of it is not new: the line stands below it, or nowhere. */
function placeNewLine() {
  const seen = Math.max(Number(tabStorage[SEEN] ?? 0), marksRead ? seenSeq : 0);
  delete tabStorage[SEEN];
  const line = one("#new");
  if (!line || lineSeq(line) > seen) return;
  seenSeq = seen;
  const next = rows().find((row) => seqOf(row) > seen && row.dataset.mine !== "yes");
  if (next) one(".message-box", next).before(line);
  else line.remove();
  tellReadSoon();
}
const lineSeq = (line) => seqOf(line.closest(".message"));

/** Told soon, but not again at once while much is said; and before the page is left. */
async function tellReadNow() {
  look(reading.takeRecords(), true); // what came on the screen just before the page is left
  if (!marksRead || seenSeq <= readSeq) return;
  readSeq = seenSeq;
  tabStorage[SEEN] = seenSeq;
  await post(conversation.dataset.readUrl, { seq: readSeq }, { keepalive: true }).then(
    () => { if (readSeq === seenSeq) delete tabStorage[SEEN]; },
    () => { readSeq = 0; },
  );
}
const tellReadSoon = spread(() => { if (document.visibilityState === "visible") tellReadNow(); }, 600, READ_PAUSE);

function look(entries, isVisible) {
  for (const { target, isIntersecting } of entries) {
    target.classList.add("is-laid-out"); // its height is known
    if (isVisible && isIntersecting) seenSeq = Math.max(seenSeq, seqOf(target));
  }
}

const reading = conversation && new IntersectionObserver(
  (entries) => {
    look(entries, document.visibilityState === "visible");
    if (seenSeq > readSeq) tellReadSoon();
  },
  { root: scroller },
);
const watch = (row) => reading?.observe(row);

function watchAgain(row) {
  reading.unobserve(row);
  watch(row);
}

async function markUnread(form) {
  marksRead = false;
  delete tabStorage[SEEN];
  const seq = new FormData(form).get("seq");
  await post(conversation.dataset.readUrl, { seq, unread: "1" })
    .then(() => toast("Unread from here. Reading goes on when you come back."))
    .catch(({ status, message }) => {
      marksRead = true;
      toast(status ? message : "The server cannot be reached. Nothing was changed; try again in a moment.");
    });
}

// --- actions on a message -----------------------------------------------------------------------------------
/** The message under the keyboard, else the last one. */
export const currentRow = () => document.activeElement?.closest(".message") ?? one(".message:hover") ?? lastRow();

export function reply(row) {
  const field = one("#composer-body");
  if (!field || !row) return;
  const said = one(".prose", row)?.innerText.trim().split("\n")[0].slice(0, 160);
  const own = row.dataset.mine === "yes" ? "" : `@${row.dataset.handle} `;
  const quote = said ? `> ${said.replaceAll("@", "\\@")}\n\n` : ""; // a quoted name calls nobody again
  field.value = `${field.value ? `${field.value.trimEnd()}\n\n` : ""}${quote}${own}`;
  field.focus();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function onClick(event) {
  const row = event.target.closest(".message");
  if (event.target.closest("[data-reply]")) {
    event.preventDefault();
    reply(row);
  }
}

export function start() {
  if (!conversation) return;
  all(".more-line", list).forEach((line) => edges.observe(line));
  rows().forEach(watch);
  list.addEventListener("click", onClick);
  list.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-unread]")) return;
    event.preventDefault();
    markUnread(event.target);
  });
  newer.addEventListener("click", toNewest);
  let sticks; // to the end, once the place where the page begins is set
  let width = scroller.clientWidth;
  new ResizeObserver(() => {
    if (width !== scroller.clientWidth) rows().forEach((row) => { // each is as high as it now is
      row.classList.remove("is-laid-out");
      watchAgain(row);
    });
    width = scroller.clientWidth;
    if (sticks && !hasNewer()) toBottom();
  }).observe(scroller);
  scroller.addEventListener("scroll", () => {
    sticks = isAtBottom();
    if (unseen.size && isAtBottom() && !hasNewer()) {
      unseen.clear();
      showNewer();
    }
  }, { passive: true });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState !== "visible") return tellReadNow();
    rows().forEach(watchAgain); // what came meanwhile is seen now
  });
  addEventListener("pagehide", tellReadNow);
  const renewStale = () => {
    const stale = all('.message[data-stale="yes"]', list).filter((row) => !isInHand(row));
    stale.forEach((row) => refetch(Number(row.dataset.id)));
  };
  ["htmx:afterRequest", "press-ended"].forEach((name) => document.addEventListener(name, renewStale));
  document.addEventListener("toggle", ({ target }) => { if (target.matches?.(".message-more, .feedback-more")) renewStale(); }, true);
  document.addEventListener("htmx:afterSwap", () => {
    renewStale();
    rows().forEach(watch);
  });
  placeNewLine();
  const named = location.hash.startsWith("#m-") ? location.hash.slice(1) : conversation.dataset.at && `m-${conversation.dataset.at}`;
  const here = named && document.getElementById(named);
  if (named && !here && !conversation.dataset.at) location.replace(`?at=${named.slice(2)}${location.hash}`);
  if (!here) { // else `first_place.js` went there; the line of what is new may have moved since
    if (one("#new")) one("#new").scrollIntoView({ block: "start" });
    else if (!location.search.includes("_seq")) toBottom();
  }
  sticks = isAtBottom();
}
