// Live pages. One stream per page says that something changed; the page is then read again, and each part with
// `data-live` that differs is replaced. A part in which the person types, or has opened something, stays as it is, and
// the rows of a list do not move while the person uses the page.
const WAIT_MS = 1500;
// After so long without a key, a touch or a move of the pointer, new rows are shown at once: for screens on a wall.
const STILL_MS = 60000;

let stream = null;
let position = "";
let isPaused = false;
let isReading = false;
let isDue = false;
let lastRead = 0;
let lastInput = Date.now();
// Parts whose rows would move, by id: the part as it is now, and how many of its rows are new.
const waiting = new Map();

const body = document.body;
const button = document.getElementById("live");
const text = document.getElementById("live-text");
const offer = document.getElementById("fresh");

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
  offer.addEventListener("click", showWaiting);
  for (const kind of ["pointermove", "pointerdown", "keydown", "wheel", "scroll"]) {
    addEventListener(kind, () => { lastInput = Date.now(); }, { passive: true });
  }
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
    if (!next || isInUse(part)) continue;
    if (signature(part) === signature(next)) {
      waiting.delete(part.id);
    } else if (Date.now() - lastInput < STILL_MS && rowsWouldMove(part, next)) {
      updateRows(part, next);
    } else {
      replacePart(part, next);
    }
  }
  offerWaiting();
}

function replacePart(part, next) {
  waiting.delete(part.id);
  const focused = focusedWithin(part);
  const before = new Set(rowsOf(part).map(signature));
  const node = document.importNode(next, true);
  for (const row of rowsOf(node)) {
    if (!before.has(signature(row))) row.classList.add("changed");
  }
  node.scrollLeft = part.scrollLeft;
  part.replaceWith(node);
  if (focused) refocus(node, focused);
}

// Rows stay where they are while the person may be reading them: known rows are updated in their places, rows that are
// no longer in the list are marked, and new ones wait until the person shows them.
const rowsOf = (part) => [...part.querySelectorAll("tbody tr")];
const keyOf = (row) => row.querySelector("th a[href]")?.getAttribute("href") ?? signature(row);

function rowsWouldMove(part, next) {
  const [before, after] = [rowsOf(part).map(keyOf), rowsOf(next).map(keyOf)];
  return before.length > 0 && before.some((key, place) => key !== after[place]);
}

function updateRows(part, next) {
  const fresh = new Map(rowsOf(next).map((row) => [keyOf(row), row]));
  for (const row of rowsOf(part)) {
    const newer = fresh.get(keyOf(row));
    fresh.delete(keyOf(row));
    row.classList.toggle("gone", !newer);
    if (newer && !row.contains(document.activeElement) && signature(row) !== signature(newer)) {
      const node = document.importNode(newer, true);
      node.classList.add("changed");
      row.replaceWith(node);
    }
  }
  waiting.set(part.id, { next, count: fresh.size });
}

function offerWaiting() {
  const count = [...waiting.values()].reduce((sum, each) => sum + each.count, 0);
  offer.hidden = waiting.size === 0;
  offer.textContent = count ? `${count} new ${count === 1 ? "row" : "rows"}: show` : "The list has changed: show";
}

export function showWaiting() {
  if (waiting.size === 0) return;
  for (const [id, { next }] of waiting) replacePart(document.getElementById(id), next);
  waiting.clear();
  offerWaiting();
}

// Relative times change by themselves: they make no difference.
function signature(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.textContent = "";
  for (const row of [copy, ...copy.querySelectorAll(".changed, .gone")]) {
    row.classList.remove("changed", "gone");
    if (row.getAttribute("class") === "") row.removeAttribute("class");
  }
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
