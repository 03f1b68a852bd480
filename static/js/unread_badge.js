// What is unread, in the page's title, its icon, and on the icon of the installed app: read off the sidebar, whoever
// changed that.

import { all, body, one, workspace } from "./page.js";

const PREFIX = /^(\(\d+\+?\)|•) /u;
const MARK = "M4 6a3 3 0 0 1 3-3h10a3 3 0 0 1 3 3v7a3 3 0 0 1-3 3h-5l-5 5v-5a3 3 0 0 1-3-3z";
const WAVES = "M8 10.5v-2M12 12V7M16 10.5v-2";
const MAX_SHOWN = 99; // more does not fit into the icon

const icon = one('link[rel="icon"]');
const plainIcon = icon?.getAttribute("href");
let shown = "";

const item = (path) => one(`#sidebar .nav-item[href="${workspace}${path}"]`);

/** How often the reader is named, as the sidebar has it (`3`, `200+`), and whether anything else is new. */
function read() {
  const count = one(".count:not([hidden])", item("mentions/") ?? document.createElement("p"))?.firstChild?.data.trim() ?? "";
  return { count: Number.parseInt(count, 10) > 0 ? count : "", isNew: Boolean(item("")?.matches(".is-unread")) };
}

function drawn({ count }) {
  const number = Number.parseInt(count, 10);
  const text = number > MAX_SHOWN ? `${MAX_SHOWN}+` : count;
  const badge = count
    ? `<rect x="${text.length > 1 ? 6 : 11}" y="10" width="${text.length > 1 ? 18 : 13}" height="14" rx="7" fill="#c4261d"/><text x="${text.length > 1 ? 15 : 17.5}" y="20.6" font-family="sans-serif" font-size="${text.length > 2 ? 8 : 10.5}" font-weight="700" fill="#fff" text-anchor="middle">${text}</text>`
    : '<circle cx="19" cy="19" r="5" fill="#c4261d"/>';
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="#5b4fd6" d="${MARK}"/><path fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round" d="${WAVES}"/>${badge}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

function draw() {
  const news = one("#sidebar .nav-item") ? read() : { count: "", isNew: false };
  const prefix = news.count ? `(${news.count}) ` : news.isNew ? "• " : "";
  const title = prefix + document.title.replace(PREFIX, "");
  if (document.title !== title) document.title = title;
  if (shown === prefix) return;
  shown = prefix;
  icon?.setAttribute("href", prefix ? drawn(news) : plainIcon);
  navigator.setAppBadge?.(...(news.count ? [Number.parseInt(news.count, 10)] : news.isNew ? [] : [0])).catch(() => {});
}

if (workspace && body.dataset.events) {
  draw();
  const observer = new MutationObserver(draw);
  observer.observe(one("#sidebar"), { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["class", "hidden"] });
  all("title").forEach((title) => observer.observe(title, { childList: true, characterData: true, subtree: true }));
  document.addEventListener("openvibe:access-ended", draw);
}
