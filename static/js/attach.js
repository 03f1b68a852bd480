// Files chosen for a message: listed above the composer until they are sent, each with a button that takes it out.

import { all, announce, one } from "./page.js";

const PREVIEWED_BYTES = 600;
const PREVIEWED_LINES = 3;

const inputOf = (form) => one('input[type="file"]', form);

export const chosenFiles = (form) => [...(inputOf(form)?.files ?? [])];

/** Put these files in place of those chosen. */
export function chooseFiles(form, files) {
  const input = inputOf(form);
  if (!input) return;
  const held = new DataTransfer();
  for (const file of files) held.items.add(file);
  input.files = held.files;
  list(form);
}

/** What keeps the chosen files from being sent, as a sentence; empty when nothing does. */
export function filesProblem(form) {
  const input = inputOf(form);
  const files = chosenFiles(form);
  const most = Number(input?.dataset.maxFiles);
  if (files.length > most) return `A message has at most ${most} files; these are ${files.length}. Take some out and send them in a second one.`;
  const mostBytes = (file) => Number(isImage(file) ? input.dataset.maxImageBytes : input.dataset.maxBytes);
  const large = files.find((file) => file.size > mostBytes(file));
  return large ? `“${large.name}” has more than ${mostBytes(large) / 1048576} MB, the most that ${isImage(large) ? "an image" : "a file"} may have. Take it out to send the rest.` : "";
}

/** What the server shows as an image, by the type that the browser gives the file. */
const isImage = (file) => ["image/png", "image/jpeg", "image/webp", "image/gif"].includes(file.type);

const descriptions = new WeakMap(); // of a chosen image, while the page is open: a file has no room for it

/** The body of a request: fields, and files beside them where there are any. */
export function requestBody(fields, files) {
  if (!files.length) return new URLSearchParams(fields);
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  for (const file of files) {
    data.append("files", file);
    data.append("descriptions", descriptions.get(file) ?? "");
  }
  return data;
}

const fileNames = (files) => files.map((file) => file.name).join(", ");

function list(form) {
  const box = one("[data-chosen]", form);
  const files = chosenFiles(form);
  box.hidden = !files.length;
  box.replaceChildren(...files.map((file) => chip(form, file)));
}

function chip(form, file) {
  const item = document.createElement("li");
  item.className = "file-chip";
  const name = document.createElement("span");
  name.className = "file-name";
  name.textContent = file.name;
  const size = document.createElement("span");
  size.className = "file-facts";
  size.textContent = file.size < 1024 ? `${file.size} bytes` : file.size < 1048576 ? `${(file.size / 1024).toFixed(1)} KB` : `${(file.size / 1048576).toFixed(1)} MB`;
  const out = document.createElement("button");
  out.type = "button";
  out.className = "chip-out";
  out.textContent = "×";
  out.setAttribute("aria-label", `Take ${file.name} out`);
  out.addEventListener("click", () => {
    chooseFiles(form, chosenFiles(form).filter((other) => other !== file));
    inputOf(form).focus();
  });
  item.append(name, size, out);
  if (isImage(file)) item.append(descriptionField(file));
  else showBeginning(item, file);
  return item;
}

/** Asks what an image shows; it may stay empty, and be said later. */
function descriptionField(file) {
  const field = document.createElement("input");
  field.type = "text";
  field.className = "chip-description";
  field.maxLength = 1000;
  field.placeholder = "What does it show? (optional)";
  field.value = descriptions.get(file) ?? "";
  field.setAttribute("aria-label", `Description of ${file.name}`);
  field.addEventListener("input", () => descriptions.set(file, field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it ends the description, not the message
    one("textarea", field.form)?.focus();
  });
  return field;
}

/** The first lines of a file, where it is text; of a document, what becomes of it. */
async function showBeginning(item, file) {
  const text = await file.slice(0, PREVIEWED_BYTES).text().catch(() => "");
  if (["%PDF-", "PK\u0003\u0004", "{\\rtf"].some((start) => text.startsWith(start))) {
    item.append(beginningOf("Its text is taken out for agents when you send it."));
    return;
  }
  if (!text.trim() || ["\u0000", "\ufffd"].some((sign) => text.slice(0, -1).includes(sign))) return;
  item.append(beginningOf(text.trimStart().split("\n").slice(0, PREVIEWED_LINES).join("\n")));
}

function beginningOf(words) {
  const beginning = document.createElement("span");
  beginning.className = "file-beginning";
  beginning.textContent = words;
  return beginning;
}

// --- by drop and by paste -----------------------------------------------------------------------------------
const hasFiles = (data) => Boolean(data?.types.includes("Files"));

/** The form that takes a file dropped or pasted there: of the thread or of the dive. */
function formAt(target) {
  const place = target.closest?.("#conversation, #dive");
  const form = place && one("form:has(.attach)", place);
  return form && inputOf(form) ? form : null;
}

function addFiles(form, files) {
  chooseFiles(form, [...chosenFiles(form), ...files]);
  announce(`Attached: ${fileNames(files)}`);
}

for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!hasFiles(event.dataTransfer)) return;
    event.preventDefault(); // or the browser would leave the page for the file
    const form = formAt(event.target);
    all(".takes-drop").forEach((other) => other.classList.remove("takes-drop"));
    if (!form) event.dataTransfer.dropEffect = "none";
    else if (kind === "drop") addFiles(form, [...event.dataTransfer.files]);
    else if (kind !== "dragleave") form.classList.add("takes-drop");
  });
}
document.addEventListener("paste", (event) => {
  const form = event.target.matches?.("textarea") && hasFiles(event.clipboardData) && event.target.closest("form:has(.attach)");
  if (!form || event.clipboardData.types.includes("text/plain")) return; // words of a table come with a picture of it
  event.preventDefault();
  addFiles(form, [...event.clipboardData.files]);
});

document.addEventListener("change", (event) => {
  if (event.target.matches('.attach input[type="file"]')) list(event.target.form);
});
