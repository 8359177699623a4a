// Live pages. One stream per page says that something changed; the page is then read again, and each part with
// `data-live` that differs is replaced. A part in which somebody types, or has opened something, is left as it is.
const WAIT_MS = 1500;

let stream = null;
let position = "";
let isPaused = false;
let isReading = false;
let isDue = false;
let lastRead = 0;

const body = document.body;
const button = document.getElementById("live");
const text = document.getElementById("live-text");

export function goLive() {
  if (!button || !body.dataset.topics || !("EventSource" in window)) return;
  position = body.dataset.position;
  button.hidden = false;
  isPaused = sessionStorage.getItem("restante-paused") === "yes";
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    sessionStorage.setItem("restante-paused", isPaused ? "yes" : "no");
    follow();
  });
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", close);
  follow();
}

function show(word, isAway = false) {
  text.textContent = word;
  button.setAttribute("aria-pressed", String(isPaused));
  button.setAttribute("aria-label", isPaused ? "Live updates are paused: resume" : "Pause live updates");
  button.toggleAttribute("data-away", isAway);
}

function close() {
  if (stream) stream.close();
  stream = null;
}

// Opens or closes the stream: it is open while the page is visible and not paused.
function follow() {
  if (isPaused || document.hidden) {
    close();
    show(isPaused ? "Paused" : "Live");
    return;
  }
  if (stream) return;
  const query = new URLSearchParams({ topics: body.dataset.topics, after: position });
  stream = new EventSource(`/console/live?${query}`);
  show("Live");
  stream.addEventListener("open", () => show("Live"));
  stream.addEventListener("error", () => show("Offline", true));
  stream.addEventListener("changed", (event) => {
    position = event.lastEventId;
    isDue = true;
    readSoon();
  });
}

function readSoon() {
  if (isReading) return;
  isReading = true;
  setTimeout(readAgain, Math.max(0, lastRead + WAIT_MS - Date.now()));
}

async function readAgain() {
  isDue = false;
  lastRead = Date.now();
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
    if (response.type === "opaqueredirect") {
      location.reload();
    } else if (response.ok && !isPaused) {
      replaceParts(new DOMParser().parseFromString(await response.text(), "text/html"));
      body.dataset.updates = String(Number(body.dataset.updates || 0) + 1);
    }
  } catch {
    show("Offline", true);
  }
  isReading = false;
  if (isDue) readSoon();
}

function replaceParts(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || isInUse(part) || signature(part) === signature(next)) continue;
    const focused = focusedWithin(part);
    const before = new Set([...part.querySelectorAll("tbody tr")].map(signature));
    const node = document.importNode(next, true);
    for (const row of node.querySelectorAll("tbody tr")) {
      if (!before.has(signature(row))) row.classList.add("changed");
    }
    node.scrollLeft = part.scrollLeft;
    part.replaceWith(node);
    if (focused) refocus(node, focused);
  }
}

// Relative times change by themselves: they make no difference.
function signature(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.textContent = "";
  for (const row of copy.querySelectorAll(".changed")) row.removeAttribute("class");
  copy.classList.remove("changed");
  if (copy.getAttribute("class") === "") copy.removeAttribute("class");
  return copy.outerHTML;
}

function isInUse(part) {
  const active = document.activeElement;
  if (part.contains(active) && active.matches("input, textarea, select")) return true;
  if (part.querySelector("details[open], input:checked")) return true;
  const selection = getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function focusedWithin(part) {
  const active = document.activeElement;
  if (active === part) return { isPart: true };
  return part.contains(active) ? { href: active.getAttribute("href"), id: active.id } : null;
}

function refocus(node, focused) {
  if (focused.isPart) return node.focus();
  const found = focused.id
    ? document.getElementById(focused.id)
    : [...node.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === focused.href);
  if (found) found.focus();
}
