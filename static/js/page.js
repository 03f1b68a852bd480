// What every module needs: the page's facts, requests with the form key, notes to the reader.

export const body = document.body;
export const workspace = body.dataset.workspace ? `/w/${body.dataset.workspace}/` : "";
export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** Whether a key in a composer sends what stands there, as its writer chose; a key that ends a composed sign does not. */
export const sends = (event) => event.key === "Enter" && !event.isComposing && (body.dataset.enterSends === "on" ? !event.shiftKey : event.ctrlKey || event.metaKey);

/** Where the browser forbids it, of this page alone. */
function storage(name) {
  try {
    return window[name] ?? {};
  } catch {
    return {};
  }
}
export const tabStorage = storage("sessionStorage"); // also after a reload
export const browserStorage = storage("localStorage");

const headers = () => JSON.parse(body.getAttribute("hx-headers") || "{}");

const READER_HEADER = "OpenVibe-Participant"; // as decorators.py has it

/** Whether an answer is meant for somebody else: another page of this browser signed in with another account. */
function isForAnother(reader) {
  if (!reader || reader === body.dataset.participant) return false;
  document.dispatchEvent(new CustomEvent("openvibe:another-reader"));
  return true;
}

/** GET what is shown. Resolves to the response, never to one for somebody else; rejects only when the network fails. */
export async function getOwn(url, options = {}) {
  const response = await fetch(url, { cache: "no-store", ...options });
  return isForAnother(response.headers.get(READER_HEADER)) ? new Promise(() => {}) : response;
}

/** As `getOwn`, for a fragment, as htmx would. */
export const getFragment = (url) => getOwn(url, { headers: { "HX-Request": "true" } });

body.addEventListener("htmx:beforeSwap", (event) => {
  if (isForAnother(event.detail.xhr.getResponseHeader(READER_HEADER))) event.detail.shouldSwap = false;
});

/** As fetch does, saying which share of the body is sent: `fetch` cannot. */
function upload(url, { method, headers: named, body: data, onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(named)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(loaded / total));
    request.addEventListener("load", () => {
      const reader = request.getResponseHeader(READER_HEADER);
      resolve(new Response(request.status === 204 ? null : request.response, { status: request.status, headers: reader ? { [READER_HEADER]: reader } : {} }));
    });
    for (const name of ["error", "abort", "timeout"]) request.addEventListener(name, reject);
    signal?.addEventListener("abort", () => request.abort());
    request.send(data);
  });
}

/** POST fields and read JSON; with `onProgress`, that is told the share that is sent. Throws {message, code, field, status}; status 0 when nothing answered. */
export async function post(url, fields, options = {}) {
  let response;
  try {
    response = await (options.onProgress ? upload : fetch)(url, {
      method: "POST",
      headers: { ...headers(), Accept: "application/json" },
      body: new URLSearchParams(fields),
      ...options,
    });
  } catch {
    throw { message: "The server cannot be reached. Your text is kept.", code: "offline", status: 0 };
  }
  if (response.ok) {
    const isOurs = response.headers.has(READER_HEADER); // not of a page that asks for a sign-in to a network
    const answer = isOurs && (response.status === 204 ? {} : await response.json().catch(() => null));
    if (answer) return answer;
    throw { message: "The answer did not arrive. Your text is kept.", code: "offline", status: 0 };
  }
  let problem = { message: "That did not work. Your text is kept; try again in a moment.", code: "broken" };
  try {
    problem = { ...problem, ...(await response.json()) };
  } catch { // not JSON: of a proxy, perhaps
    if (response.status === 413) problem = { message: "This is larger than the server, or a proxy in front of it, takes. Your text is kept; send less at once.", code: "too_large" };
  }
  throw { ...problem, status: response.status };
}

/** Whether the same may be taken later: nothing answered, the server is broken, or it was sent too slowly. */
export const isPassing = ({ status }) => !status || status >= 500 || status === 408;

export const TRY_AGAIN = 3000;
const waiting = new Set();

/**
 * Whether an answer came that may be shown. When none did, or the server was broken, `again` is run in a moment: once for
 * each `what`, however often it was asked for meanwhile.
 */
export function isAnswered(response, again, what = again) {
  if ((!response || response.status >= 500) && !waiting.has(what)) {
    waiting.add(what);
    setTimeout(() => { waiting.delete(what); again(); }, TRY_AGAIN);
  }
  return Boolean(response?.ok);
}

/** The elements of a fragment, null when there is none for now: as `isAnswered` has it. */
export async function getElements(url, again) {
  const response = await getFragment(url).catch(() => null);
  const html = await response?.text().catch(() => null); // the connection may be lost halfway
  return isAnswered(html === null ? null : response, again, url) ? elements(html) : null;
}

/** Say something to people who listen to the page. */
export function announce(text) {
  const status = one("#status");
  if (status) status.textContent = text;
}

const TOAST_MS = 8000;

/** Take away what a page said in its corner when it was opened, after a while. */
export function passToasts() {
  for (const box of all(".toast[data-passing]")) setTimeout(() => box.remove(), TOAST_MS);
}

