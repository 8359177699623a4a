import { showWaiting } from "./live.js";

// Keys: "/" searches, "n" shows new rows, arrow keys move between the rows of a table, Escape closes the menu.
function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

function moveBetweenRows(event) {
  const row = event.target.closest("tbody tr");
  if (!row || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
  const next = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
  const link = next && next.querySelector("a[href]");
  if (!link) return;
  event.preventDefault();
  link.focus();
}

export function listenForKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      for (const menu of document.querySelectorAll("details.account[open]")) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    }
    if (isTyping(event.target)) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search").select();
    }
    if (event.key === "n") showWaiting();
    moveBetweenRows(event);
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.account[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
}
