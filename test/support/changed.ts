// Copies of a plain value with one place changed, for schema tests: good sample in, bad sample out.

/** A copy with `value` at a dotted path: "model.name", "clis.0.version". */
export function changed(sample: unknown, path: string, value: unknown): unknown {
  const copy = structuredClone(sample);
  const { parent, key } = place(copy, path);
  parent[key] = value;
  return copy;
}

/** A copy that lacks the field at a dotted path. */
export function without(sample: unknown, path: string): unknown {
  const copy = structuredClone(sample);
  const { parent, key } = place(copy, path);
  delete parent[key];
  return copy;
}

function place(root: unknown, path: string): { parent: Record<string, unknown>; key: string } {
  const keys = path.split(".");
  const key = keys.pop() ?? "";
  let parent = root as Record<string, unknown>;
  for (const step of keys) parent = parent[step] as Record<string, unknown>;
  if (!(key in parent)) throw new TypeError(`the sample has no ${path}`);
  return { parent, key };
}
