// The composer: mentions, sending with a key of its own, retry.

import { chooseFiles, chosenFiles, filesProblem, requestBody } from "./attach.js";
import { draftSoon, draftsSaved, draftVersion, keepRest, withdraw } from "./drafts.js";
import { all, body, elements, getFragment, one, oneAtATime, post, sends, settled, TRY_AGAIN } from "./page.js";
import { conversation, currentRow, isShown, threadId, toBottom, toNewest } from "./feed.js";
import { adopt, AWAY, forgetLetter, isRefused, isStale, keepLetter, lookUp, onSentElsewhere, sendRest } from "./outbox.js";
import { leadBack } from "./rows.js";

const form = one("#composer");
const field = one("#composer-body");
const saved = one("[data-saved]", form ?? document);
const preview = one("#composer-preview");
const list = one("#messages");
const MOST_PREVIEWED = 2000;

// --- sending ------------------------------------------------------------------------------------------------
export function showProblem(text) {
  one(".form-problem", form)?.remove();
  if (!text) return;
  const line = document.createElement("p");
  line.className = "form-problem";
  line.setAttribute("role", "alert");
  line.textContent = text;
  one(".composer-box", form).before(line);
}

/** `letter`: as the outbox keeps it; `chosen`: the files themselves. */
function pendingRow(letter) {
  const { text, key, files } = letter;
  const row = one("#pending-row").content.firstElementChild.cloneNode(true);
  row.dataset.pending = key;
  row.onStored = () => forgetLetter(letter);
  one(".prose", row).textContent = [text, files.join(", ")].filter(Boolean).join("\n");
  list.append(row);
  one("#empty")?.remove();
  toBottom();
  return row;
}

function sayUnsent(row, words, ...ways) {
  row.classList.add("is-failed");
  const state = one(".send-state", row);
  state.classList.add("send-problem");
  state.textContent = `${words} `;
  for (const [label, className, act] of ways) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = className;
    button.textContent = label;
    button.addEventListener("click", act);
    state.append(button);
  }
}

function offerRetry(row, letter, chosen, problem) {
  const away = AWAY[problem.status];
  if (!away) row.resend = null;
  else if (body.dataset.connection !== "lost") resendLater(); // else once the page is connected again
  const words = away ? `Not sent yet: ${away}. It is sent once that is over.`
    : problem.code === "stale_page" ? "Not sent yet: you signed in or out somewhere else since this page was opened. Reload it, and it is sent."
      : `Not sent. ${problem.message}`;
  const again = () => {
    row.resend = (before) => deliver(letter, chosen, row, before);
    resend();
  };
  sayUnsent(row, words, ["Retry", "button", again], wayBack(row, letter, chosen));
}

const wayBack = (row, letter, chosen) => ["Back to the composer", "button quiet", () => {
  forgetLetter(letter);
  row.remove();
  putBack(letter.text, chosen);
}];

function putBack(text, files) {
  if (files.length) chooseFiles(form, [...files, ...chosenFiles(form)]);
  field.value = field.value.trim() ? `${text}\n\n${field.value}` : text;
  grown();
  field.focus();
  draftSoon(field);
}

/** Send what waits, in the order it was written: what cannot go now keeps what was written after it. */
const resend = oneAtATime(async () => {
  let problem = null;
  for (const row of all("[data-pending]", list)) {
    if (!row.resend || !row.isConnected) continue;
    problem = await row.resend(problem);
  }
});

const resendLater = settled(resend, TRY_AGAIN);
const resendSoon = settled(resend, 200); // what one page left comes letter by letter

/** Another page was left before this was sent: it goes out, unless that was long ago or its files are gone with the page. */
function takeUp(letter) {
  if (one(`[data-client="${CSS.escape(letter.key)}"]`, list)) return forgetLetter(letter);
  const version = draftVersion(field);
  if ((letter.version ?? version) === version && letter.text.trim().startsWith(field.value.trim())) { // the draft that it was
    field.value = "";
    letter.version = version;
  }
  const row = pendingRow(letter);
  row.at = letter.at;
  all("[data-pending]", list).find((other) => other.at > letter.at)?.before(row);
  if (letter.files.length || isStale(letter)) {
    giveUp(letter, row).catch(reportError);
  } else {
    row.resend = (problem) => deliver(letter, [], row, problem);
    resendSoon();
  }
}

/** It cannot go out by itself any more, but may stand further up: perhaps the answer was lost. */
async function giveUp(letter, row) {
  if ((await lookUp(letter)).isStored) {
    forgetLetter(letter);
    row.remove();
  } else if (letter.files.length) {
    sayUnsent(row, "Not sent. The page was left before its files were sent: they have to be chosen again.", wayBack(row, letter, []));
  } else {
    offerRetry(row, letter, [], { message: "The page was left before it was sent.", status: 1 });
  }
}

