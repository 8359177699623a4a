// Shows a JSON Schema: the type in a few words, the fields of an object as a list, an example.

import { element, withCode } from "./docs-dom.js";

export class Schemas {
  constructor(openapi) {
    this.openapi = openapi;
  }

  // Resolves {"$ref": "#/a/b"}; returns any other schema unchanged.
  resolve(part) {
    if (!part || !part.$ref) return part;
    return part.$ref.slice(2).split("/").reduce((inside, key) => inside[key], this.openapi);
  }

  typeText(schema) {
    if (schema.$ref) return this.resolve(schema).title || schema.$ref.split("/").pop();
    const alternatives = schema.anyOf || schema.oneOf;
    if (alternatives) return alternatives.map((each) => this.typeText(each)).join(" or ");
    if ("const" in schema) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
    if (schema.type === "array") return schema.items ? `array of ${this.typeText(schema.items)}` : "array";
    if (schema.additionalProperties?.type) return `object of ${this.typeText(schema.additionalProperties)}`;
    const format = schema.format || schema.contentEncoding;
    return format ? `${schema.type} (${format})` : schema.type || "anything";
  }

  // The fields of the objects in a schema as a list, or null if there are none. `inside` stops recursion.
  fields(schema, isRequest, inside = []) {
    if (schema.$ref) {
      if (inside.includes(schema.$ref)) return null;
      return this.fields(this.resolve(schema), isRequest, [...inside, schema.$ref]);
    }
    const alternatives = (schema.anyOf || schema.oneOf || []).filter((each) => each.type !== "null");
    if (alternatives.length > 1) return this.alternatives(alternatives, isRequest, inside);
    if (alternatives.length === 1) return this.fields(alternatives[0], isRequest, inside);
    if (schema.items) return this.fields(schema.items, isRequest, inside);
    if (schema.additionalProperties?.$ref) return this.fields(schema.additionalProperties, isRequest, inside);
    const properties = Object.entries(schema.properties || {});
    if (!properties.length) return null;
    const required = schema.required || [];
    return element("ul", { class: "fields" }, properties.map(([name, each]) =>
      this.field(name, each, required.includes(name), isRequest, inside)));
  }

  alternatives(schemas, isRequest, inside) {
    const described = schemas.map((each) => [each, this.fields(each, isRequest, inside)])
      .filter(([, fields]) => fields);
    if (!described.length) return null;
    return element("div", { class: "alternatives" }, described.map(([each, fields], place) =>
      element("div", {}, element("p", { class: "quiet" }, place ? "or " : "either ", this.typeText(each)), fields)));
  }

  // Marks the fields that a client must send, and those that may be missing in a response.
  field(name, schema, isRequired, isRequest, inside = []) {
    const presence = isRequest ? isRequired && "required" : !isRequired && "may be absent";
    const description = schema.description || (schema.$ref && this.resolve(schema).description);
    return element("li", {},
      element("code", { class: "name" }, name), " ",
      element("span", { class: "type" }, this.typeText(schema)), " ",
      presence ? element("span", { class: "presence" }, presence) : null,
      ...limits(schema).map((each) => element("span", { class: "limit" }, each)),
      description ? element("span", { class: "description" }, withCode(description)) : null,
      this.fields(schema, isRequest, inside));
  }

  // An example value. For a request: required fields and fields with a default; for a response: all fields.
  example(schema, isRequest, inside = []) {
    if (schema.$ref) {
      if (inside.includes(schema.$ref)) return null;
      return this.example(this.resolve(schema), isRequest, [...inside, schema.$ref]);
    }
    if (schema.examples?.length) return schema.examples[0];
    if (schema.default !== undefined && schema.default !== null) return schema.default;
    if ("const" in schema) return schema.const;
    if (schema.enum) return schema.enum[0];
    const alternatives = schema.anyOf || schema.oneOf;
    if (alternatives) {
      const shown = alternatives.find((each) => each.type !== "null") || alternatives[0];
      return this.example(shown, isRequest, inside);
    }
    return this.exampleOfType(schema, isRequest, inside);
  }

  exampleOfType(schema, isRequest, inside) {
    switch (schema.type) {
      case "object": return this.exampleObject(schema, isRequest, inside);
      case "array": return this.exampleArray(schema, isRequest, inside);
      case "integer":
      case "number": return schema.minimum ?? 1;
      case "boolean": return true;
      case "string": return schema.format === "date-time" ? "2027-01-15T08:00:00.000Z" : "text";
      default: return null;
    }
  }

  // An empty item shows nothing, and the server would refuse it.
  exampleArray(schema, isRequest, inside) {
    const item = this.example(schema.items || {}, isRequest, inside);
    return item === null || JSON.stringify(item) === "{}" ? [] : [item];
  }

  exampleObject(schema, isRequest, inside) {
    const required = schema.required || [];
    const shown = Object.entries(schema.properties || {}).filter(([name, each]) =>
      !isRequest || required.includes(name) || (each.default !== undefined && each.default !== null));
    return Object.fromEntries(shown.map(([name, each]) => [name, this.example(each, isRequest, inside)]));
  }
}

const LIMITS = [
  range("minimum", "maximum", ""),
  range("minLength", "maxLength", " characters"),
  range("minItems", "maxItems", " items"),
  (bounds) => (bounds.pattern ? `matches ${bounds.pattern}` : null),
  (bounds) => ("default" in bounds && bounds.default !== null ? `default ${JSON.stringify(bounds.default)}` : null),
];

function range(least, most, unit) {
  return (bounds) => {
    const from = bounds[least];
    // The largest 64-bit number is of no use to a reader, and JavaScript cannot represent it.
    const to = Number.isInteger(bounds[most]) && !Number.isSafeInteger(bounds[most]) ? undefined : bounds[most];
    if (to !== undefined) return from === undefined ? `at most ${to}${unit}` : `${from} to ${to}${unit}`;
    return from === undefined ? null : `at least ${from}${unit}`;
  };
}

// The bounds of a schema in words, also for "this or null".
function limits(schema) {
  const alternatives = (schema.anyOf || []).filter((each) => each.type !== "null");
  const bounds = { ...(alternatives.length === 1 ? alternatives[0] : {}), ...schema };
  return LIMITS.map((limit) => limit(bounds)).filter(Boolean);
}
