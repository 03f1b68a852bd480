// Knowledge: topics completed while typing, the review queue by keys, and pins that appear where they belong.

import { isTyped } from "./drafts.js";
import { all, announce, elements, getFragment, isAnswered, one, oneAtATime, settled, toast, workspace } from "./page.js";
import { refetch } from "./feed.js";
import { register } from "./keys.js";
import { close as closePanel } from "./panel.js";

// --- topics and owners: a list to choose from, above what a field can do without JavaScript -------------------
const SHOWN = 8;
const KINDS = {
  topics: { title: "Topics", count: (n) => `${n} known topic${n === 1 ? "" : "s"}`, options: ({ topics }) => topics.map((value) => ({ value, label: value })) },
  owners: { title: "Owners", count: (n) => `${n} ${n === 1 ? "person" : "people"}`, options: ({ owners }) => owners.map(({ handle, name }) => ({ value: handle, label: `${name} @${handle}` })) },
};
let made = 0;

function combobox(field) {
  if (field.getAttribute("role") === "combobox") return;
  const kind = field.dataset.topics ? KINDS.topics : KINDS.owners;
  const url = field.dataset.topics ?? field.dataset.owners;
  const known = [...(field.list?.options ?? [])].map(({ value }) => ({ value, label: value }));
  const list = document.createElement("ul");
  list.className = "topics";
  list.id = `topics-${(made += 1)}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", kind.title);
  field.removeAttribute("list");
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id })) field.setAttribute(name, value);
  field.after(list);
  field.parentElement.classList.add("has-topics");

  let chosen = -1;
  let shown = [];
  const close = () => {
    list.hidden = true;
    chosen = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (at) => {
    chosen = at;
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    const item = list.children[at];
    if (item) field.setAttribute("aria-activedescendant", item.id);
    else field.removeAttribute("aria-activedescendant");
    item?.scrollIntoView({ block: "nearest" });
  };
  const take = (text) => {
    field.value = text;
    close();
    field.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  const show = (found) => {
    shown = found.filter(({ value }) => value !== field.value).slice(0, SHOWN);
    if (!shown.length || document.activeElement !== field) return close();
    list.replaceChildren(...shown.map(({ value, label }, index) => {
      const item = document.createElement("li");
      item.id = `${list.id}-${index}`;
      item.textContent = label;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(value);
      });
      return item;
    }));
    chosen = -1;
    field.removeAttribute("aria-activedescendant");
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    announce(kind.count(shown.length));
  };
  const ask = settled(async () => {
    const typed = field.value;
    const response = await getFragment(`${url}?q=${encodeURIComponent(typed)}`).catch(() => null);
    if (!response?.ok) return;
    const found = kind.options(await response.json());
    if (field.value === typed && chosen < 0) show(found); // a list that is walked through stays as it is
  }, 150);
  const suggest = () => {
    const part = field.value.trim().toLowerCase();
    show(known.filter(({ value }) => value.toLowerCase().includes(part)));
    ask();
  };
  field.addEventListener("input", (event) => { if (event.isTrusted) suggest(); });
  field.addEventListener("blur", () => { ask.cancel(); close(); });
  field.addEventListener("keydown", (event) => {
    const last = list.children.length - 1;
    if (event.key === "ArrowDown" && list.hidden) suggest();
    else if (list.hidden) return;
    else if (event.key === "ArrowDown") choose(chosen < last ? chosen + 1 : 0);
    else if (event.key === "ArrowUp") choose(chosen > 0 ? chosen - 1 : last);
    else if (event.key === "Enter" && chosen >= 0) {
      ask.cancel();
      take(shown[chosen].value);
    } else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}

const dress = (root = document) => all("input[data-topics], input[data-owners]", root).forEach(combobox);

// --- a date typed is a date meant ---------------------------------------------------------------------------
document.addEventListener("input", ({ target }) => {
  if (target.name !== "expires_on" || !target.value) return;
  const on = one("input[name=expires][value=on]", target.form);
  if (on) on.checked = true;
});

// --- the review queue ---------------------------------------------------------------------------------------
const items = () => all("[data-review]").filter((item) => item.closest("#knowledge-review"));
const current = () => items().find((item) => item.contains(document.activeElement)) ?? items()[0];
let place = 0;

/** Press what the key stands on in the entry that is looked at, or above the queue; a menu opens at its first choice. */
function press(key) {
  const item = current();
  const button = (item && one(`[data-key="${key}"]`, item)) ?? one(`.review-state [data-key="${key}"]`);
  if (!button) return;
  place = items().indexOf(item);
  const menu = button.closest("summary") && button.closest("details");
  if (!menu) return button.click();
  menu.open = true;
  one("input:checked", menu)?.focus();
}

function startReview() {
  if (!one("#knowledge-review")) return;
  for (const [key, label] of [["r", "Renew, or bring back"], ["t", "Renew until another date"], ["u", "Undo the last decision"], ["e", "Edit the entry"], ["s", "Supersede the entry"], ["a", "Archive the entry"], ["y", "Accept the suggestion"], ["n", "Reject the suggestion"], ["b", "Keep both"], ["1", "Keep the first"], ["2", "Keep the second"]]) register(key, label, () => press(key));
  if (document.activeElement === document.body) items()[0]?.focus({ preventScroll: true });
}

document.addEventListener("submit", ({ target }) => {
  const item = target.closest("#knowledge-review [data-review]");
  if (item) place = items().indexOf(item);
}, true);

// Escape closes a menu of the entry, and not the panel.
document.addEventListener("keydown", (event) => {
  const menu = event.target.closest?.(".act-more[open]");
  if (!menu || event.key !== "Escape") return;
  event.preventDefault();
  menu.open = false;
  one("summary", menu).focus();
}, true);

// --- what htmx brings ---------------------------------------------------------------------------------------
document.addEventListener("htmx:afterSettle", ({ target, detail }) => {
  dress(target);
  if (one("#knowledge-review") && detail.requestConfig?.verb === "post" && detail.target?.id === "knowledge-review") {
    const left = items();
    const back = detail.requestConfig.path.match(/\/(\d+)\/undo\/$/); // what was taken back is looked at again
    const same = back && (document.getElementById(`review-${back[1]}`) ?? one(`[data-review]:has([href$="/knowledge/${back[1]}/"])`));
    (same ?? left[Math.min(place, left.length - 1)] ?? one("#main")).focus();
    announce(one("#knowledge-review [role=status]")?.textContent ?? "");
  }
});

/** A message that was just pinned says so: here at once, elsewhere when the event comes. */
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.requestConfig?.verb !== "post" || !/\/pin\/$|\/knowledge\/\d+\//.test(detail.requestConfig.path)) return;
  const entry = one("#panel .knowledge-entry[data-message]");
  if (!entry) return;
  refetch(Number(entry.dataset.message));
  entry.tabIndex = -1;
  entry.focus({ preventScroll: true });
  announce("Saved.");
});

// --- an entry in the panel, as it is now --------------------------------------------------------------------
const shownEntry = () => one("#panel .knowledge-entry[data-entry]");
const isChanged = (field) => (["radio", "checkbox"].includes(field.type) ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);

/** Whether somebody fills in a form of the entry, or waits for the answer to something pressed in it. */
const isInHand = (entry) => Boolean(one(".act-more[open], .htmx-request", entry)) || all("input:not([type=hidden]), textarea", entry).some(isChanged);

/** What it shows, whatever is open in it and whichever form keys it holds. */
function looks(entry) {
  const copy = entry.cloneNode(true);
  all("[name=csrfmiddlewaretoken]", copy).forEach((field) => field.remove());
  all("details[open]", copy).forEach((part) => part.removeAttribute("open"));
  return copy.innerHTML;
}

function renew(old, now) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const open = all(".entry-revisions li", old).toReversed().map((item) => Boolean(one("details[open]", item)));
  all(".entry-revisions li", now).toReversed().forEach((item, index) => one("details", item)?.toggleAttribute("open", open[index] ?? false));
  old.replaceWith(now);
  htmx.process(now);
  if (!focused) return;
  const same = focused.id ? document.getElementById(focused.id) : focused.matches("a[href]") && one(`[href="${CSS.escape(focused.getAttribute("href"))}"]`, now);
  now.tabIndex = -1;
  (same || now).focus({ preventScroll: true });
}

const refreshEntry = oneAtATime(async () => {
  const shown = shownEntry();
  if (!shown) return;
  const response = await getFragment(`${workspace}knowledge/${shown.dataset.entry}/?unasked=1`).catch(() => null);
  if ([403, 404].includes(response?.status) && shown === shownEntry()) {
    if (!isTyped(shown)) closePanel();
    toast(`This entry is not there any more, or not for you to read.${isTyped(shown) ? " What you typed is still here, to be copied." : ""}`);
  }
  const now = isAnswered(response, refreshEntry) ? elements(await response.text()).find((item) => item.matches(".knowledge-entry")) : null;
  if (!now || shown !== shownEntry()) return;
  if (isInHand(shown)) shown.dataset.stale = "yes"; // the form comes first; once it is closed, the entry is renewed
  else if (looks(shown) !== looks(now)) {
    renew(shown, now);
    announce("This entry was changed.");
  }
});
const entrySoon = settled(refreshEntry, 400);

document.addEventListener("openvibe:event", ({ detail }) => {
  if (detail.kind === "knowledge_changed") entrySoon();
});
const onceFree = () => { if (shownEntry()?.dataset.stale) entrySoon(); };
document.addEventListener("toggle", onceFree, true);
document.addEventListener("htmx:afterRequest", onceFree);

dress();
startReview();
