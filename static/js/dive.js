// The dive that is shown, in the panel or on its page: its messages live, its head and foot as they are now, its composer.

import { chooseFiles, chosenFiles, filesProblem, requestBody } from "./attach.js";
import { draftsSaved, draftVersion, keepRest, succeed } from "./drafts.js";
import { all, body, elements, focusWithin, getElements, one, oneAtATime, post, replace, sends, settled, workspace } from "./page.js";
import { close as closePanel } from "./panel.js";
import { addWords } from "./growing.js";
import { insertPage, isInHand, pageLoads, place, rowsOf, seqOf } from "./rows.js";

const NEAR_BOTTOM = 80;
const dive = () => one("#dive[data-dive]");
const list = () => one("#dive-messages");
const scroller = () => one("#dive-scroller");
const isAtBottom = () => scroller().scrollHeight - scroller().scrollTop - scroller().clientHeight < NEAR_BOTTOM;
const toBottom = () => { scroller().scrollTop = scroller().scrollHeight; };
const isShown = (id) => Boolean(list() && one(`.message[data-id="${id}"]`, list()));
const loads = pageLoads();
const told = (name) => document.dispatchEvent(new CustomEvent(`openvibe:${name}`));

// --- what arrives -------------------------------------------------------------------------------------------
function put(rows) {
  const stays = isAtBottom();
  rows.forEach((row) => place(row, list()));
  rows.forEach((row) => unstored.get(row.dataset.client)?.());
  one("#dive-empty")?.remove();
  if (stays) toBottom();
  readSoon();
  told("dive-shown");
}

/** Everything after the last message that is shown, once what is on its way has come. */
const catchUp = oneAtATime(async () => {
  await loads.settled();
  for (let more = true; more;) {
    const shown = dive();
    if (!shown || one("[data-newer]", shown)) return;
    const found = await getElements(`${shown.dataset.url}?after_seq=${rowsOf(list()).at(-1)?.dataset.seq ?? 0}&live=1`, catchUp);
    if (!found || shown !== dive()) return;
    const rows = found.filter((item) => item.dataset.seq && !document.getElementById(item.id));
    if (rows.length) put(rows);
    more = rows.length > 0 && found.some((item) => item.dataset.newer);
  }
});

const refetches = new Map();

/** One message again; one that is not shown may be on its way. */
function refetch(id) {
  if (!isShown(id)) return catchUp().then(() => (isShown(id) ? refetch(id) : undefined));
  if (!refetches.has(id)) {
    refetches.set(id, oneAtATime(async () => {
      const shown = dive();
      const found = await getElements(`${workspace}m/${id}/`, () => dive() && refetch(id));
      if (found && shown === dive()) put(found.filter((item) => item.dataset.seq));
    }));
  }
  return refetches.get(id)();
}

/** Show what an event holds of this dive's message; only what it does not hold, or what came before, is fetched. */
function arrive(event) {
  // A page on its way may hold the message as it was before this.
  if (loads.isLoading()) loads.settled().then(() => { if (isShown(event.message)) refetch(event.message); });
  if (event.fetch || refetches.get(event.message)?.isRunning()) return refetch(event.message); // as feed.js has it
  const stays = isAtBottom();
  if (event.to !== undefined) {
    if (!addWords(event, list())) return refetch(event.message);
  } else if (event.html) {
    const row = elements(event.html)[0];
    const last = rowsOf(list()).at(-1);
    const ahead = seqOf(row) - (last ? seqOf(last) : 0);
    if (!document.getElementById(row.id) && ahead !== 1) return ahead > 1 ? refetch(event.message) : undefined; // else further up than what is loaded
    put([row]);
  }
  if (stays) toBottom();
}

function renewStale() {
  if (!list()) return;
  const stale = all('.message[data-stale="yes"]', list()).filter((row) => !isInHand(row));
  stale.forEach((row) => refetch(Number(row.dataset.id)));
}

const written = (foot) => one("#dive-body, #dive-unsent", foot);

