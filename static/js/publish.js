// The form that publishes a dive: counting, points that come and go, and the agent's draft, which fills only what nobody typed.

import { all, elements, focusWithin, isPassing, one, post } from "./page.js";
import { rowsOf, seqOf } from "./rows.js";

const form = () => one("#publish");
const fields = (root) => all("input:not([type=hidden]), textarea", root);
/** Whether a person wrote what stands here: in this page, or in what came back refused. */
const isTyped = (field, root) => field.value.trim() !== "" && (root.dataset.typed !== undefined || field.value !== field.defaultValue);
const say = (root, text) => { one("[data-draft-state]", root).textContent = text; };

function count(root) {
  const place = one("[data-count]", root);
  const length = [...one("[name=headline]", root).value].length;
  const most = Number(place.dataset.count);
  place.textContent = `${length} of ${most}`;
  place.classList.toggle("is-over", length > most);
}

// --- points -------------------------------------------------------------------------------------------------
/** Three fields at least, those that hold something, and a button for the next. */
function arrange(root) {
  const points = all(".point", root);
  const shown = Math.max(3, ...points.map((point, index) => (one("textarea", point).value.trim() || point.dataset.open ? index + 1 : 0)));
  points.forEach((point, index) => {
    point.hidden = index >= shown;
    one("[data-remove-point]", point).hidden = shown <= 3;
  });
  one("[data-add-point]", root).hidden = shown >= points.length;
}

function add(root) {
  const next = all(".point", root).find((point) => point.hidden);
  next.dataset.open = "yes";
  arrange(root);
  one("textarea", next).focus();
}

/** Close the gap: what stood below moves up, the last field goes. */
function remove(root, point) {
  const points = all(".point", root);
  const at = points.indexOf(point);
  const texts = points.map((other) => one("textarea", other).value);
  texts.splice(at, 1);
  points.forEach((other, index) => { one("textarea", other).value = texts[index] ?? ""; });
  delete points.findLast((other) => !other.hidden).dataset.open;
  arrange(root);
  one("textarea", points[Math.max(0, at - 1)]).focus();
  htmx.trigger("#publish-preview", "renew");
}

// --- the draft ----------------------------------------------------------------------------------------------
const shownRows = () => rowsOf(one("#dive-messages"));

async function ask(root) {
  const last = shownRows().at(-1);
  try {
    awaitDraft(root, (await post(root.dataset.draftUrl, {})).seq);
  } catch (problem) {
    say(root, problem.message);
    if (isPassing(problem)) root.dataset.unheard = last ? seqOf(last) : 0; // it may be asked for all the same
  }
  follow(); // it may be there already: the stream is quicker than a slow answer
}

/** The draft was asked for by the message of this number. */
function awaitDraft(root, seq) {
  delete root.dataset.unheard;
  root.dataset.asked = seq;
  say(root, `${root.dataset.agent} is drafting above. The form fills when the draft is ready.`);
}

/** The replies since the draft was asked for tell how it goes. */
async function follow() {
  const root = form();
  const request = root?.dataset.unheard && shownRows().find((row) => row.matches(".is-system[data-mine=yes]") && seqOf(row) > root.dataset.unheard);
  if (request) awaitDraft(root, seqOf(request));
  if (!root?.dataset.asked) return;
  const asked = Number(root.dataset.asked);
  const since = shownRows().filter((row) => seqOf(row) >= asked);
  const reply = since.findLast((row) => row.dataset.agent === "yes" && row.dataset.state !== "writing" && one(".prose", row));
  if (reply && ["complete", "stopped"].includes(reply.dataset.state)) {
    delete root.dataset.asked;
    await fill(root);
  } else if (since.some((row) => one(".run-failed, .run-stopped", row)) || reply?.dataset.state === "failed") {
    delete root.dataset.asked;
    say(root, `${root.dataset.agent} could not write the draft. Ask again, or write the result yourself.`);
  }
}

async function fill(root) {
  const response = await fetchForm(root);
  if (!response) return say(root, "The draft could not be loaded. Reload the page to see it; what you typed is still here.");
  const kept = fields(root).filter((field) => isTyped(field, root)).length;
  take(root, response, (field) => !isTyped(field, root));
  say(root, one("[data-draft-state]", response).textContent);
  if (kept) offer(root, response);
}

async function fetchForm(root) {
  const response = await fetch(root.dataset.url, { headers: { "HX-Request": "true", "HX-Target": "dive-foot" }, cache: "no-store" }).catch(() => null);
  return response?.ok ? elements(await response.text()).find((item) => item.id === "publish") : null;
}

function take(root, fresh, wants) {
  const now = fields(fresh);
  fields(root).forEach((field, index) => {
    if (!wants(field)) return;
    field.value = now[index].defaultValue;
    field.defaultValue = now[index].defaultValue;
  });
  const rest = one(".publish-rest", root);
  rest.open ||= one(".publish-rest", fresh).open;
  count(root);
  arrange(root);
  htmx.trigger("#publish-preview", "renew");
}

/** What a person typed was kept; the rest of the draft is one press away. */
function offer(root, fresh) {
  one("[data-take-all]", root)?.remove();
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.dataset.takeAll = "";
  button.textContent = "Replace what I typed by the draft";
  button.addEventListener("click", () => {
    delete root.dataset.typed;
    take(root, fresh, () => true);
    button.remove();
    say(root, one("[data-draft-state]", fresh).textContent);
  });
  one(".publish-draft", root).append(button);
  say(root, "The draft is ready. What you typed was kept; the empty fields were filled.");
}

// --- the form -----------------------------------------------------------------------------------------------
let seen = null;

function onShown() {
  const root = form();
  if (!root || root === seen) return;
  seen = root;
  count(root);
  arrange(root);
  const wrong = one("[aria-invalid], fieldset[aria-describedby] textarea, fieldset[aria-describedby] input", root);
  focusWithin(root, wrong ?? one("[name=headline]", root), { preventScroll: !wrong });
  follow();
}

document.addEventListener("htmx:afterSettle", onShown);
document.addEventListener("openvibe:dive-shown", follow);
document.addEventListener("openvibe:ended", ({ target, detail }) => {
  if (!target.matches("#publish")) return;
  say(target, `${detail} What you typed is still here.`);
});
document.addEventListener("input", ({ target }) => {
  const root = target.closest?.("#publish");
  if (root && target.name === "headline") count(root);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches?.("#publish input")) event.preventDefault(); // nothing is published by accident
});
document.addEventListener("click", (event) => {
  const root = event.target.closest?.("#publish");
  if (!root) return;
  if (event.target.closest("[data-draft]")) {
    event.preventDefault();
    ask(root);
  } else if (event.target.closest("[data-add-point]")) add(root);
  else if (event.target.closest("[data-remove-point]")) remove(root, event.target.closest(".point"));
});
onShown();
