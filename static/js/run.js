// The page of a run, alone or in the panel, kept as it is now.

import { elements, getFragment, oneAtATime, one, settled } from "./page.js";

const refresh = oneAtATime(async () => {
  const old = one("#run-page");
  if (!old || one("details[open]", old)) return;
  const response = await getFragment(old.dataset.url).catch(() => null);
  if (!response?.ok || !old.isConnected) return;
  const fresh = elements(await response.text()).find((element) => element.id === "run-page");
  if (!fresh || old.innerHTML === fresh.innerHTML) return;
  const hadFocus = old.contains(document.activeElement);
  old.replaceWith(fresh);
  htmx.process(fresh);
  if (hadFocus) fresh.focus({ preventScroll: true });
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
