/** JSON text as a value for a schema to look at. */

/** Undefined when it is no JSON: no schema takes that, so one place tells both kinds of wrong. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Told by the schema, which knows where the text stood.
    return undefined;
  }
}
