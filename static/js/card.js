// Cards: who somebody is, and what there is to do with a place of the sidebar. A link to a card is one to a page of its
// own, or names the card in `data-card` where its own page says more; here it opens over the page, and the keyboard goes back to where it was. Forms of the sidebar are sent from here.

import { all, body, getFragment, one, refocus, sends } from "./page.js";
import { showSidebar } from "./live.js";

const dialog = one("#card");
let opener = null; // the link that the open card came from
let asked = null; // the address asked for last

async function open(link) {
  const href = link.dataset.card || link.getAttribute("href");
  asked = href;
  const from = dialog.contains(link) ? opener : link;
  const response = await getFragment(href).catch(() => null);
  if (asked !== href) return;
  if (!response?.ok) return location.assign(link.href);
  dialog.innerHTML = await response.text();
  opener = from;
  if (!dialog.open) dialog.showModal();
  place();
  (one("[data-card-close]", dialog) ?? dialog).focus({ preventScroll: true });
}

/** Beside what opened it where there is room for that; on a phone at the lower edge (the style sheet says so). */
function place() {
  const box = opener.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = dialog;
  const right = box.right + 8 + width <= innerWidth ? box.right + 8 : Math.max(8, box.left - width - 8);
  dialog.style.left = `${Math.min(right, Math.max(8, innerWidth - width - 8))}px`;
  dialog.style.top = `${Math.max(8, Math.min(box.top, innerHeight - height - 8))}px`;
}

/** The browser gives the focus back itself, unless what opened the card was replaced meanwhile. */
function onClosed() {
  dialog.replaceChildren();
  if (opener && !opener.isConnected) {
    const same = all("a[data-card]").find((link) => link.getAttribute("href") === opener.getAttribute("href"));
    refocus(same ?? opener, body, one("#main"));
  }
  opener = null;
}

/** What a form of the sidebar says is sent, and the sidebar shown as it is then; what is refused is said by its page. */
async function send(form, submitter) {
  const data = new FormData(form, submitter);
  const response = await fetch(form.action, { method: "POST", headers: { "HX-Request": "true" }, body: data }).catch(() => null);
  if (!response?.ok) {
    form.removeAttribute("data-sidebar-form");
    return form.requestSubmit(submitter);
  }
  const html = await response.text();
  if (dialog.open) dialog.close();
  const menu = submitter.closest("#sidebar details.menu");
  if (menu) {
    menu.open = false;
    one("summary", menu).focus();
  }
  showSidebar(html);
}

export function start() {
  if (!dialog) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-card]");
    if (link && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      open(link);
    } else if (event.target === dialog || event.target.closest("[data-card-close]")) dialog.close();
  });
  document.addEventListener("keydown", (event) => {
    if (!event.target.matches?.("textarea[data-enter]") || !sends(event)) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || !event.target.matches("[data-sidebar-form]")) return;
    event.preventDefault();
    send(event.target, event.submitter);
  });
  dialog.addEventListener("close", onClosed);
  dialog.addEventListener("cancel", () => { asked = null; });
}
