// Keeps relative times true: the same rules as `relative_time` in rendering/rendering.py.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function relativeTime(at, now) {
  const seconds = Math.floor(Math.abs(now - at) / 1000);
  if (seconds < 5) return "just now";
  if (seconds > 60 * 86400) return new Date(at).toISOString().slice(0, 10);
  const [size, unit] = UNITS.find(([each]) => seconds >= each);
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return at <= now ? `${text} ago` : `in ${text}`;
}

function update() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]")) {
    const text = relativeTime(Date.parse(time.dateTime), now);
    if (time.textContent !== text) time.textContent = text;
  }
}

export function keepTimesTrue() {
  setInterval(update, 5000);
}
