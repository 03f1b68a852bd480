// Messages in a list, of a thread or of a dive: each where its number belongs, none taken from under anybody's hands.

import { all, announce, elements, getFragment, one, refocus, toast } from "./page.js";
import { keepCode, wordsOf } from "./code.js";

export const rowsOf = (list) => (list ? all(".message[data-seq]", list) : []);
export const seqOf = (row) => Number(row.dataset.seq);

/** Pages of messages that are on their way to one list: what is told meanwhile is newer than they are. */
export function pageLoads() {
  let count = 0;
  let settled = Promise.resolve();
  return {
    isLoading: () => count > 0,
    settled: () => settled,
    add(page) {
      count += 1;
      settled = Promise.allSettled([settled, page]).finally(() => { count -= 1; });
      return settled;
    },
  };
}

/**
 * Put the page that a "more" line stands for in its place, without moving what is in sight. Resolves to what was put
 * there: nothing when no answer came, or the line is gone.
 */
export async function insertPage(line, url, scroller) {
  if (line.dataset.loading) return [];
  line.dataset.loading = "yes";
  const isOlder = line.dataset.older !== undefined;
  const query = isOlder ? `before_seq=${line.dataset.older}` : `after_seq=${line.dataset.newer}`;
  const response = await getFragment(`${url}?${query}`).catch(() => null);
  const found = response?.ok ? elements(await response.text()) : [];
  delete line.dataset.loading;
  if (!found.length || !line.isConnected) return [];
  const wanted = found.filter((item) => item.dataset[isOlder ? "newer" : "older"] === undefined);
  const height = scroller.scrollHeight;
  const top = scroller.scrollTop;
  line.replaceWith(...wanted);
  wanted.forEach((item) => htmx.process(item));
  if (isOlder) scroller.scrollTop = top + scroller.scrollHeight - height;
  return wanted;
}

/** Whether somebody is typing in this row, has its menu open, presses something in it, or waits for the answer to that. */
export const isInHand = (row) => Boolean(one("[data-editing], [data-pressed], :is(.message-more, .feedback-more)[open], .htmx-request", row));

// A button that is replaced between press and release is not clicked.
document.addEventListener("pointerdown", ({ target }) => {
  const pressed = target.closest?.(".message :is(a, button, summary)");
  if (pressed) pressed.dataset.pressed = "";
});
["pointerup", "pointercancel"].forEach((name) => document.addEventListener(name, () => setTimeout(() => { // after the click
  all("[data-pressed]").forEach((item) => { delete item.dataset.pressed; });
  document.dispatchEvent(new Event("press-ended"));
})));

function tellState(row, before) {
  if (row.dataset.agent !== "yes" || before === row.dataset.state) return;
  const words = {
    writing: "is writing",
    complete: before === "writing" || before === undefined ? "replied" : "",
    stopped: "was stopped",
    failed: "could not answer",
  }[row.dataset.state];
  if (words) announce(`${row.dataset.author} ${words}`);
}

function keepNewLine(old, row) {
  const line = one(".new-line", old);
  if (line && !one(".new-line", row)) one(".message-box", row).before(line);
}

/** What somebody has opened of a run stays open, under what its line says now. */
function keepFolds(old, row) {
  for (const open of all(".run-fold[open]", old)) {
    const fresh = one(`#${CSS.escape(open.id)}`, row);
    if (!fresh) continue;
    one("summary", open).replaceWith(one("summary", fresh));
    fresh.replaceWith(open);
  }
}

/** A run stands once in the list, in its reply: the request above may be older than the reply that has just come. */
function keepRunsOnce(row, list) {
  for (const line of all("[data-run]", row)) {
    const shown = all(`[data-run="${CSS.escape(line.dataset.run)}"]`, list);
    shown.slice(0, -1).forEach((older) => older.remove());
  }
}

/** The row that stands for this one: of an answer that a later version took the place of, that version's. */
function shownPlace(row) {
  const newest = row.classList.contains("is-replaced") && one(`.message[data-id="${CSS.escape(row.dataset.newest)}"]`);
  return newest || row;
}

/** Who had the keyboard in an answer that this row took the place of, before it was here, goes on in it. */
function takeOver(row) {
  const held = document.activeElement;
  if (held?.closest(`.message.is-replaced[data-newest="${CSS.escape(row.dataset.id)}"]`)) refocus(held, row);
}

/** Put a row where its number belongs in the list, in the place of an older version of itself. */
export function place(row, list) {
  const old = document.getElementById(row.id);
  if (old) {
    if (isInHand(old)) {
      old.dataset.stale = "yes";
      return old;
    }
    keepNewLine(old, row);
    for (const name of ["is-active", "is-here"]) if (old.classList.contains(name)) row.classList.add(name);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const full = one(".result-more[open]", old);
    if (full) one(".result-more", row)?.replaceWith(full); // somebody reads it
    keepFolds(old, row);
    keepCode(old, row);
    tellState(row, old.dataset.state);
    old.replaceWith(row);
    if (focused) refocus(focused, shownPlace(row));
    else giveBack(row); // what was swapped into the old row settles no more
  } else {
    const pending = row.dataset.client && one(`[data-pending="${CSS.escape(row.dataset.client)}"]`, list);
    const after = rowsOf(list).findLast((other) => seqOf(other) < seqOf(row));
    pending?.onStored();
    pending?.remove();
    if (after) after.after(row);
    else list.prepend(row);
    tellState(row, undefined);
    takeOver(row);
  }
  keepRunsOnce(row, list);
  htmx.process(row);
  return row;
}

// --- a row that is swapped whole -----------------------------------------------------------------------------
let outdated = ""; // what came while the answer was on its way may be newer than it: the row is still to be fetched

