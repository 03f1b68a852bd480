// Files chosen for a message: listed above the composer until they are sent, each with a button that takes it out.

import { one } from "./page.js";

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
  const large = files.find((file) => file.size > Number(input.dataset.maxBytes));
  return large ? `“${large.name}” has more than 5 MB, the most that a file may have. Take it out to send the rest.` : "";
}

/** The body of a request: fields, and files beside them where there are any. */
export function requestBody(fields, files) {
  if (!files.length) return new URLSearchParams(fields);
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  for (const file of files) data.append("files", file);
  return data;
}

export const fileNames = (files) => files.map((file) => file.name).join(", ");

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
  return item;
}

document.addEventListener("change", (event) => {
  if (event.target.matches('.attach input[type="file"]')) list(event.target.form);
});
