// Messages on their way: kept in this browser until they are sent, whatever becomes of the page. Their files cannot be.

import { body, one, post, toast, workspace } from "./page.js";

const KEPT = `outbox-${body.dataset.participant}-`; // of somebody else who signs in here nothing is shown
const holds = new Map(); // of a message: what lets other pages have it

const STALE = 3_600_000; // ms
const SETTLE = 500; // ms until a page has heard for certain what another one stored
const MOST_SHOWN = 200; // characters
const ABANDONED = 600_000; // ms after which no page has a letter in hand, where no lock says so
const keyOf = ({ thread, key }) => `${KEPT}${thread}-${key}`;
const nameOf = ({ key }) => `openvibe:letter-${key}`; // of the lock that the page holds which has it in hand

/** The same after a reload. */
function tabName() {
  sessionStorage.tab ??= String(Math.random());
  return sessionStorage.tab;
}
const isAbandoned = (letter) => letter.tab === tabName() || Date.now() - letter.at > ABANDONED;

/** Until it is forgotten this page has the letter in hand. */
function hold({ key }) {
  return new Promise((resolve) => { holds.set(key, resolve); });
}

/** {thread, key, text, at, files, version}: `key` is the client's id, `at` a time in ms, `files` their names, `version` the
    draft's that it was. */
export function keepLetter(letter) {
  try {
    localStorage.setItem(keyOf(letter), JSON.stringify({ ...letter, tab: tabName() }));
  } catch { /* no room: it is sent all the same */ }
  if (!navigator.locks || holds.has(letter.key)) return;
  const sent = hold(letter);
  navigator.locks.request(nameOf(letter), () => sent);
}

export function forgetLetter(letter) {
  try {
    localStorage.removeItem(keyOf(letter));
  } catch { /* it was not kept */ }
  holds.get(letter.key)?.();
  holds.delete(letter.key);
}

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
  navigator.locks.request(nameOf(letter), async () => {
    await new Promise((resolve) => { setTimeout(resolve, SETTLE); });
    if (!localStorage.getItem(keyOf(letter))) return;
    const sent = hold(letter);
    take(letter);
    await sent;
  });
}

/** Hand over what other pages of this thread left, and what those that are open now leave later. */
export function adopt(thread, take) {
  letters().filter((each) => each.thread === thread).forEach((letter) => adoptOne(letter, take));
  addEventListener("storage", ({ key, oldValue, newValue }) => {
    if (navigator.locks && key?.startsWith(`${KEPT}${thread}-`) && newValue && !oldValue) adoptOne(JSON.parse(newValue), take);
  });
}

// --- what was left in a thread that this page does not show -----------------------------------------------------
function tell(letter, problem) {
  const words = [letter.text, ...letter.files].filter(Boolean).join(" ");
  const box = toast(`${problem} It said: “${words.length > MOST_SHOWN ? `${words.slice(0, MOST_SHOWN)}…` : words}”`, { lasts: true });
  box.classList.add("has-ways");
  const link = document.createElement("a");
  link.className = "button";
  link.href = `${workspace}t/${letter.thread}/`;
  link.textContent = "Go to its thread";
  const drop = document.createElement("button");
  drop.type = "button";
  drop.className = "button quiet";
  drop.textContent = "Throw it away";
  drop.dataset.dismiss = "";
  drop.addEventListener("click", () => forgetLetter(letter));
  one("p", box).after(link, drop);
}

/** Sent twice it is one message: its key says so. */
async function sendFromElsewhere(letter) {
  if (!localStorage.getItem(keyOf(letter))) return;
  if (letter.files.length || isStale(letter)) {
    tell(letter, "A message of yours was not sent before its page was left.");
    return;
  }
  const { thread, key, text, version } = letter;
  try {
    await post(`${workspace}t/${thread}/`, { body: text, client_id: key, draft_version: version ?? "" });
    forgetLetter(letter);
  } catch ({ status, message }) {
    if (status >= 400 && status < 500 && status !== 401) tell(letter, `A message of yours was not sent. ${message}`);
    else document.addEventListener("openvibe:connected", () => sendFromElsewhere(letter), { once: true });
  }
}

/** What pages of other threads left and none of them has in hand. */
export async function sendRest(thread) {
  for (const letter of letters().filter((each) => each.thread !== thread)) {
    if (navigator.locks) await navigator.locks.request(nameOf(letter), { ifAvailable: true }, (lock) => lock && sendFromElsewhere(letter));
    else if (isAbandoned(letter)) await sendFromElsewhere(letter);
  }
}

// Nobody sends it here any more.
document.addEventListener("openvibe:access-ended", () => {
  holds.forEach((release) => release());
  holds.clear();
});