document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  outdated = target?.matches?.('.message[data-stale="yes"]') ? target.id : "";
});
document.addEventListener("htmx:afterSwap", () => {
  const row = outdated && document.getElementById(outdated);
  if (row) row.dataset.stale = "yes";
  outdated = "";
});

// --- the keyboard stays in the row --------------------------------------------------------------------------
let held = null;

/** Somebody came to this row's form from elsewhere, and is led back there once it has come and is closed. */
export const leadBack = (row, to) => { held = { row: row.id, element: to, isElsewhere: true }; };

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const row = document.activeElement?.closest(".message") ?? detail.target?.closest?.(".message");
  if (!row || (held?.isElsewhere && held.row === row.id)) return;
  if (held && document.activeElement === document.body) return; // what another answer just replaced is given back first
  held = row.contains(document.activeElement) ? { row: row.id, element: document.activeElement } : null;
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (!detail?.successful && held?.isElsewhere && !held.isOpen) held = null; // the form does not come
});
/** Somebody who did something in this row has the keyboard where they were, unless a form is open. */
function giveBack(row) {
  if (!row || held?.row !== row.id) return;
  if (one(".edit-form", row)) held.isOpen = true;
  if (held.isOpen ? one(".edit-form", row) : held.isElsewhere) return; // the form they came for is open, or still to come
  if (document.activeElement === document.body) {
    if (held.isElsewhere) held.element.focus();
    else refocus(held.element, shownPlace(row));
  }
  held = null;
}
document.addEventListener("htmx:afterSettle", () => {
  const reason = one(".feedback-more[data-just-given]");
  if (reason) {
    delete reason.dataset.justGiven;
    one("textarea", reason).focus({ preventScroll: true });
    reason.scrollIntoView({ block: "nearest" });
    held = null;
    return;
  }
  const opened = document.activeElement?.closest(".edit-form:not([data-opened])");
  if (opened) {
    opened.dataset.opened = "yes";
    opened.scrollIntoView({ block: "nearest" }); // with its buttons
  }
  giveBack(held && document.getElementById(held.row));
});

// --- the menu of a message ----------------------------------------------------------------------------------
/** Where there is room for it: above its button when what scrolls ends below it, and never beyond its sides. */
function arrange(menu) {
  const list = one(".menu-list", menu);
  const room = menu.closest(".scroller, .dive-scroller")?.getBoundingClientRect();
  menu.classList.remove("opens-up");
  list.style.translate = "";
  if (!menu.open || !room) return;
  const size = list.getBoundingClientRect();
  const top = menu.getBoundingClientRect().top;
  menu.classList.toggle("opens-up", size.bottom > room.bottom && top - size.height > room.top);
  const overhang = Math.max(room.left + 8 - size.left, 0) || Math.min(room.right - 8 - size.right, 0);
  list.style.translate = `${overhang}px 0`;
  list.scrollIntoView({ block: "nearest" });
}
document.addEventListener("toggle", ({ target }) => { if (target.matches?.(".message-more")) arrange(target); }, true);

async function copy(text, words) {
  try {
    await navigator.clipboard.writeText(text);
    toast(words);
  } catch {
    toast(text, { lasts: true }); // browsers keep the clipboard from pages without https
  }
}

document.addEventListener("click", (event) => {
  const item = event.target.closest?.(".message-more .menu-item");
  const menu = item?.closest("details");
  if (!menu) return;
  if (item.matches("[data-copy]")) {
    event.preventDefault();
    copy(item.href, "Link copied.");
  } else if (item.matches("[data-copy-words]")) copy(wordsOf(one(".prose, .result", item.closest(".message"))), "Text copied.");
  const hadFocus = menu.contains(document.activeElement);
  menu.open = false;
  if (hadFocus) one("summary", menu).focus({ preventScroll: true });
});

// What was pressed says what became of it, to those who do not see it, too.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const said = detail.requestConfig?.elt.dataset.said;
  if (said && detail.xhr.status < 300) toast(said);
});

// --- a long press, where nothing can be pointed at ----------------------------------------------------------
const LONG_PRESS = 500;
const STEADY = 10; // pixels
let press = null;

function endPress() {
  if (!press) return;
  clearTimeout(press.timer);
  press.row.classList.remove("is-pressed");
  press = null;
}

/** Of all messages but this one. */
function hideActions(except) {
  all(".message.is-active").forEach((row) => row.classList.toggle("is-active", row === except));
}

function showActions() {
  const { row } = press;
  hideActions(row);
  row.classList.add("is-active");
  one(".message-bar", row)?.scrollIntoView({ block: "nearest" });
  press.isLong = true;
  getSelection()?.removeAllRanges();
  navigator.vibrate?.(10);
}

document.addEventListener("pointerdown", ({ target, pointerType, isPrimary, clientX: x, clientY: y }) => {
  endPress();
  const row = target.closest?.(".message[data-id]");
  if (!row || pointerType !== "touch" || !isPrimary || target.closest("a, button, summary, input, textarea")) return;
  press = { row, x, y, isLong: false, timer: setTimeout(showActions, LONG_PRESS) };
  row.classList.add("is-pressed");
});
document.addEventListener("pointermove", ({ clientX, clientY }) => {
  if (press && !press.isLong && Math.hypot(clientX - press.x, clientY - press.y) > STEADY) endPress();
});
["pointerup", "pointercancel"].forEach((name) => document.addEventListener(name, endPress)); // scrolling cancels
document.addEventListener("click", ({ target }) => hideActions(target.closest?.(".message.is-active")));
document.addEventListener("contextmenu", (event) => { // some systems take less than half a second for a long press
  if (!press) return;
  if (!press.isLong) showActions();
  event.preventDefault();
});