/** What is written in a foot goes on in the one that takes its place, also where it can only be read. */
function keepWritten(old, now) {
  if (!written(old)?.value.trim() || !written(now)) return;
  written(now).value = written(old).value;
  succeed(written(old), written(now));
  written(now).closest("label")?.removeAttribute("hidden");
}

/** Head and foot as they are now. A form somebody is filling in stays; publish.js says what happened meanwhile. */
const refresh = oneAtATime(async () => {
  const shown = dive();
  if (!shown) return;
  const found = (await getElements(shown.dataset.url, refresh))?.find((item) => item.id === "dive");
  if (!found || shown !== dive()) return;
  shown.className = found.className;
  replace(one("#dive-head", shown), one("#dive-head", found));
  const [old, now] = [shown, found].map((root) => one("#dive-foot", root));
  const [was, is] = [old, now].map((foot) => one("[data-foot]", foot));
  if (was.dataset.foot === is.dataset.foot) return;
  if (was.dataset.foot === "publish") {
    if (is.dataset.foot !== "composer") was.dispatchEvent(new CustomEvent("openvibe:ended", { detail: is.innerText.trim(), bubbles: true }));
    return;
  }
  const isTyped = old.contains(document.activeElement) && document.activeElement.id === "dive-body";
  keepWritten(old, now);
  replace(old, now);
  if (isTyped && one("#dive-unsent", now)?.value) one("#dive-unsent", now).focus({ preventScroll: true });
});
const refreshSoon = settled(refresh, 300);

const refreshList = oneAtATime(async () => {
  const shown = one("#dives[data-dives]");
  const found = shown && (await getElements(shown.dataset.url, refreshList))?.find((item) => item.id === "dives");
  if (found && shown.isConnected) replace(shown, found);
});
const refreshListSoon = settled(refreshList, 300);

const renewBudget = settled(() => { if (one("#dive-budget")) htmx.trigger("#dive-budget", "renew"); }, 600);

function onEvent({ detail: event }) {
  if (event.kind === "dive_changed" && String(event.thread) === one("#dives")?.dataset.dives) refreshListSoon();
  const shown = dive();
  if (!shown) return;
  const isHere = String(event.thread) === shown.dataset.thread;
  const isAbove = String(event.thread) === shown.dataset.parent;
  if (isHere && event.kind === "run_changed") renewBudget();
  if (isHere && event.isTold) arrive(event);
  else if (isHere && event.kind === "message_posted") catchUp();
  else if (isHere && event.message) refetch(event.message).then(catchUp);
  else if (isAbove && (["dive_changed", "thread_changed"].includes(event.kind) || String(event.message) === shown.dataset.source)) refreshSoon();
}

// --- reading ------------------------------------------------------------------------------------------------
const readSoon = settled(() => {
  const last = list() && rowsOf(list()).at(-1);
  if (last && document.visibilityState === "visible") post(dive().dataset.readUrl, { seq: seqOf(last) }).catch(() => {});
}, 700);

// --- writing ------------------------------------------------------------------------------------------------
let key = "";
let keyed = "";
const unstored = new Map(); // by key of a message that is not known to be stored: what is done once it is

function showProblem(form, text) {
  one(".form-problem", form)?.remove();
  if (!text) return;
  const line = document.createElement("p");
  line.className = "form-problem";
  line.setAttribute("role", "alert");
  line.textContent = text;
  form.prepend(line);
}

/** What was sent is not written there any more; what somebody typed on after it is. */
function takeSent(field, text) {
  if (!field?.value.startsWith(text)) return;
  field.value = field.value.slice(text.length).trimStart();
  field.closest("label")?.toggleAttribute("hidden", !field.value);
}

