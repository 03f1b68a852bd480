// An image of a message, enlarged over the page. Without this script its link opens it by itself.

import { body, one } from "./page.js";

/** Made anew each time: pages come and go. */
function makeDialog(link) {
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.setAttribute("aria-label", link.dataset.enlarge);
  const head = document.createElement("div");
  head.className = "enlarged-head";
  const words = document.createElement("p");
  words.textContent = one("img", link).alt || link.dataset.enlarge;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button quiet";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  head.append(words, close);
  const image = document.createElement("img");
  image.src = link.href;
  image.alt = one("img", link).alt;
  dialog.append(head, image);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  dialog.addEventListener("close", () => {
    dialog.remove(); // the browser gives the focus back
    const again = link.isConnected ? null : one(`a[data-enlarge][href="${CSS.escape(link.getAttribute("href"))}"]`);
    again?.focus({ preventScroll: true }); // the message was changed meanwhile: another link stands in its place
  });
  return dialog;
}

/** On a click, unless it asks the browser for a tab or a file of its own. */
export function enlarge(event, link) {
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const dialog = makeDialog(link);
  body.append(dialog);
  dialog.showModal();
}
