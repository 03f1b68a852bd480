// Messages on their way: kept in this browser until they are sent, whatever becomes of the page. Their files cannot be.

import { body, getOwn, isPassing, one, oneAtATime, post, tabStorage, toast, workspace } from "./page.js";

const KEPT = `outbox-${body.dataset.participant}-`; // of somebody else who signs in here nothing is shown
const holds = new Map(); // of a message: what lets other pages have it
const unkept = new Set(); // keys of those for which this browser has no room
const ended = new AbortController(); // nobody sends anything here any more

// 0: nothing answered; the others: a proxy says that the server does not, or the server that its database is away.
export const AWAY = { 0: "there is no connection", 408: "the connection is too slow", 502: "the server is away", 503: "the server is not ready", 504: "the server does not answer" };
const STALE = 3_600_000; // ms
const SETTLE = 500; // ms until a page has heard for certain what another one stored
const RELOAD = 3_000; // ms in which a page that is loaded anew has its letters in hand again
const ABANDONED = 600_000; // ms after which no page has a letter in hand, where no lock says so
const keyOf = ({ thread, key }) => `${KEPT}${thread}-${key}`;
const nameOf = ({ key }) => `openvibe:letter-${key}`; // of the lock that the page holds which has it in hand

/** The same after a reload. */
const tabName = () => (tabStorage.tab ??= String(Math.random()));
const isAbandoned = (letter) => letter.tab === tabName() || Date.now() - letter.at > ABANDONED;

/** Until it is forgotten this page has the letter in hand. */
function hold({ key }) {
  return new Promise((resolve) => { holds.set(key, resolve); });
}

/** {thread, key, text, at, files, version}: `key` is the client's id, `at` a time in ms, `files` their names, `version` the
    draft's that it was. */
export function keepLetter(letter) {
  if (navigator.locks && !holds.has(letter.key)) { // before others hear of it
    const sent = hold(letter);
    navigator.locks.request(nameOf(letter), () => sent);
  }
  try {
    localStorage.setItem(keyOf(letter), JSON.stringify({ ...letter, tab: tabName() }));
    unkept.delete(letter.key);
  } catch {
    unkept.add(letter.key); // no room: it is sent all the same
  }
}

export function forgetLetter(letter) {
  try {
    localStorage.removeItem(keyOf(letter));
  } catch { /* it was not kept */ }
  unkept.delete(letter.key);
  holds.get(letter.key)?.();
  holds.delete(letter.key);
}

// Whoever leaves now would lose them.
addEventListener("beforeunload", (event) => { if (unkept.size) event.preventDefault(); });

function letters() {
  try {
    const keys = Object.keys(localStorage).filter((name) => name.startsWith(KEPT));
    return keys.map((name) => JSON.parse(localStorage.getItem(name))).filter(Boolean).toSorted((letter, other) => letter.at - other.at);
  } catch {
    return []; // it may keep nothing
  }
}

/** Nobody expects any more that it is sent by itself. */
export const isStale = ({ at }) => Date.now() - at > STALE;

/** `letter` once no other page has it in hand, unless it was sent by then. */
function adoptOne(letter, take) {
  if (!navigator.locks) return isAbandoned(letter) ? take(letter) : undefined;
  navigator.locks.request(nameOf(letter), { signal: ended.signal }, async () => {
    await new Promise((resolve) => { setTimeout(resolve, SETTLE); });
    if (ended.signal.aborted || !localStorage.getItem(keyOf(letter))) return;
    const sent = hold(letter);
    take(letter);
    await sent;
  }).catch(() => {}); // ended before its turn
}

/** Hand over what other pages of this thread left, and what those that are open now leave later. */
export function adopt(thread, take) {
  letters().filter((each) => each.thread === thread).forEach((letter) => adoptOne(letter, take));
  addEventListener("storage", ({ key, oldValue, newValue }) => {
    if (navigator.locks && key?.startsWith(`${KEPT}${thread}-`) && newValue && !oldValue) adoptOne(JSON.parse(newValue), take);
  });
}

/** Tell `take` of each letter that leaves another page of this thread: it was sent, or stands in a composer again. */
export function onSentElsewhere(thread, take) {
  addEventListener("storage", ({ key, oldValue, newValue }) => {
    if (key?.startsWith(`${KEPT}${thread}-`) && oldValue && !newValue) take(JSON.parse(oldValue));
  });
}

