// Notifications while no page is open: turned on for a browser, kept up while its session lasts, gone with a sign-out.

import { body, browserStorage, getOwn, post, workspace } from "./page.js";

const STATE = "openvibe:push"; // in this browser: whose it is, in which session, and when that was last told
const WORKER = "/service-worker.js";
const DAY = 86_400_000;
const [account, session] = (body.dataset.session ?? "").split(".");

export const isSupported = "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;

function read() {
  try {
    return JSON.parse(browserStorage[STATE] ?? "null");
  } catch {
    return null;
  }
}
const keep = () => { browserStorage[STATE] = JSON.stringify({ account, session, at: Date.now() }); };

/** Whether this browser is sent notifications of whoever is signed in. */
export const isOn = () => isSupported && Notification.permission === "granted" && read()?.account === account;

const registered = () => navigator.serviceWorker.getRegistration("/");

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
const isSame = (one, other) => Boolean(one) && one.byteLength === other.byteLength && new Uint8Array(one).every((each, index) => each === other[index]);

async function subscription() {
  const registration = await navigator.serviceWorker.register(WORKER, { scope: "/", updateViaCache: "none" });
  await navigator.serviceWorker.ready;
  const { key } = await (await getOwn(`${workspace}push/`)).json();
  const known = await registration.pushManager.getSubscription();
  if (known && isSame(known.options.applicationServerKey, bytes(key))) return known;
  await known?.unsubscribe(); // for a key that this server has no more
  return registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) });
}

async function save(fields = {}) {
  const { endpoint, keys } = (await subscription()).toJSON();
  const said = await post(`${workspace}push/`, { endpoint, p256dh: keys.p256dh, auth: keys.auth, ...fields });
  keep();
  return said;
}

/** Throws what `post` throws, or what the browser says. */
export const turnOn = (showsPrivate) => save({ private: showsPrivate ? "1" : "0" });

/** No more for this browser. The server is told where somebody is signed in; else it knows. */
export async function turnOff() {
  delete browserStorage[STATE];
  const registration = isSupported ? await registered() : null;
  const known = await registration?.pushManager.getSubscription();
  if (known && workspace) await post(`${workspace}push/off/`, { endpoint: known.endpoint }).catch(() => {});
  await known?.unsubscribe();
  for (const note of (await registration?.getNotifications()) ?? []) note.close();
}

/** Where it is on: whether words of private places are shown. */
export async function readPrivate() {
  const known = await (await registered())?.pushManager.getSubscription();
  const answer = await getOwn(`${workspace}push/?${new URLSearchParams({ endpoint: known?.endpoint ?? "" })}`);
  return (await answer.json()).private ?? null;
}

/** A notification of a message, by the worker that shows those of the server: one of a tag. Whether that is possible. */
export async function show(event) {
  const registration = isOn() ? await registered() : null;
  if (!registration?.active) return false;
  const data = { thread: `${workspace}t/${event.thread}/`, url: `${workspace}m/${event.message}/` };
  await registration.showNotification(event.notify.title, { body: event.notify.body, tag: `openvibe-${event.message}`, data });
  return true;
}

/** What was read elsewhere needs no notification here. */
export async function closeShown(thread) {
  if (!isOn()) return;
  const notes = (await (await registered())?.getNotifications()) ?? [];
  notes.filter((note) => note.data?.thread === `${workspace}t/${thread}/`).forEach((note) => note.close());
}

/** The server sends it to no browser of this person, who is at this page; else not to this browser, which shows it. */
export async function tellShown(message, isInUse) {
  const known = !isInUse && isOn() ? await (await registered())?.pushManager.getSubscription() : null;
  if (!isInUse && !known) return;
  await post(`${workspace}push/shown/`, { message, ...(known ? { endpoint: known.endpoint } : {}) }).catch(() => {});
}

/** A session that was changed, by a new password for instance, and what the push service changed, are told. */
async function keepUp() {
  const state = read();
  if (!state || !isSupported) return;
  if (body.dataset.signedOut !== undefined || (account && state.account !== account)) return turnOff();
  if (!account || Notification.permission !== "granted") return;
  if (state.session === session && Math.abs(Date.now() - state.at) < DAY) return;
  await save().catch(() => {}); // the next page tries again
}
keepUp();