/** Another page sent what stands here as its draft, or what is offered beside it. */
function takeSent({ text }) {
  withdraw(field, text);
  if (field.value.trim() !== text.trim()) return;
  field.value = "";
  grown();
  showPreview();
}

let attempt = null; // { since, ends }: what is being sent, and when any of it last was

/** Resolves to what keeps it from being sent for now, which is `problem` where one that was written before it still waits. */
async function deliver(letter, chosen, row, problem = null) {
  if (problem) {
    offerRetry(row, letter, chosen, problem);
    return problem;
  }
  row.classList.remove("is-failed");
  const state = one(".send-state", row);
  state.classList.remove("send-problem");
  state.textContent = "Sending…";
  let said;
  const sent = attempt = { since: Date.now(), ends: new AbortController() };
  try {
    const onProgress = chosen.length ? (share) => {
      sent.since = Date.now();
      state.textContent = `Sending… ${Math.round(share * 100)} %`;
    } : undefined;
    const fields = { body: letter.text, client_id: letter.key, draft_version: letter.version ?? "" };
    said = await post(form.action, {}, { body: requestBody(fields, chosen), onProgress, signal: sent.ends.signal });
  } catch (refusal) {
    if (!row.isConnected) return null; // it stands already, or nothing may be written here any more
    if (isRefused(refusal)) {
      forgetLetter(letter);
      row.remove();
      putBack(letter.text, chosen);
      showProblem(refusal.message);
      return null;
    }
    offerRetry(row, letter, chosen, refusal);
    return AWAY[refusal.status] ? refusal : null;
  }
  forgetLetter(letter);
  keepRest(field);
  if (!isShown(said.id)) await toNewest();
  row.remove();
  toBottom();
  return null;
}

async function send() {
  const text = field.value;
  const files = chosenFiles(form);
  if (text.includes("\u0000") || (!text.trim() && !files.length)) {
    showProblem(text.trim() ? "This text holds a NUL character, which cannot be kept. Paste it again as plain text." : "There is nothing to send yet. Write something first.");
    return;
  }
  if (text.length > Number(form.dataset.max)) {
    showProblem(`This message has ${text.length.toLocaleString("en")} characters; a message may have ${Number(form.dataset.max).toLocaleString("en")}. Shorten it; your text is kept here.`);
    return;
  }
  if (filesProblem(form)) {
    showProblem(filesProblem(form));
    return;
  }
  showProblem("");
  field.value = "";
  chooseFiles(form, []);
  saved.textContent = "";
  grown();
  showPreview();
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const letter = { thread: threadId, key, text, at: Date.now(), files: files.map(({ name }) => name) };
  keepLetter(letter);
  const row = pendingRow(letter);
  await draftsSaved();
  letter.version = draftVersion(field);
  keepLetter(letter);
  row.resend = (problem) => deliver(letter, files, row, problem);
  resend();
}

const grown = () => {
  if (CSS.supports("field-sizing", "content")) return;
  field.rows = Math.min(12, Math.max(1, field.value.split("\n").length));
};

// --- mentions -----------------------------------------------------------------------------------------------
let agentNames = null;
let answers = new Map(); // what was typed: who is called so
let choices = [];
let chosen = 0;
const SHOWN = 8;
const box = document.createElement("ul");

async function fetchNames(query) {
  const response = await fetch(form.dataset.namesUrl + query, { headers: { Accept: "application/json" } }).catch(() => null);
  return response?.ok ? response.json() : null;
}
export const forgetNames = () => {
  agentNames = null;
  answers = new Map();
};
const isCalled = (who, typed) => who.handle.startsWith(typed) || who.name.toLowerCase().split(" ").some((word) => word.startsWith(typed));

/** Who is called so, as far as it is known without asking: what was answered before may hold all of them. */
function remembered(typed) {
  for (let length = typed.length; length >= 0; length -= 1) {
    const answer = answers.get(typed.slice(0, length));
    if (answer && (answer.is_complete || length === typed.length)) return answer.names.filter((who) => isCalled(who, typed));
  }
  return null;
}

const typed = () => /(?:^|[\s(])@([\p{L}\p{M}\p{N}_-]*)$/u.exec(field.value.slice(0, field.selectionStart));
const typedName = () => typed()?.[1].toLowerCase();

/** Ask for what is typed now; what is typed meanwhile waits for the answer, so that one question is out at a time. */
const askNames = oneAtATime(async () => {
  const name = typedName();
  if (name === undefined || remembered(name)) return;
  const asked = answers;
  const answer = await fetchNames(`?${new URLSearchParams({ q: name })}`);
  if (answer) asked.set(name, answer); // forgotten meanwhile, it is asked for again
  offerNames(Boolean(answer));
});

function offerNames(mayAsk = true) {
  const name = typedName();
  if (name === undefined) return closeNames();
  const known = remembered(name);
  if (!known && mayAsk) askNames();
  choices = known?.slice(0, SHOWN) ?? [];
  if (!choices.length) return closeNames();
  chosen = 0;
  box.replaceChildren(...choices.map(option));
  box.hidden = false;
  field.setAttribute("aria-controls", "names");
  markChosen();
}

function option(who, index) {
  const item = document.createElement("li");
  item.id = `name-${index}`;
  item.setAttribute("role", "option");
  const name = document.createElement("strong");
  name.textContent = who.name;
  const handle = document.createElement("span");
  handle.className = "quiet-note";
  handle.textContent = `@${who.handle}`;
  if (who.label !== who.name) {
    handle.classList.add("name-handle");
    handle.title = "This name can be taken for somebody else’s. The handle tells them apart.";
  }
  item.append(name, handle);
  if (who.level) {
    const badge = document.createElement("span");
    badge.className = "badge badge-agent";
    badge.textContent = `Agent · L${who.level}`;
    item.append(badge);
  }
  item.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    take(index);
  });
  return item;
}