/** The text stays in its field until it is stored; sent again unchanged, it is the same message. */
async function send(form) {
  const shown = dive();
  const field = one("#dive-body");
  const text = field.value;
  const files = chosenFiles(form);
  if (form.dataset.sending || (!text.trim() && !files.length)) return;
  if (filesProblem(form)) {
    showProblem(form, filesProblem(form));
    return;
  }
  const said = JSON.stringify([text, files.map((file) => [file.name, file.size, file.lastModified])]);
  if (said !== keyed) [keyed, key] = [said, crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`];
  const id = key;
  form.dataset.sending = id;
  showProblem(form, "");
  unstored.set(id, () => { // answered, or told of by the stream where the answer is lost
    unstored.delete(id);
    keyed = "";
    showProblem(form, "");
    chooseFiles(form, chosenFiles(form).filter((file) => !files.includes(file)));
    new Set([field, written(shown)]).forEach((each) => takeSent(each, text)); // of this dive, whichever is shown by now
    one("[data-saved]", form).textContent = "";
    endSending(form, field, id);
  });
  await draftsSaved();
  try {
    const onProgress = files.length ? (share) => { one("[data-saved]", form).textContent = `Sending… ${Math.round(share * 100)} %`; } : undefined;
    const sent = requestBody({ body: text, client_id: id, draft_version: draftVersion(field) }, files);
    await post(form.action, {}, { body: sent, onProgress });
    unstored.get(id)?.();
    await catchUp();
    toBottom();
  } catch (problem) {
    if (unstored.has(id)) showProblem(form, problem.message);
  }
  endSending(form, field, id);
}

/** What stands in the field from here on is the next message, also where the answer to this one is still on its way. */
function endSending(form, field, id) {
  if (form.dataset.sending !== id) return;
  delete form.dataset.sending;
  keepRest(field);
}


// --- what is shown ------------------------------------------------------------------------------------------
let seen = null;
let sticks = true;
const stays = new ResizeObserver(() => { if (sticks && list()) toBottom(); });

/** A dive that has just been put on the page: at its newest message, or the one its address names. */
function onShown() {
  const shown = dive() ?? one("#dive");
  if (!shown || shown === seen) return;
  seen = shown;
  refetches.clear();
  told("dive-opened");
  if (!list()) return focusWithin(shown, one("[data-start-body]", shown));
  const named = shown.closest("main") && /^#(?:m|d\d+)-(\d+)$/.exec(location.hash);
  const row = named && rowsOf(list()).find((other) => other.dataset.seq === named[1]);
  if (row) {
    row.classList.add("is-here");
    row.scrollIntoView({ block: "center" });
  } else toBottom();
  stays.disconnect();
  sticks = isAtBottom();
  stays.observe(scroller());
  scroller().addEventListener("scroll", () => { sticks = isAtBottom(); }, { passive: true });
  readSoon();
  if (document.activeElement === body) (one("#dive-body", shown) ?? shown).focus({ preventScroll: true }); // the form is gone
}

document.addEventListener("openvibe:event", onEvent);
document.addEventListener("openvibe:no-stream", () => {
  if (!dive()) return;
  catchUp();
  all('.message[data-state="writing"]', list()).forEach((row) => refetch(Number(row.dataset.id)));
});
document.addEventListener("htmx:afterSettle", () => {
  onShown();
  renewStale();
});
["htmx:afterRequest", "press-ended"].forEach((name) => document.addEventListener(name, renewStale));
document.addEventListener("toggle", ({ target }) => { if (target.matches?.(".message-more, .feedback-more")) renewStale(); }, true);
document.addEventListener("visibilitychange", readSoon);
document.addEventListener("keydown", (event) => {
  if (event.target.matches?.("[data-start-body]") && sends(event)) {
    event.preventDefault();
    event.target.form.requestSubmit();
  } else if (event.target.id === "dive-body" && sends(event)) {
    event.preventDefault();
    event.target.form.requestSubmit();
  } else if (event.key === "Escape" && event.target.matches?.("#dive-body, [data-start-body]")) {
    event.preventDefault();
    if (event.target.value.trim() || !closePanel()) event.target.closest("#dive").focus({ preventScroll: true }); // what was typed stays
  }
});
document.addEventListener("submit", (event) => {
  if (event.target.id !== "dive-composer") return;
  event.preventDefault();
  send(event.target);
});
document.addEventListener("click", (event) => {
  const line = event.target.closest("#dive-messages .more-line a")?.closest(".more-line");
  if (!line) return;
  event.preventDefault();
  loads.add(insertPage(line, dive().dataset.url, scroller()));
});
onShown();
