// The form of a model endpoint: "Fetch models" asks the endpoint what it offers; any other name can still be typed.

const holder = document.querySelector("[data-models-address]");
const model = document.querySelector("#id_model");
const value = (name) => document.querySelector(`#id_${name}`)?.value ?? "";

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
  button.addEventListener("click", () => fetchModels(button, status, list));
}