/** A note in the corner until it is closed. */
export function toast(text, { lasts = false } = {}) {
  const box = document.createElement("div");
  box.className = "toast";
  const words = document.createElement("p");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button quiet";
  close.textContent = "Close";
  close.dataset.dismiss = "";
  box.append(words, close);
  one("#toasts")?.append(box);
  if (!lasts) setTimeout(() => box.remove(), TOAST_MS);
  return box;
}

/** Run `work` once things have been quiet for `wait` ms; after `longest` ms even if they never are. */
export function settled(work, wait, longest = Infinity) {
  let timer;
  let since = null;
  const later = (...given) => {
    const now = performance.now();
    since ??= now;
    clearTimeout(timer);
    timer = setTimeout(() => {
      since = null;
      work(...given);
    }, Math.max(0, Math.min(wait, since + longest - now)));
  };
  later.cancel = () => {
    clearTimeout(timer);
    since = null;
  };
  return later;
}

/** Run `work` once some time after it is asked for, at most once in `pause` ms: everybody's page hears of it at once. */
export function spread(work, wait, pause = 0) {
  let timer = null;
  let next = 0;
  return () => {
    const now = performance.now();
    timer ??= setTimeout(() => {
      timer = null;
      next = performance.now() + pause;
      work();
    }, Math.max(wait, next - now) + Math.random() * (now < next ? pause : 4 * wait));
  };
}

/** At most one `work` at a time; asked meanwhile, it runs once more. `isRunning()` tells whether it does. */
export function oneAtATime(work) {
  let running = null;
  let again = false;
  const run = () => {
    if (running) {
      again = true;
      return running;
    }
    running = (async () => {
      do {
        again = false;
        await work();
      } while (again);
    })().finally(() => { running = null; });
    return running;
  };
  run.isRunning = () => running !== null;
  return run;
}

/** Lead the keyboard into what has just come onto the page; somebody who is already in it stays where they are. */
export function focusWithin(root, target, options = { preventScroll: true }) {
  if (!root.contains(document.activeElement)) target?.focus(options);
}

const MARKS = ["class", "href", "name", "aria-label"];
const doesTheSame = (old, other) => old.form?.getAttribute("action") === other.form?.getAttribute("action") && (old.type !== "submit" || old.value === other.value);

/**
 * What stands in `root` for an element that was replaced: by its id, else by what it is and does in the same part of
 * it, else by where it leads. Of two that lead to and fro (`data-way`) the same, or else the other.
 */
function successor(old, root) {
  const byId = (id) => one(`#${CSS.escape(id)}`, root);
  const around = old.parentElement?.closest("[id]")?.id ?? root.id;
  const part = around === root.id ? root : byId(around);
  const isLike = (other) => doesTheSame(old, other) && MARKS.every((name) => other.getAttribute(name) === old.getAttribute(name));
  const href = old.getAttribute("href");
  const { way } = old.dataset; // one of two ways: on in the same one, or back where that ends
  const leadsOn = (other) => other.dataset.way === way;
  const further = way && (all("[data-way]", root).find(leadsOn) ?? one("[data-way]", root));
  return (old.id && byId(old.id)) || further || (part && all(old.localName, part).find(isLike)) || (href && one(`[href="${CSS.escape(href)}"]`, root));
}

/** The smallest part of `root` that stands for one in which the replaced element stood. */
function partAround(old, root) {
  let part = old.parentElement?.closest("[id]");
  while (part && !one(`#${CSS.escape(part.id)}`, root)) part = part.parentElement?.closest("[id]");
  return part ? one(`#${CSS.escape(part.id)}`, root) : root;
}

/**
 * Give the keyboard back to an element that was replaced or hidden: to its successor in `root`, to what opens it, or to
 * `otherwise`.
 */
export function refocus(old, root, otherwise = partAround(old, root)) {
  const same = root.contains(old) ? old : successor(old, root);
  const target = same?.checkVisibility() ? same : one(":scope > summary", same?.closest("details:not([open])") ?? root);
  if (old.hasAttribute("tabindex")) target?.setAttribute("tabindex", old.getAttribute("tabindex")); // a part that was given the keyboard
  if (target?.checkVisibility()) target.focus({ preventScroll: true });
  if (target && document.activeElement === target) return;
  if (!otherwise.hasAttribute("tabindex")) otherwise.tabIndex = -1;
  otherwise.focus({ preventScroll: true });
}

/** Leads to what the hash of an address names: opens what it stands in, and gives it the keyboard. Whether there is such. */
export function reveal(hash, root = document) {
  const part = all("[id]", root).find(({ id }) => `#${id}` === hash || `#${encodeURIComponent(id)}` === hash);
  if (!part) return false;
  for (let around = part.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
  for (const before of all(".is-revealed", root)) before.classList.remove("is-revealed");
  part.classList.add("is-revealed");
  part.scrollIntoView({ block: "start" });
  const holder = part.matches("details") ? one("summary", part) : part;
  if (holder.tabIndex < 0) holder.tabIndex = -1;
  holder.focus({ preventScroll: true });
  return true;
}

/** Put `now` in the place of `old`: whoever had the keyboard in it keeps it there. */
export function replace(old, now) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(now);
  htmx.process(now);
  if (focused) refocus(focused, now);
}

/** HTML of this server as elements. */
export function elements(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return [...template.content.children];
}
