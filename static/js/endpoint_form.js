// The form of a model endpoint: "Fetch models" asks the endpoint what it offers; any other name can still be typed.

const holder = document.querySelector("[data-models-address]");
const model = document.querySelector("#id_model");
const value = (name) => document.querySelector(`#id_${name}`)?.value ?? "";

const FILLED = ["context_window", "output_reserve", "price_in", "price_out"];
const typed = new Set();
let facts = {};

// What is known of the chosen model goes into fields that nobody has typed in, and nobody set before.
function fillIn() {
  const known = facts[model.value];
  if (!known) return;
  for (const name of FILLED) {
    const field = document.querySelector(`#id_${name}`);
    if (field && known[name] !== undefined && !typed.has(name)) field.value = known[name];
  }
  const told = holder.querySelector("[name=window_told]");
  if (told && !typed.has("context_window")) told.value = known.context_window ?? "";
  if (known.source) holder.querySelector("[role=status]").textContent = `Window and limits are filled in: ${known.source}.`;
}

async function fetchModels(button, status, list) {
  button.disabled = true;
  status.textContent = "Asking …";
  const form = new URLSearchParams({
    kind: value("kind"),
    base_url: value("base_url"),
    api_key: value("api_key"),
    endpoint: holder.dataset.endpoint,
    csrfmiddlewaretoken: document.querySelector("[name=csrfmiddlewaretoken]").value,
  });
  try {
    const response = await fetch(holder.dataset.modelsAddress, { method: "POST", body: form });
    const answer = await response.json();
    list.replaceChildren(...(answer.models ?? []).map((name) => new Option(name, name)));
    status.textContent = answer.message;
    facts = answer.facts ?? {};
    fillIn();
    if (answer.models?.length) model.focus();
  } catch {
    status.textContent = "The server did not answer. Try again, or type the model's name.";
  } finally {
    button.disabled = false;
  }
}

if (holder && model) {
  const [, status, list] = holder.children;
  const button = holder.querySelector("button");
  model.setAttribute("list", list.id);
  model.setAttribute("autocomplete", "off");
  model.after(holder);
  holder.hidden = false;
  for (const name of FILLED) {
    const field = document.querySelector(`#id_${name}`);
    if (holder.dataset.endpoint && field?.value) typed.add(name);
    field?.addEventListener("input", () => typed.add(name));
  }
  model.addEventListener("input", fillIn);
  button.addEventListener("click", () => fetchModels(button, status, list));
}
