// What a page shows once its reader may not see it any more: nothing of the conversation, and a way on.

import { all, body, getFragment, one, workspace } from "./page.js";
import { isDrafted, isUnsaved, keepUnsaved } from "./drafts.js";

const STAYS = "What you wrote stays with the team. Ask an owner or admin if this is a mistake.";
const BEGUN = "What you had begun to write as a message is kept for you in this browser, and is there again when you sign in.";

const endStream = () => document.dispatchEvent(new CustomEvent("openvibe:access-ended"));

function notice(element, heading, text, { href, label, className }) {
  const note = document.createElement(element);
  note.className = "gone";
  note.setAttribute("role", "alert");
  const words = document.createElement("h1");
  words.textContent = heading;
  const next = document.createElement("p");
  next.textContent = text;
  const link = document.createElement("a");
  link.className = className;
  link.href = href;
  link.textContent = label;
  note.append(words, next, link);
  return note;
}

/** What this page's reader wrote and nobody has: to be copied, for it cannot be sent from here any more. */
function unsentTexts() {
  const written = all(":is(main, #panel) :is(textarea, form[method=post] :is(input:not([type]), [type=text], [type=url]))");
  const fields = written.filter((field) => isDrafted(field) || isUnsaved(field));
  const texts = [...all("[data-pending] .prose").map((words) => words.textContent), ...fields.map((field) => field.value)];
  return texts.filter((text) => text.trim()).map((text) => {
    const label = document.createElement("label");
    label.className = "field";
    const field = document.createElement("textarea");
    field.readOnly = true;
    field.rows = 6;
    field.value = text;
    label.append("What you wrote was not sent; copy it before you go on", field);
    return label;
  });
}

/** Access to what is shown ended: the rest of the workspace may stay. */
export function gone() {
  const unsent = unsentTexts();
  endStream();
  keepUnsaved();
  const way = { href: "/", label: "Go to your workspaces", className: "button" };
  const note = notice("div", "You no longer have access to this", `It was closed to you, or your role here was changed. ${STAYS}`, way);
  one("a", note).before(...unsent);
  one("#main").replaceChildren(note);
  one("#panel").replaceChildren();
  one(".shell").classList.remove("has-panel");
  getFragment(`${workspace}sidebar/`).then((response) => {
    if (response.ok) return; // still a member
    one("#sidebar").replaceChildren();
    if (response.status === 404) one("p", note).textContent = `You were removed from this workspace. ${STAYS}`;
  }, () => {});
}

/** Nothing of the workspace stays, neither here nor on the way back. */
function leave(title, heading, text, way) {
  endStream();
  keepUnsaved();
  document.title = `${title} · OpenVibe`;
  const note = notice("main", heading, text, { ...way, className: "button primary" });
  body.className = "plain";
  body.dataset.live = "off";
  body.replaceChildren(note);
  one("a", note).focus();
}

const here = () => location.pathname + location.search;

/** The session ended, here or elsewhere. */
export function signedOut() {
  leave("Signed out", "You are signed out", `Your session ended on this device. ${BEGUN}`, {
    href: `/accounts/login/?next=${encodeURIComponent(here())}`,
    label: "Sign in",
  });
}

/** The browser may keep a page as it was when it was left: of one that signs out nothing is to be kept. */
let isSigningOut = false;
document.addEventListener("submit", ({ target }) => { isSigningOut ||= target.action.endsWith("/accounts/logout/"); });
addEventListener("pagehide", () => { if (isSigningOut && workspace) signedOut(); });

/** Another page of this browser signed in as somebody else: what is shown here is not for them. */
function signedInAsAnother() {
  leave("Somebody else is signed in", "Somebody else is signed in here now", `Another page of this browser signed in with another account. ${BEGUN}`, {
    href: here(),
    label: "Go on with that account",
  });
}

document.addEventListener("openvibe:another-reader", signedInAsAnother);
