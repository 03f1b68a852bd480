// Feedback, runs and the context viewer: what makes the already working forms and links quicker.

import { one, reveal } from "./page.js";

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

// A segment of the context bar leads to its layer, a part of the sentence to its section, a number in the answer to its
// source and that to its item: opened, in the page or in the panel.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-layer]"); // of the bar, too, which is a drawing
  if (link && reveal(link.getAttribute("href"), link.closest(".context"))) event.preventDefault();
});
if (one("#main .context, #main .memory-map")) reveal(location.hash, one("#main"));
