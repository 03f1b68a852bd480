// Messages in a list, of a thread or of a dive: each where its number belongs, none taken from under anybody's hands.

import { all, announce, elements, one } from "./page.js";

export const rowsOf = (list) => (list ? all(".message[data-seq]", list) : []);
export const seqOf = (row) => Number(row.dataset.seq);

/** Whether somebody is typing in this row, or waits for the answer to something pressed in it. */
export const isInHand = (row) => Boolean(one("[data-editing], .htmx-request", row));

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

/** A run stands once in the list, in its reply: the request above may be older than the reply that has just come. */
function keepRunsOnce(row, list) {
  for (const line of all("[data-run]", row)) {
    const shown = all(`[data-run="${CSS.escape(line.dataset.run)}"]`, list);
    shown.slice(0, -1).forEach((older) => older.remove());
  }
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
    const hadFocus = document.activeElement === old;
    const held = !hadFocus && old.contains(document.activeElement) ? document.activeElement : null;
    tellState(row, old.dataset.state);
    old.replaceWith(row);
    if (hadFocus) row.focus({ preventScroll: true });
    else if (held) (document.getElementById(held.id) ?? row).focus({ preventScroll: true });
  } else {
    const pending = row.dataset.client && one(`[data-pending="${CSS.escape(row.dataset.client)}"]`, list);
    const after = rowsOf(list).findLast((other) => seqOf(other) < seqOf(row));
    if (pending) pending.remove();
    if (after) after.after(row);
    else list.prepend(row);
    tellState(row, undefined);
  }
  keepRunsOnce(row, list);
  htmx.process(row);
  return row;
}

/**
 * What a reply that is being written gained, from character `from` to `to`: `words`, or blocks that are `done` and the
 * `tail` after them. False when it does not follow on what is shown.
 */
export function addWords({ message, from, to, words, done, tail }, list) {
  const row = one(`.message[data-id="${message}"]`, list);
  const last = row && one(".words", row);
  if (!last) return Boolean(row); // it is finished
  const length = Number(row.dataset.length);
  if (to <= length) return true;
  if (from > length || (done && from < length)) return false;
  if (done) {
    last.before(...elements(done));
    last.textContent = tail;
  } else last.append(Array.from(words).slice(length - from).join(""));
  row.dataset.length = to;
  return true;
}
