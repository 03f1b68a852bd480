// Links to OpenVibe's own threads, messages and knowledge say what they lead to, to whoever may see it. The HTML of a
// message is the same for all its readers; what it links to is asked for here, once for all links of a page.

import { all, body, one, settled, workspace } from "./page.js";

const known = new Map();  // reference → HTML, empty where there is nothing to see
const MOST_ASKED = 50;
const PLACES = [["t", "thread"], ["m", "message"], ["knowledge", "knowledge"]];

/** `thread-12`, `thread-12-3`, `message-34` or `knowledge-5`; null for what leads anywhere else. */
function referenceOf(link) {
  if (link.origin !== location.origin || !workspace || !link.pathname.startsWith(workspace)) return null;
  const [place, id, rest] = link.pathname.slice(workspace.length).split("/");
  const kind = PLACES.find(([path]) => path === place)?.[1];
  if (!kind || rest || !/^\d{1,18}$/.test(id ?? "")) return null;
  const seq = kind === "thread" ? /^#m-(\d{1,18})$/.exec(link.hash)?.[1] : null;
  return seq ? `${kind}-${id}-${seq}` : `${kind}-${id}`;
}

const waiting = () => all(".message .prose:not(.is-writing) a[href]:not([data-preview], .cite, [href^='#'])");

/** Put the preview behind the block that holds the link; what is read stays where it is on the screen. */
function show(link, html) {
  const scroller = link.closest(".scroller");
  const isAtEnd = scroller && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 4;
  const isAbove = scroller && link.getBoundingClientRect().bottom < scroller.getBoundingClientRect().top;
  const before = scroller?.scrollHeight ?? 0;
  const block = link.closest("p, li, td, blockquote, h1, h2, h3, h4, h5, h6") ?? link;
  block.insertAdjacentHTML("beforeend", html);
  const title = block.lastElementChild.querySelector("b");
  if (title?.textContent === link.textContent) title.remove();  // a chip says it already
  if (isAtEnd || isAbove) scroller.scrollTop += scroller.scrollHeight - before;
}

/** Ask for what is not known; no answer is asked for again with the next change of the page. */
async function learn(references) {
  for (let at = 0; at < references.length; at += MOST_ASKED) {
    const asked = references.slice(at, at + MOST_ASKED);
    const query = new URLSearchParams(asked.map((each) => ["ref", each]));
    const response = await fetch(`${workspace}previews/?${query}`, { cache: "no-store" }).catch(() => null);
    if (!response?.ok) return;
    const { previews } = await response.json();
    asked.forEach((each) => known.set(each, previews[each] ?? ""));
  }
}

async function preview() {
  const links = waiting().map((link) => [link, referenceOf(link)]);
  links.forEach(([link, reference]) => { link.dataset.preview = reference ?? ""; });
  const wanted = links.filter(([, reference]) => reference);
  await learn([...new Set(wanted.map(([, reference]) => reference))].filter((each) => !known.has(each)));
  for (const [link, reference] of wanted) {
    if (!known.has(reference)) delete link.dataset.preview;
    else if (link.isConnected && known.get(reference)) show(link, known.get(reference));
  }
}

export function start() {
  const soon = settled(preview, 200);
  const watcher = new MutationObserver(() => { if (waiting().length) soon(); });
  [one("#main"), one("#panel")].filter(Boolean).forEach((part) => watcher.observe(part, { childList: true, subtree: true }));
  if (body.dataset.workspace) soon();
}
