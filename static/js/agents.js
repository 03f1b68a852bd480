// Feedback, runs and the context viewer: what makes the already working forms and links quicker.

import { one } from "./page.js";

// Ctrl+Enter saves the words, Escape closes the form.
document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.(".feedback-form");
  if (!form) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  if (event.key === "Escape") {
    event.preventDefault();
    const details = form.closest("details");
    details.open = false;
    one("summary", details).focus();
  }
});

// A segment of the context bar leads to its layer, a part of the sentence to its section, opened, in the page or in the panel.
document.addEventListener("click", (event) => {
  const segment = event.target.closest?.("a[data-layer]"); // of the bar, too, which is a drawing
  const layer = segment && document.getElementById(segment.getAttribute("href").slice(1));
  if (!layer) return;
  event.preventDefault();
  if (layer.matches("details")) layer.open = true;
  else for (let next = layer.nextElementSibling; next?.matches("details"); next = next.nextElementSibling) next.open = true;
  layer.scrollIntoView({ block: "start" });
  one("summary", layer.matches("details") ? layer : layer.nextElementSibling)?.focus({ preventScroll: true });
});
