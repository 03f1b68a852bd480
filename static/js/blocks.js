// An agent's blocks and notes on its page: shown anew when somebody changed them, unless the reader is at work there.

import { all, getElements, oneAtATime, settled } from "./page.js";

const refresh = oneAtATime(async () => {
  for (const section of all("section.carried[data-source]")) {
    const isIdle = () => section.isConnected && !section.querySelector("details[open]") && !section.contains(document.activeElement);
    if (!isIdle()) continue;
    const fresh = await getElements(section.dataset.source, soon);
    if (!fresh || !isIdle()) continue;
    section.replaceWith(...fresh);
    fresh.forEach((element) => htmx.process(element));
  }
});
const soon = settled(refresh, 300);

document.addEventListener("openvibe:event", ({ detail }) => { if (detail.kind === "blocks_changed") soon(); });

// What was refused is read first.
document.body.addEventListener("htmx:afterSwap", ({ target }) => {
  document.getElementById(target.id)?.querySelector(".carried .form-problem")?.scrollIntoView({ block: "nearest" });
});
