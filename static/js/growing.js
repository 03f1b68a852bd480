// A reply that is being written: blocks that are finished stay as they are, and of the last one only what differs is
// touched, so that what somebody selected or opened in it stays. The server renders; `live/growing.py` says what is sent.

import { keepCode } from "./code.js";
import { elements, one } from "./page.js";

const HOLDERS = new Set(["UL", "OL", "LI", "BLOCKQUOTE", "DETAILS", "DIV", "FIGURE", "PRE", "TABLE", "TBODY", "THEAD", "TR", "SECTION"]);
const ENDS = new Set([...HOLDERS, "P", "H1", "H2", "H3", "H4", "H5", "H6", "CODE", "TD", "TH"]);
const shown = new WeakMap(); // of each last block, the HTML that it was last rendered as

const isEnd = (element) => Boolean(element && ENDS.has(element.tagName));

/** Where words go on until they are rendered: at the end of the last paragraph, item, cell or line of code. */
function endOf(tail) {
  const code = one(".code-block:last-child code", tail);
  if (code) return code;
  let place = tail;
  while (HOLDERS.has(place.tagName) && isEnd(place.lastElementChild)) place = place.lastElementChild;
  return place;
}

/** Make `old` hold what `fresh` does, and keep the nodes that both have. */
function morph(old, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, at) => {
    const had = old.childNodes[at];
    if (!had) old.append(node);
    else if (had.isEqualNode(node)) return;
    else if (had.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) had.data = node.data;
    else if (had.nodeType !== Node.ELEMENT_NODE || had.tagName !== node.tagName) had.replaceWith(node);
    else {
      if (!had.closest(".code-block")) for (const { name, value } of node.attributes) had.setAttribute(name, value);
      else if (node.classList.contains("is-long")) had.classList.add("is-long");
      morph(had, node);
    }
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function appendWords(tail, words) {
  const place = endOf(tail);
  if (place.tagName === "CODE") return place.append(words);
  const span = document.createElement("span");
  span.className = "words";
  span.append(words);
  place.append(span);
}

/** False when the last block here is not the one that this follows on. */
function render(row, tail, { base, was = 0, kept = 0, done = 0, html = "" }) {
  const before = shown.get(tail) ?? tail.innerHTML;
  if (Number(row.dataset.rendered) !== base || before.length !== was) return false;
  const whole = before.slice(0, kept) + html;
  if (done) {
    const finished = document.createElement("div");
    finished.append(...elements(whole.slice(0, done)));
    keepCode(tail, finished);
    tail.before(...finished.children);
  }
  const after = whole.slice(done);
  const fresh = document.createElement("template");
  fresh.innerHTML = after;
  morph(tail, fresh.content);
  shown.set(tail, after);
  return true;
}

/** Whoever reads at the end of code that is folded goes on seeing its end. */
function followCode(tail, change) {
  const code = () => one(".code-block.is-long:last-child:not(.is-open) > pre", tail);
  const before = code();
  const stays = !before || before.scrollHeight - before.scrollTop - before.clientHeight < 40;
  const isDone = change();
  const after = code();
  if (stays && after) after.scrollTop = after.scrollHeight;
  return isDone;
}

/** What a reply gained from character `from` to `to`. False when it does not follow on what is shown. */
export function addWords(event, list) {
  const row = one(`.message[data-id="${event.message}"]`, list);
  const tail = row && one(".prose > .tail", row);
  if (!tail) return Boolean(row); // it is finished
  const length = Number(row.dataset.length);
  if (event.to <= length) return true;
  if (event.from !== length) return false;
  const isAdded = followCode(tail, () => (event.words === undefined ? render(row, tail, event) : (appendWords(tail, event.words), true)));
  if (!isAdded) return false;
  row.dataset.length = event.to;
  if (event.words === undefined) {
    row.dataset.rendered = event.to;
    tail.classList.toggle("is-draft", Boolean(event.draft)); // for the form, not for people
  }
  return true;
}
