// The page of a run, alone or in the panel, kept as it is now.

import { elements, getFragment, oneAtATime, one, replace, settled } from "./page.js";

/** Whether somebody reads what they opened in it, or waits for the answer to something pressed there. */
const isInHand = (page) => Boolean(one("details[open], .htmx-request", page));

const refresh = oneAtATime(async () => {
  const old = one("#run-page");
  if (!old || isInHand(old)) return;
  const response = await getFragment(old.dataset.url).catch(() => null);
  const fresh = response?.ok && elements(await response.text()).find((element) => element.id === "run-page");
  if (!fresh || !old.isConnected || isInHand(old) || old.innerHTML === fresh.innerHTML) return;
  replace(old, fresh);
});
const refreshSoon = settled(refresh, 300);

document.addEventListener("openvibe:event", ({ detail }) => {
  const isMeant = ["run_changed", "work_changed", "message_changed"].includes(detail.kind);
  if (isMeant && String(detail.thread) === one("#run-page")?.dataset.thread) refreshSoon();
});
// A button of the page was used, and is perhaps gone with what was replaced: the keyboard stays here.
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.target?.id === "run-page" && document.activeElement === document.body) one("#run-page")?.focus({ preventScroll: true });
});
