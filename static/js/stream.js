// The event stream of a page: opened again when it is lost, and closed while the page is out of sight for long.

import { all, announce, body, getFragment, one, workspace } from "./page.js";
import { catchUp, reloadMissed, threadId } from "./feed.js";
import { gone, signedOut } from "./access_end.js";

const RETRY = 3000;
const GRACE = 5000; // a stream that ends and begins again at once is no loss: the server says when, within four seconds
const SILENCE = 40_000; // the server says every 15 s that it is there: one that hangs says nothing, and closes nothing
const FIRST_FRAME = 8000; // the server says something at once: a proxy that holds it back may do so for ever
const CHECK = 5000;
const LOOK = 9000; // between two looks for news: at each second check
const OUT_OF_SIGHT = 30_000;

const LOST = "The connection is lost. What you write is kept here; OpenVibe tries again and shows what came meanwhile.";
const FULL = "Too many pages are open here, or on this server, for live updates in all of them. This page looks for news every ten seconds instead.";
const HELD_BACK = "Live updates do not come through: something between you and OpenVibe, perhaps a proxy, holds them back. This page looks for news every ten seconds instead.";

let page; // { onEvent, lookForNews }
let source = null;
let last = "0";
let watched = []; // threads of which the stream holds the messages
let heardAt = 0;
let isHeard = false; // whether this stream said anything yet
let lookedAt = 0; // for news, without a stream
let isResting = false; // no stream while the page is out of sight
let lossTimer = null;

/** In ms, also over a sleep of the machine; long after its clock was put back, too. */
const since = (time) => Math.abs(Date.now() - time);

function end() {
  source?.close();
  source = null;
}

// --- what the page says of it ---------------------------------------------------------------------------------
function showNotice(state, text) {
  if (body.dataset.connection === state) return;
  hideNotice();
  body.dataset.connection = state;
  for (const place of all("#composer, .composer-closed, #dive-foot")) {
    const line = document.createElement("p");
    line.className = "connection";
    line.textContent = text;
    place.prepend(line);
  }
  announce(text.slice(0, text.search(/[.:]/) + 1).replace(":", "."));
}

function hideNotice() {
  delete body.dataset.connection;
  all(".connection").forEach((line) => line.remove());
}

const showLoss = () => showNotice("lost", LOST);

/** Soon, unless a stream opens meanwhile, or the page says already why there is none. */
function showLossSoon() {
  lossTimer ??= setTimeout(() => {
    lossTimer = null;
    if (!body.dataset.connection) showLoss();
  }, GRACE);
}

function forgetLoss() {
  clearTimeout(lossTimer);
  lossTimer = null;
}

function onHeard() {
  heardAt = Date.now();
}

/** Something came through. */
function onFrame() {
  onHeard();
  if (isHeard && !body.dataset.connection) return;
  isHeard = true;
  forgetLoss();
  body.dataset.live = "on";
  if (body.dataset.connection) {
    hideNotice();
    announce("The connection is back.");
    catchUp();
  }
  document.dispatchEvent(new CustomEvent("openvibe:connected"));
}

/** Whoever signed in anew goes on; for others nothing stays on the screen. */
async function onGone() {
  const closed = source;
  closed?.close();
  const response = await getFragment(`${workspace}sidebar/`).catch(() => null);
  if (response?.status === 401) signedOut();
  else if ([403, 404].includes(response?.status)) gone();
  else setTimeout(() => { if (source === closed) connect(); }, RETRY);
}

function onMessage(given) {
  const event = JSON.parse(given.data);
  event.isTold = watched.includes(event.thread);
  if (Number(given.lastEventId) > Number(last)) {
    last = given.lastEventId;
    page.onEvent(event);
  } else {
    // Told before: only a dive that is older than it, just put on the page, needs it again.
    document.dispatchEvent(new CustomEvent("openvibe:event", { detail: event }));
  }
}

// --- a stream that says nothing -------------------------------------------------------------------------------
/** Whether the server answers what is asked in the ordinary way. */
const isThere = () => fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(CHECK) }).then(({ ok }) => ok, () => false);

/** Nothing came for too long: it is looked for, until a stream comes through. */
async function checkSilence() {
  const silence = since(heardAt);
  const wasHeldBack = body.dataset.connection === "held-back";
  if (!source || silence < (isHeard ? SILENCE : wasHeldBack ? 0 : FIRST_FRAME)) return;
  if (since(lookedAt) < LOOK) return;
  lookedAt = Date.now();
  const silent = source;
  body.dataset.live = "off";
  if (isHeard || !(await isThere())) showLoss();
  else if (source === silent && !isHeard) showNotice("held-back", HELD_BACK);
  if (source !== silent) return;
  page.lookForNews();
  if (silence < SILENCE) return;
  source.close();
  connect();
}

