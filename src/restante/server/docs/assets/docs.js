// The page: reads /openapi.json and lists its operations by subject. The details of an operation are built when it is
// first opened.

import { element, prose, withCode } from "./docs-dom.js";
import { Schemas } from "./docs-schema.js";
import { tryForm } from "./docs-try.js";

const byId = (id) => document.getElementById(id);

function operationsOf(openapi) {
  return Object.entries(openapi.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      path,
      method: method.toUpperCase(),
      subject: operation.tags[0],
      access: accessText(operation.security),
      takesBearer: operation.security.some((each) => "apiKey" in each || "deviceToken" in each),
    })));
}

function accessText(security) {
  if (!security.length) return "anyone";
  if ("deviceToken" in security[0]) return "device";
  const [key, person] = ["apiKey", "session"].map((scheme) => security.find((each) => scheme in each)?.[scheme][0]);
  if (!key) return "person";
  return key === person ? key : `${key} key or ${person}`;
}

// A long path breaks after a slash, not within a word.
function breakable(path) {
  return path.split(/(?<=\/)/).flatMap((part) => [part, element("wbr")]);
}

function card(operation, schemas) {
  const details = element("details", { class: "operation", id: operation.operationId },
    element("summary", {},
      element("h3", {},
        element("span", { class: `method ${operation.method.toLowerCase()}` }, operation.method), " ",
        element("code", {}, breakable(operation.path))),
      element("span", { class: "summary" }, operation.summary),
      element("span", { class: "access", title: "who may call this" }, operation.access)));
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    fill(details, operation, schemas);
    if (location.hash !== `#${details.id}`) history.replaceState(null, "", `#${details.id}`);
  });
  return details;
}

function fill(details, operation, schemas) {
  if (details.querySelector(".inside")) return;
  details.append(element("div", { class: "inside" },
    prose(operation.description),
    parametersPart(operation, schemas),
    bodyPart(operation, schemas),
    element("h4", {}, "Answers"),
    element("ul", { class: "answers" }, Object.entries(operation.responses).map(([status, response]) =>
      answer(status, schemas.resolve(response), schemas))),
    element("h4", {}, "Try it"),
    element("p", { class: "quiet" }, "Sends a real request from this browser. ", credentialsText(operation)),
    tryForm(operation, schemas, () => byId("token").value.trim())));
}

function credentialsText(operation) {
  const schemes = operation.security.flatMap((each) => Object.keys(each));
  if (!schemes.length) return "No credentials are needed.";
  const session = "the session you are signed in with here";
  if (!operation.takesBearer) return `It goes with ${session}.`;
  return `It goes with the bearer token given on this page${schemes.includes("session") ? `, or without one with ${session}` : ""}.`;
}

function parametersPart(operation, schemas) {
  if (!operation.parameters.length) return null;
  const rows = operation.parameters.map((parameter) => {
    const schema = { ...parameter.schema, description: parameter.description };
    const row = schemas.field(parameter.name, schema, parameter.required, true);
    row.querySelector(".type").append(` in the ${parameter.in}`);
    return row;
  });
  return [element("h4", {}, "Parameters"), element("ul", { class: "fields" }, rows)];
}

function bodyPart(operation, schemas) {
  const body = operation.requestBody;
  if (!body) return null;
  const [mediaType, { schema, example, examples }] = Object.entries(body.content)[0];
  const shown = example ?? Object.values(examples || {})[0]?.value ?? schemas.example(schema, true);
  const note = mediaType === "application/json" ? null : ` as ${mediaType}`;
  return [
    element("h4", {}, "Body", note, body.required ? null : " (may be left out)"),
    ...content(schema, schemas, true, shown)];
}

function content(schema, schemas, isRequest, example = schemas.example(schema, isRequest)) {
  const description = schemas.resolve(schema).description;
  return [
    description ? element("p", {}, withCode(description)) : null,
    schemas.fields(schema, isRequest) || element("p", { class: "type" }, schemas.typeText(schema)),
    element("h5", {}, "Example"),
    element("pre", {}, JSON.stringify(example, null, 2)),
  ];
}

function answer(status, response, schemas) {
  const line = [
    element("strong", { class: `status ${status < 400 ? "good" : "bad"}` }, status), " ",
    element("span", {}, response.description)];
  const json = response.content?.["application/json"];
  if (!json) return element("li", {}, element("p", { class: "line" }, line));
  const headers = Object.keys(response.headers || {});
  return element("li", {}, element("details", { open: status < 400 },
    element("summary", { class: "line" }, line),
    headers.length ? element("p", {}, "With ", headers.map((name) => element("code", {}, name))) : null,
    content(json.schema, schemas, false, json.example)));
}

function list(operations, subjects, schemas) {
  return subjects.map((subject, place) => {
    const cards = operations.filter((each) => each.subject === subject).map((each) => card(each, schemas));
    return element("section", { "aria-labelledby": `subject-${place}` },
      element("h2", { id: `subject-${place}` }, subject), cards);
  });
}

function subjectLinks(operations, subjects) {
  return subjects.map((subject, place) => element("li", {},
    element("a", { href: `#subject-${place}` }, subject), " ",
    element("span", { class: "quiet" }, String(operations.filter((each) => each.subject === subject).length))));
}

// Shows the operations that contain every word of the filter.
function filter(operations) {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const each of operations) {
    const text = `${each.method} ${each.path} ${each.summary} ${each.subject} ${each.access}`.toLowerCase();
    const isShown = words.every((word) => text.includes(word));
    byId(each.operationId).hidden = !isShown;
    count += isShown;
  }
  for (const section of document.querySelectorAll("main section")) {
    section.hidden = !section.querySelector(".operation:not([hidden])");
  }
  byId("count").textContent = words.length ? `${count} of ${operations.length} operations` : `${count} operations`;
}

function followLink(operations) {
  const linked = byId(location.hash.slice(1));
  if (!linked) return;
  if (linked.closest("[hidden]")) {
    byId("filter").value = "";
    filter(operations);
  }
  if (linked.matches(".operation")) linked.open = true;
  linked.scrollIntoView();
}

async function start() {
  const main = byId("operations");
  const loading = element("p", { role: "status" }, "Loading …");
  main.append(loading);
  try {
    const response = await fetch("/openapi.json");
    if (!response.ok) throw new Error(`the server says ${response.status}`);
    show(main, await response.json());
    loading.remove();
  } catch (error) {
    loading.className = "notice";
    loading.textContent = `The operations could not be loaded: ${error.message}.`;
  }
}

function show(main, openapi) {
  const operations = operationsOf(openapi);
  const subjects = openapi.tags.map((tag) => tag.name);
  byId("version").textContent = openapi.info.version;
  byId("about").append(...withCode(openapi.info.description));
  byId("subjects").append(...subjectLinks(operations, subjects));
  main.append(...list(operations, subjects, new Schemas(openapi)));
  byId("tools").hidden = false;
  byId("filter").addEventListener("input", () => filter(operations));
  addEventListener("hashchange", () => followLink(operations));
  filter(operations);
  followLink(operations);
}

start();
