/**
 * How much of the requests' input a prefix cache could have served, by a simulation over their digests: a cache without
 * limits of size or time, a block as its unit, bytes in the place of tokens. It is no figure of a provider, and says so.
 * Pure.
 */
import type { RequestDigest } from "./request-digest.ts";

export interface SimulatedCache {
  isSimulated: true;
  requests: number;
  /** Of tools, system texts and history, without marks; as JSON. */
  inputBytes: number;
  /** Of those: in leading blocks that an earlier request to the same model began with, too. */
  repeatedBytes: number;
  /** `repeatedBytes` of `inputBytes`, 0 to 1; null without any input. */
  repeatedShare: number | null;
}

/** What requests began with, as a tree: one level a block. */
type Node = Map<string, Node>;

/** @param requests in the order in which they were made */
export function simulatePrefixCache(requests: readonly RequestDigest[]): SimulatedCache {
  const models: Node = new Map();
  let inputBytes = 0;
  let repeatedBytes = 0;
  for (const { model, tools, system, blocks } of requests) {
    let { node } = step(models, JSON.stringify(model));
    for (const { digest, bytes } of [tools, system, ...blocks]) {
      const next = step(node, digest);
      node = next.node;
      inputBytes += bytes;
      // Below a node that is new here, all are.
      if (next.isKnown) repeatedBytes += bytes;
    }
  }
  const repeatedShare = inputBytes === 0 ? null : repeatedBytes / inputBytes;
  return { isSimulated: true, requests: requests.length, inputBytes, repeatedBytes, repeatedShare };
}

function step(node: Node, name: string): { node: Node; isKnown: boolean } {
  const known = node.get(name);
  if (known !== undefined) return { node: known, isKnown: true };
  const made: Node = new Map();
  node.set(name, made);
  return { node: made, isKnown: false };
}