// --- the connection -------------------------------------------------------------------------------------------
/** From the last event on, or from an earlier one that a dive on the page does not know of yet. */
function connect(after = last) {
  const dive = Number(one("#dive[data-dive]")?.dataset.thread);
  watched = [threadId, dive].filter(Boolean);
  const threads = watched.map((id) => `&thread=${id}`).join("");
  const opened = new EventSource(`${body.dataset.events}?after=${after}&participant=${body.dataset.participant}${threads}`);
  source = opened;
  isHeard = false;
  onHeard();
  for (const name of ["message", "presence", "typing", "heartbeat", "reload"]) opened.addEventListener(name, onFrame);
  opened.addEventListener("message", onMessage);
  opened.addEventListener("gone", onGone);
  opened.addEventListener("presence", ({ data }) => document.dispatchEvent(new CustomEvent("openvibe:presence", { detail: JSON.parse(data) })));
  opened.addEventListener("typing", ({ data }) => document.dispatchEvent(new CustomEvent("openvibe:typing", { detail: JSON.parse(data) })));
  opened.addEventListener("reload", reloadMissed);
  opened.addEventListener("busy", () => showNotice("held-back", FULL));
  opened.addEventListener("error", () => {
    body.dataset.live = "off";
    if (isHeard) onHeard(); // that it broke; that it breaks once more is no sign of life
    isHeard = false;
    showLossSoon();
    if (opened.readyState !== EventSource.CLOSED) return;
    // Refused, or a server without streams: look now and then instead.
    setTimeout(() => {
      if (source !== opened) return;
      page.lookForNews();
      connect();
    }, RETRY * (2 + 2 * Math.random()));
  });
}

function connectAgain(after = last) {
  if (!source) return;
  source.close();
  connect(after);
}

function onDiveOpened() {
  const dive = one("#dive[data-dive]");
  if (!source || !dive) return;
  const after = Math.min(dive.dataset.after, last);
  if (!watched.includes(Number(dive.dataset.thread)) || after !== Number(last)) connectAgain(after);
}

// --- out of sight ---------------------------------------------------------------------------------------------
// Over HTTP/1.1 a browser opens six connections to a host, for all its pages together. Of those that are out of sight for
// long one keeps its stream, and shows notifications; the others go on where they were once they are seen.
const KEEPER = `openvibe:stream-${body.dataset.participant}`;
let isLeft = false;
let outOfSight = null; // aborted once the page is seen

function pause() {
  if (!source) return;
  isResting = true;
  forgetLoss();
  body.dataset.live = "off";
  end();
}

function goOn() {
  if (!isResting) return;
  isResting = false;
  connect();
}

/** Keep the stream if no other page that is out of sight does; else wait until it is this one's turn. */
function rest(seen, signal) {
  if (!navigator.locks) return pause(); // nor are there notifications: both need a secure page
  const keep = () => {
    goOn();
    return seen;
  };
  navigator.locks.request(KEEPER, { ifAvailable: true }, (lock) => {
    if (lock || signal.aborted) return keep();
    pause();
    navigator.locks.request(KEEPER, { signal }, keep).catch(() => {}); // seen before its turn
  });
}

function onVisibility() {
  if (document.visibilityState === "visible") {
    outOfSight?.abort();
    outOfSight = null;
    goOn();
  } else if (!outOfSight) {
    outOfSight = new AbortController();
    const { signal } = outOfSight;
    const seen = new Promise((resolve) => { signal.addEventListener("abort", resolve); });
    const timer = setTimeout(() => rest(seen, signal), isResting ? 0 : OUT_OF_SIGHT);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }
}

// --- kept by the browser while another page is shown -------------------------------------------------------------
// A page with a stream, or with a lock, is kept by no browser: both are given back as it is left.
function onLeft() {
  isLeft = true;
  forgetLoss();
  source?.close();
  outOfSight?.abort();
  outOfSight = null;
}

/** Come back to, it goes on where it was: what was missed comes with the stream, and whether it may still be shown is asked. */
function onBack({ persisted }) {
  if (!persisted || !isLeft) return;
  isLeft = false;
  page.askAccess();
  if (document.visibilityState === "visible") {
    isResting = false;
    connect();
  } else isResting = true;
  onVisibility();
}

function onAccessEnded() {
  isLeft = false; // for good
  end();
  isResting = false;
  document.removeEventListener("visibilitychange", onVisibility);
  outOfSight?.abort();
}

/**
 * `onEvent` is told each event once, in order; `lookForNews` is asked to fetch while no stream comes through; `askAccess`,
 * whether the page may still be shown.
 */
export function start(given) {
  page = given;
  last = body.dataset.after;
  if (!body.dataset.events) return;
  if (document.visibilityState === "visible") connect();
  else isResting = true; // opened beside what is read
  setInterval(checkSilence, CHECK);
  document.addEventListener("visibilitychange", onVisibility);
  document.addEventListener("openvibe:dive-opened", onDiveOpened);
  document.addEventListener("openvibe:access-ended", onAccessEnded);
  addEventListener("offline", showLoss); // the stream may take minutes to notice
  addEventListener("online", () => connectAgain());
  addEventListener("pagehide", onLeft);
  addEventListener("pageshow", onBack);
  onVisibility();
}
