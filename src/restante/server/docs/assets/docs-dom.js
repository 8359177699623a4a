// Builds elements from plain values. Text is always set as text: no content of the document or of a response is markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// Text of docstrings: paragraphs, and `code` between backticks.
export function prose(text) {
  return text.split(/\n{2,}/).map((paragraph) => element("p", {}, withCode(paragraph)));
}

export function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, place) => (place % 2 ? element("code", {}, part) : part));
}
