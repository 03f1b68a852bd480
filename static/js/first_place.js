// Where a thread begins: at the message that its address names, at what is new, else at its end. No module: it runs where
// it stands, before the messages are painted. After that they would be seen to jump.
{
  const { at } = document.getElementById("conversation").dataset;
  const scroller = document.getElementById("scroller");
  const row = document.getElementById(location.hash.startsWith("#m-") ? location.hash.slice(1) : `m-${at}`);
  const line = document.getElementById("new");
  row?.classList.add("is-here"); // the style of it leaves room above
  if (row) row.scrollIntoView({ block: "start" });
  else if (line) line.scrollIntoView({ block: "start" });
  else if (!location.search.includes("_seq")) scroller.scrollTop = scroller.scrollHeight;
}
