// The console's scripts. Every page works without them where it only shows something.
import { keepTimesTrue } from "./times.js";
import { goLive } from "./live.js";
import { listenForKeys } from "./keys.js";

function offerTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    document.cookie = `restante_theme=${root.dataset.theme}; Path=/console; Max-Age=31536000; SameSite=Lax`;
  });
}

function offerCopy() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
}

// A notice is shown once: loading the page again must not repeat it.
function forgetNotice() {
  const address = new URL(location.href);
  if (!address.searchParams.has("done")) return;
  address.searchParams.delete("done");
  history.replaceState(null, "", address);
}

// On a phone the sections are a row that scrolls: the one that is open is in view.
function showSection() {
  const current = document.querySelector(".sections a[aria-current]");
  const row = current && current.closest("ul");
  if (row && row.scrollWidth > row.clientWidth) row.scrollLeft = current.offsetLeft - row.clientWidth / 3;
}

showSection();
forgetNotice();
offerTheme();
offerCopy();
keepTimesTrue();
listenForKeys();
goLive();