// --- what was left in a thread that this page does not show -----------------------------------------------------
/** Say in a note that `text` was not taken, in full, until its writer throws it away. `href`: where it belongs. */
export function showUnsent(problem, text, { href, drop }) {
  const box = toast(problem, { lasts: true });
  box.classList.add("has-ways");
  const words = document.createElement("blockquote");
  words.textContent = text;
  words.tabIndex = 0; // a long one scrolls
  const ways = [words];
  if (href) {
    const link = document.createElement("a");
    link.className = "button";
    link.href = href;
    link.textContent = "Go to its thread";
    ways.push(link);
  }
  const away = document.createElement("button");
  away.type = "button";
  away.className = "button quiet";
  away.textContent = "Throw it away";
  away.dataset.dismiss = "";
  away.addEventListener("click", drop);
  one("p", box).after(...ways, away);
}

const shown = new Set(); // keys of letters that a note here tells of

function tell(letter, problem, { isGone = false } = {}) {
  if (shown.has(letter.key)) return;
  shown.add(letter.key);
  const href = isGone ? "" : `${workspace}t/${letter.thread}/`;
  showUnsent(problem, [letter.text, ...letter.files].filter(Boolean).join(" "), { href, drop: () => forgetLetter(letter) });
}

/** Whether only a page that is loaded anew can send it: its reader signed out or in since. */
export const isOfSession = ({ status, code }) => status === 401 || code === "stale_page";

/** Whether the server will not take it, however often it is sent. */
export const isRefused = (problem) => !isPassing(problem) && !isOfSession(problem);

/** Whether the server has it already, and only the answer was lost. Resolves to the status where it does not say. */
export async function lookUp({ thread, key }) {
  try {
    const response = await getOwn(`${workspace}t/${thread}/sent/?${new URLSearchParams({ client_id: key })}`);
    return { status: response.status, isStored: response.ok && (await response.json()).is_stored };
  } catch {
    return { status: 0, isStored: false };
  }
}

/** What cannot go out by itself any more, unless it was stored. Resolves to whether that cannot be told for now. */
async function giveUp(letter) {
  const { status, isStored } = await lookUp(letter);
  if (AWAY[status]) return true;
  if (isStored) forgetLetter(letter);
  else tell(letter, "A message of yours was not sent before its page was left. It said:", { isGone: status === 404 });
  return false;
}

/** Sent twice it is one message: its key says so. Resolves to whether it has to wait. */
async function sendFromElsewhere(letter) {
  if (shown.has(letter.key) || !localStorage.getItem(keyOf(letter))) return false;
  if (letter.files.length || isStale(letter)) return giveUp(letter);
  const { thread, key, text, version } = letter;
  try {
    await post(`${workspace}t/${thread}/`, { body: text, client_id: key, draft_version: version ?? "" });
    forgetLetter(letter);
  } catch (refusal) {
    if (AWAY[refusal.status] || isOfSession(refusal)) return true;
    tell(letter, `A message of yours was not sent. ${refusal.message} It said:`, { isGone: refusal.status === 404 });
  }
  return false;
}

/** What pages of other threads left and none of them has in hand, in the order it was written; what one has in hand, once
    that page is gone. */
export function sendRest(thread) {
  const awaited = new Set(); // keys of letters that another page had in hand
  const sendAll = oneAtATime(async () => {
    for (const letter of letters().filter((each) => each.thread !== thread)) {
      let waits = false;
      const send = async () => { waits = await sendFromElsewhere(letter); };
      if (navigator.locks) {
        await navigator.locks.request(nameOf(letter), { ifAvailable: true }, (lock) => (lock ? send() : sendLater(letter)));
      } else if (isAbandoned(letter)) await send();
      if (waits) return;
    }
  });
  function sendLater(letter) { // the page that has it may be closed, and not be gone yet
    if (awaited.has(letter.key)) return;
    awaited.add(letter.key);
    navigator.locks.request(nameOf(letter), { signal: ended.signal }, () => {
      awaited.delete(letter.key);
      setTimeout(() => { if (!ended.signal.aborted) sendAll(); }, RELOAD);
    }).catch(() => {}); // ended before its turn
  }
  document.addEventListener("openvibe:connected", () => { if (!ended.signal.aborted) sendAll(); });
  return sendAll();
}

// Nobody sends it here any more.
document.addEventListener("openvibe:access-ended", () => {
  ended.abort();
  unkept.clear();
  holds.forEach((release) => release());
  holds.clear();
});
