// Who else is writing in this thread: told to the others while one types, shown for a few seconds, kept nowhere.

import { all, body, one, workspace } from "./page.js";
import { threadId } from "./feed.js";

const AGAIN = 3000; // ms between two signs while somebody types on
const LASTS = 6000; // ms after a sign
const MOST_NAMED = 3;
const writers = new Map(); // handle: { name, timer }
let toldAt = 0;

const place = () => one("[data-typing]");

function words(names) {
  if (names.length > MOST_NAMED) return "Several people are typing";
  const last = names.at(-1);
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${last} are typing` : `${last} is typing`;
}

function draw() {
  const line = place();
  if (!line) return;
  const text = writers.size ? words([...writers.values()].map(({ name }) => name)) : "";
  if (line.textContent !== text) line.textContent = text;
}

function forget(handle) {
  clearTimeout(writers.get(handle)?.timer);
  if (writers.delete(handle)) draw();
}

function onTyping({ detail: { thread, handle, name } }) {
  if (thread !== threadId) return;
  clearTimeout(writers.get(handle)?.timer);
  writers.set(handle, { name, timer: setTimeout(() => forget(handle), LASTS) });
  draw();
}

/** What somebody wrote stands there: they are typing it no more. */
function onEvent({ detail: event }) {
  if (event.kind !== "message_posted" || event.thread !== threadId) return;
  const handle = document.getElementById(`m-${event.message}`)?.dataset.handle;
  if (handle) forget(handle);
}

function tell({ target }) {
  if (target.id !== "composer-body") return;
  if (!target.value.trim()) toldAt = 0;
  else if (Date.now() - toldAt > AGAIN && body.dataset.live === "on") {
    toldAt = Date.now();
    const { "X-CSRFToken": key } = JSON.parse(body.getAttribute("hx-headers") || "{}");
    fetch(`${workspace}t/${threadId}/typing/`, { method: "POST", headers: { "X-CSRFToken": key, Accept: "application/json" } }).catch(() => {});
  }
}

export function start() {
  if (!threadId) return;
  all("#composer, .composer-closed").slice(0, 1).forEach((composer) => {
    const line = document.createElement("p");
    line.className = "typing";
    line.dataset.typing = "";
    line.dir = "auto";
    line.setAttribute("role", "status");
    composer.prepend(line);
  });
  document.addEventListener("input", tell);
  document.addEventListener("openvibe:typing", onTyping);
  document.addEventListener("openvibe:event", onEvent);
  addEventListener("pagehide", () => [...writers.keys()].forEach(forget));
}
