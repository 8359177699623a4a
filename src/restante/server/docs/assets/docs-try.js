// The form that sends a request from this browser and shows the response.

import { element } from "./docs-dom.js";

const SHOWN_CHARACTERS_MAX = 200_000;

// `token` is a function, called when a request is sent; the token is stored nowhere else.
export function tryForm(operation, schemas, token) {
  const inputs = operation.parameters.map((parameter) => [parameter, parameterInput(operation, parameter)]);
  const body = bodyInput(operation, schemas);
  const send = element("button", { type: "submit", class: "main" }, "Send");
  const stop = element("button", { type: "button", hidden: true }, "Stop");
  const outcome = element("div", { class: "outcome", role: "status" });
  const form = element("form", { class: "try" },
    inputs.map(([parameter, input]) => labelled(parameter.name, input)),
    body ? labelled("Body", body) : null,
    element("p", { class: "buttons" }, send, stop),
    outcome);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const abort = new AbortController();
    stop.onclick = () => abort.abort();
    send.disabled = true;
    stop.hidden = false;
    outcome.replaceChildren("Waiting for the answer …");
    const request = requestOf(operation, inputs, body?.value, token());
    outcome.replaceChildren(...await exchange(request, abort.signal));
    send.disabled = false;
    stop.hidden = true;
  });
  return form;
}

function labelled(name, input) {
  return element("p", { class: "input" }, element("label", { for: input.id }, name), input);
}

function parameterInput(operation, parameter) {
  const schema = parameter.schema;
  return element("input", {
    id: `${operation.operationId}-${parameter.in}-${parameter.name}`,
    autocomplete: "off",
    spellcheck: "false",
    required: Boolean(parameter.required),
    inputmode: schema.type === "integer" ? "numeric" : undefined,
    placeholder: schema.default === undefined ? schema.type : String(schema.default),
  });
}

function bodyInput(operation, schemas) {
  const json = operation.requestBody?.content["application/json"];
  if (!json) return null;
  const example = json.example ?? Object.values(json.examples || {})[0]?.value ?? schemas.example(json.schema, true);
  const text = JSON.stringify(example, null, 2);
  const rows = Math.min(16, text.split("\n").length + 1);
  return element("textarea", { id: `${operation.operationId}-body`, rows, spellcheck: "false" }, text);
}

function requestOf(operation, inputs, body, token) {
  const query = new URLSearchParams();
  let path = operation.path;
  const headers = {};
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value === "") continue;
    else if (parameter.in === "header") headers[parameter.name] = input.value;
    else query.set(parameter.name, input.value);
  }
  // The browser adds the session cookie itself. A token on an operation without one would be refused as a wrong key.
  if (token && operation.takesBearer) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const url = String(query) ? `${path}?${query}` : path;
  return { url, method: operation.method, headers, body, cache: "no-store" };
}

async function exchange({ url, ...options }, signal) {
  const started = performance.now();
  try {
    const response = await fetch(url, { ...options, signal });
    const text = await response.text();
    return answered(`${options.method} ${url}`, response, text, Math.round(performance.now() - started));
  } catch (error) {
    return [element("p", { class: "notice" }, signal.aborted ? "Stopped." : `No answer: ${error.message}`)];
  }
}

function answered(asked, response, text, milliseconds) {
  const kind = response.ok ? "good" : "bad";
  return [
    element("p", {}, element("code", {}, asked)),
    element("p", {},
      element("strong", { class: `status ${kind}` }, `${response.status} ${response.statusText}`),
      ` in ${milliseconds} ms`),
    element("h5", {}, "Headers"),
    element("pre", {}, [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n")),
    element("h5", {}, "Body"),
    text ? element("pre", {}, shown(text)) : element("p", { class: "quiet" }, "empty"),
  ];
}

// JavaScript would change numbers that it cannot represent exactly: such a body is shown as received.
function shown(text) {
  let pretty = text;
  if (!/\d{16}/.test(text)) {
    try {
      pretty = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      pretty = text;
    }
  }
  return pretty.length > SHOWN_CHARACTERS_MAX ? `${pretty.slice(0, SHOWN_CHARACTERS_MAX)}\n… (cut here)` : pretty;
}
