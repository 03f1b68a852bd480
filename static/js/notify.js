// Browser notifications of the messages that the server says are for this person (`notify` of a live event), shown by
// the pages that are open: by none while one of them shows the thread, and one for all of them, by its tag.

import { all, announce, one, workspace } from "./page.js";
import { threadId } from "./feed.js";

const SWITCH = "openvibe:notifications";
const KNOWN = "openvibe:notified";  // what is stored is told to all other pages of this browser
const OTHER_PAGES = 400;  // ms for another page to say that it shows the thread
const MAX_KNOWN = 500;
const known = new Set();
const shown = new Map();

const isOff = () => localStorage.getItem(SWITCH) === "off";
const may = () => "Notification" in window && Notification.permission === "granted" && !isOff();
const inSight = (event) => event.thread === threadId && document.visibilityState === "visible";

// --- what is in sight on another page --------------------------------------------------------------------------
const sightOf = (thread) => `openvibe:in-sight-${thread}`;
let leave = null;

/** A page that shows a thread holds a lock while it is in sight: the others see it, however late it hears of a message. */
function holdSight() {
  if (!threadId || !navigator.locks) return;
  if (document.visibilityState !== "visible") {
    leave?.();
    leave = null;
  } else if (!leave) {
    const left = new Promise((resolve) => { leave = resolve; });
    navigator.locks.request(sightOf(threadId), { mode: "shared" }, () => left);
  }
}

const isInSightOfAnother = async (thread) => (await navigator.locks.query()).held.some((lock) => lock.name === sightOf(thread));

function know(message) {
  if (known.size >= MAX_KNOWN) known.clear();
  known.add(message);
}

/** This message needs no notification any more, here and on this person's other pages. */
function tell(message) {
  know(message);
  localStorage.setItem(KNOWN, String(message));
}

async function show(event) {
  if (!may() || await isInSightOfAnother(event.thread) || known.has(event.message)) return;
  tell(event.message);
  let note;
  try {
    note = new Notification(event.notify.title, { body: event.notify.body, tag: `openvibe-${event.message}` });
  } catch {
    return;  // a phone's browser, which lets only service workers show them
  }
  shown.set(note, event.thread);
  note.addEventListener("close", () => shown.delete(note));
  note.addEventListener("click", () => {
    window.focus();
    note.close();
    location.assign(`${workspace}m/${event.message}/`);
  });
}

function onEvent({ detail: event }) {
  if (event.kind === "read_changed") shown.forEach((thread, note) => { if (thread === event.thread) note.close(); });
  if (!event.notify || known.has(event.message)) return;
  if (inSight(event)) tell(event.message);
  else setTimeout(() => show(event), OTHER_PAGES * (1 + Math.random()));
}

// --- the page where they are allowed ---------------------------------------------------------------------------
const STATES = {
  insecure: ["Browsers show notifications only of pages opened over https. Ask whoever runs this server.", ""],
  missing: ["This browser cannot show notifications.", ""],
  denied: ["This browser was told to block notifications of OpenVibe. Allow them in its settings for this site.", ""],
  default: ["This browser shows none yet.", "Turn on in this browser"],
  off: ["Turned off in this browser.", "Turn on in this browser"],
  granted: ["This browser shows them while a page of OpenVibe is open.", "Turn off in this browser"],
};

function stateOf() {
  if (!window.isSecureContext) return "insecure";
  if (!("Notification" in window)) return "missing";
  return Notification.permission === "granted" && isOff() ? "off" : Notification.permission;
}

function draw(box) {
  const [words, act] = STATES[stateOf()];
  one("[data-notify-state]", box).textContent = words;
  const button = one("button", box);
  button.hidden = !act;
  button.textContent = act;
}

async function change(box) {
  const before = stateOf();
  if (before === "granted") localStorage.setItem(SWITCH, "off");
  else localStorage.removeItem(SWITCH);
  if (before === "default") await Notification.requestPermission();
  draw(box);
  announce(one("[data-notify-state]", box).textContent);
  if (one("button", box).hidden) box.focus();
}

all("[data-notify-browser]").forEach((box) => {
  draw(box);
  one("button", box).addEventListener("click", () => change(box));
});
holdSight();
document.addEventListener("visibilitychange", holdSight);
addEventListener("storage", (event) => { if (event.key === KNOWN) know(Number(event.newValue)); });
document.addEventListener("openvibe:event", onEvent);
addEventListener("pagehide", () => shown.forEach((_, note) => note.close()));