function markChosen() {
  all("li", box).forEach((item, index) => item.setAttribute("aria-selected", String(index === chosen)));
  field.setAttribute("aria-activedescendant", `name-${chosen}`);
  box.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function closeNames() {
  box.hidden = true;
  field.removeAttribute("aria-activedescendant");
  field.removeAttribute("aria-controls");
}

function take(index) {
  const match = typed();
  const from = field.selectionStart - match[1].length;
  field.setRangeText(`${choices[index].handle} `, from, field.selectionStart, "end");
  closeNames();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function onNameKey(event) {
  if (box.hidden) return false;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    chosen = (chosen + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length;
    markChosen();
  } else if (event.key === "Enter" || event.key === "Tab") take(chosen);
  else if (event.key === "Escape") closeNames();
  else return false;
  event.preventDefault();
  return true;
}

// --- what an agent will read --------------------------------------------------------------------------------
async function showPreview() {
  if (!preview?.dataset.url) return;
  const text = field.value;
  const said = [...text.matchAll(/@([a-z0-9][a-z0-9_-]*)/gi)].map((match) => match[1].toLowerCase());
  const following = text.trim() ? field.dataset.followers.split(" ").filter(Boolean) : [];
  if (said.length || following.length) agentNames ??= (await fetchNames(""))?.names ?? null;
  const known = agentNames ?? [];
  if (field.value !== text) return previewSoon(); // somebody typed on, or sent it, while the names came
  const agents = known.filter((who) => (said.includes(who.handle) || following.includes(who.handle)));
  const key = agents.map((who) => who.handle).join(",");
  if (preview.dataset.agents === key) return;
  preview.dataset.agents = key;
  if (!key) return preview.replaceChildren();
  const named = agents.filter((who) => said.includes(who.handle)).map((who) => `@${who.handle}`).join(" ");
  const query = new URLSearchParams({ text: text.length > MOST_PREVIEWED ? `${named} ${text.slice(0, MOST_PREVIEWED)}` : text });
  const response = await getFragment(`${preview.dataset.url}?${query}`).catch(() => null);
  if (preview.dataset.agents !== key) return;
  if (response?.ok) preview.replaceChildren(...elements(await response.text()));
  if (!response?.ok || preview.dataset.agents !== key) preview.replaceChildren();
}
const previewSoon = settled(showPreview, 500);

// --- keys ---------------------------------------------------------------------------------------------------

function onKey(event) {
  if (onNameKey(event)) return;
  if (sends(event)) {
    event.preventDefault();
    send();
  } else if (event.key === "ArrowUp" && !field.value) {
    const mine = all('.message[data-mine="yes"] [data-edit]', list).at(-1);
    if (mine) {
      event.preventDefault();
      leadBack(mine.closest(".message"), field);
      mine.click();
    }
  } else if (event.key === "Escape") (currentRow() ?? one("#scroller")).focus({ preventScroll: true });
}

export function start() {
  document.addEventListener("keydown", (event) => {
    const editing = event.target.closest?.("[data-editing]");
    if (!editing || event.target.name !== "body") return;
    if (sends(event)) {
      event.preventDefault();
      editing.requestSubmit();
    } else if (event.key === "Escape") {
      event.preventDefault();
      one("[data-cancel]", editing)?.click();
    }
  });
  sendRest(form && threadId);
  if (!form || !conversation) return;
  box.id = "names";
  box.className = "names";
  box.hidden = true;
  box.setAttribute("role", "listbox");
  box.setAttribute("aria-label", "People and agents");
  one(".composer-box", form).append(box);
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-haspopup", "listbox");
  field.addEventListener("keydown", onKey);
  field.addEventListener("blur", closeNames);
  field.addEventListener("input", () => {
    grown();
    offerNames();
    previewSoon();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  document.addEventListener("openvibe:connected", () => {
    if (attempt && Date.now() - attempt.since > TRY_AGAIN) attempt.ends.abort(); // it may hang on the connection that was lost
    resend();
  });
  adopt(threadId, takeUp);
  onSentElsewhere(threadId, takeSent);
  grown();
  if (field.value) showPreview();
}
