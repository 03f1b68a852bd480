// Browser notifications of the messages that the server says are for this person (`notify` of a live event), shown by
// the pages that are open: by none while one of them shows the thread, and one for all of them, by its tag.

import { all, announce, one, workspace } from "./page.js";
import { threadId } from "./feed.js";
import * as push from "./push.js";

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
let isLeft = false; // for another page: the browser keeps none that holds a lock

/** A page that shows a thread holds a lock while it is in sight: the others see it, however late it hears of a message. */
function holdSight() {
  if (!threadId || !navigator.locks) return;
  if (document.visibilityState !== "visible" || isLeft) {
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
  if (event.push) push.tellShown(event.message, false);
  if (await push.show(event).catch(() => false)) return;
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

// --- whether somebody is at this page ----------------------------------------------------------------------------
const IN_USE = 120_000; // ms after the last key or touch: a page may be in sight for hours with nobody before it
let usedAt = 0;
for (const name of ["keydown", "pointerdown", "pointermove", "wheel"]) addEventListener(name, () => { usedAt = Date.now(); }, { passive: true, capture: true });
const isInUse = () => document.visibilityState === "visible" && Date.now() - usedAt < IN_USE;

function onEvent({ detail: event }) {
  if (event.kind === "read_changed") push.closeShown(event.thread);
  if (event.push && isInUse() && !known.has(event.message)) push.tellShown(event.message, true);
  if (event.kind === "read_changed") shown.forEach((thread, note) => { if (thread === event.thread) note.close(); });
  if (!event.notify || known.has(event.message)) return;
  if (inSight(event)) tell(event.message);
  else setTimeout(() => show(event), OTHER_PAGES * (1 + Math.random()));
}

// --- the page where they are allowed ---------------------------------------------------------------------------
const STATES = {
  insecure: ["Browsers show notifications only of pages opened over https. Ask whoever runs this server.", ""],
  missing: ["This browser cannot show notifications. On an iPhone or iPad, add OpenVibe to the home screen first.", ""],
  denied: ["This browser was told to block notifications of OpenVibe. Allow them in its settings for this site.", ""],
  default: ["This browser shows none yet.", "Turn on in this browser"],
  off: ["Turned off in this browser.", "Turn on in this browser"],
  granted: ["This browser shows them while a page of OpenVibe is open.", "Turn off in this browser"],
};
const PUSH_STATES = {
  missing: ["This browser cannot show any while no page is open.", ""],
  off: ["None come while no page of OpenVibe is open.", "Also notify me when no page is open"],
  on: ["They come even when no page of OpenVibe is open, until you sign out here.", "Only while a page is open"],
};

function stateOf() {
  if (!window.isSecureContext) return "insecure";
  if (!("Notification" in window)) return "missing";
  return Notification.permission === "granted" && isOff() ? "off" : Notification.permission;
}

const pushStateOf = () => (!push.isSupported ? "missing" : push.isOn() ? "on" : "off");

function drawState(words, button, [text, act]) {
  words.textContent = text;
  button.hidden = !act;
  button.textContent = act;
}

function draw(box) {
  drawState(one("[data-notify-state]", box), one("[data-notify-switch]", box), STATES[stateOf()]);
  const part = one("[data-push]", box);
  part.hidden = stateOf() !== "granted";
  drawState(one("[data-push-state]", part), one("[data-push-switch]", part), PUSH_STATES[pushStateOf()]);
  one("[data-push-private]", part).hidden = !push.isSupported;
}

/** Say how it is now; the keyboard stays where it is. */
function drawAnew(box, place, words = place.textContent) {
  draw(box);
  place.textContent = words || place.textContent;
  announce(place.textContent);
  if (document.activeElement === document.body || document.activeElement?.hidden) box.focus();
}

async function change(box) {
  const before = stateOf();
  if (before === "granted") {
    localStorage.setItem(SWITCH, "off");
    await push.turnOff();
  } else localStorage.removeItem(SWITCH);
  if (before === "default") await Notification.requestPermission();
  drawAnew(box, one("[data-notify-state]", box), "");
}

/** Turn pushes on or off, or only say whether they show words of private places. */
async function changePush(box, isWanted) {
  const place = one("[data-push-state]", box);
  let problem = "";
  try {
    if (isWanted) await push.turnOn(one("[data-push-private] input", box).checked);
    else await push.turnOff();
  } catch (failure) {
    problem = failure.code ? failure.message : "This browser’s push service did not take it. Nothing was changed; try again later.";
  }
  drawAnew(box, place, problem);
}

all("[data-notify-browser]").forEach((box) => {
  draw(box);
  one("[data-notify-switch]", box).addEventListener("click", () => change(box));
  one("[data-push-switch]", box).addEventListener("click", () => changePush(box, !push.isOn()));
  const choice = one("[data-push-private] input", box);
  choice.addEventListener("change", () => { if (push.isOn()) changePush(box, true); });
  if (push.isOn()) push.readPrivate().then((isPrivate) => { choice.checked = Boolean(isPrivate); }, () => {});
});
holdSight();
document.addEventListener("visibilitychange", holdSight);
addEventListener("storage", (event) => { if (event.key === KNOWN) know(Number(event.newValue)); });
document.addEventListener("openvibe:event", onEvent);
addEventListener("pagehide", () => {
  isLeft = true;
  holdSight();
  shown.forEach((_, note) => note.close());
});
addEventListener("pageshow", ({ persisted }) => {
  isLeft = false;
  if (persisted) holdSight();
});
