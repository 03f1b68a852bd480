// Blocks of code in texts: copied, wrapped and unfolded.

import { all, one, toast } from "./page.js";

async function copyCode(block) {
  const text = one("pre", block).textContent;
  try {
    await navigator.clipboard.writeText(text);
    toast("Code copied.");
  } catch { // browsers keep the clipboard from pages without https
    getSelection().selectAllChildren(one("code", block));
    toast("This browser does not let the page copy. The code is selected: copy it with the keyboard.");
  }
}

function wrap(block, button) {
  const isWrapped = block.classList.toggle("is-wrapped");
  button.setAttribute("aria-pressed", String(isWrapped));
}

function unfold(block, button) {
  const isOpen = block.classList.toggle("is-open");
  button.setAttribute("aria-expanded", String(isOpen));
  button.dataset.more ??= button.textContent;
  button.textContent = isOpen ? "Show fewer lines" : button.dataset.more;
  if (!isOpen) block.scrollIntoView({ block: "nearest" });
}

const VERBS = { copy: copyCode, wrap, unfold };

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-code]");
  const block = button?.closest(".code-block");
  if (block) VERBS[button.dataset.code]?.(block, button);
});

/** What somebody wrapped or unfolded in a text stays so where it is shown anew. */
export function keepCode(old, fresh) {
  const blocks = all(".code-block", fresh);
  all(".code-block", old).forEach((block, at) => {
    const next = blocks[at];
    if (!next) return;
    if (block.classList.contains("is-wrapped")) wrap(next, one("[data-code=wrap]", next));
    if (block.classList.contains("is-open") && one("[data-code=unfold]", next)) unfold(next, one("[data-code=unfold]", next));
  });
}

/** The words of a text to copy: a formula as its TeX, without the buttons of code. */
export function wordsOf(element) {
  const copy = element.cloneNode(true);
  all(".formula", copy).forEach((formula) => formula.replaceWith(one("annotation", formula)?.textContent ?? formula.textContent));
  all(".code-block :is(figcaption, .code-more), .footnote-back", copy).forEach((part) => part.remove());
  element.after(copy); // only what is laid out has lines
  const words = copy.innerText.trim();
  copy.remove();
  return words;
}
