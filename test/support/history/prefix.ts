/**
 * What a chain of requests shows of its prefixes: for each pair of neighbours whether all that the earlier one held stands
 * unchanged at the beginning of the later one; and, simulated over the real bodies, which share of the input a cache of
 * prefixes would have known. Pure.
 */
import { createHash } from "node:crypto";
import { comparePrefix, type PrefixVerdict } from "../../../controller/relay/prefix-verdict.ts";
import { digestRequest, type RequestDigest } from "../../../controller/relay/request-digest.ts";
import type { ModelProtocol } from "../../../protocol/model-protocol.ts";
import type { ModelRequest } from "../model/records.ts";

const PROTOCOLS: Readonly<Record<string, ModelProtocol>> = {
  "chat-completions": "chat-completions",
  responses: "responses",
  "anthropic-messages": "messages",
};

interface Pair {
  /** The user's text with which the later one ends, cut, to find it by. */
  readonly text: string;
  readonly verdict: PrefixVerdict["verdict"];
  /** All that changed, with commas between; "": nothing. */
  readonly changed: string;
  /** Leading blocks of the earlier history that the later one has, of how many. */
  readonly equalBlocks: number;
  readonly blocksBefore: number;
}

export interface ChainReport {
  readonly pairs: readonly Pair[];
  /** Pairs in which something of the earlier one changed. */
  readonly breaks: readonly Pair[];
  /** Simulated: bytes of tools, system text and history that a cache of prefixes would have known, as a share of all. */
  readonly simulatedHitShare: number;
}

/** @param requests of one member, in order. Throws for one that has no digest: a record without its body. */
export function reportOn(requests: readonly ModelRequest[]): ChainReport {
  const digests = requests.map((request) => ({ request, digest: digestOf(request) }));
  const chains = Map.groupBy(digests, ({ digest: { session, agent, model } }) =>
    JSON.stringify([session, agent, model]),
  );
  const pairs = [...chains.values()].flatMap((chain) =>
    chain.slice(1).map(({ request, digest }, at): Pair => {
      const before = chain[at]?.digest ?? digest;
      const { verdict, breaks, equalBlocks, blocksBefore } = comparePrefix(before, digest);
      const text = request.request?.rows.findLast(({ role }) => role === "user")?.text ?? "";
      return { text: text.slice(0, 60), verdict, changed: breaks.join(", "), equalBlocks, blocksBefore };
    }),
  );
  return {
    pairs,
    breaks: pairs.filter(({ verdict }) => verdict !== "equal"),
    simulatedHitShare: simulatedHitShare(
      [...chains.values()].map((chain) => chain.map(({ digest }) => digest)),
    ),
  };
}

/** A cache that keeps everything for ever, and knows a request by its tools, its system text, and block after block. */
function simulatedHitShare(chains: ReadonlyArray<readonly RequestDigest[]>): number {
  const known = new Set<string>();
  let [hits, all] = [0, 0];
  for (const { tools, system, blocks } of chains.flat()) {
    let path = "";
    let isKnown = true;
    for (const { digest, bytes } of [tools, system, ...blocks]) {
      path = createHash("sha256").update(path).update(digest).digest("base64url");
      isKnown &&= known.has(path);
      known.add(path);
      all += bytes;
      if (isKnown) hits += bytes;
    }
  }
  return all === 0 ? 0 : hits / all;
}

function digestOf({ protocol, headers, bodyText }: ModelRequest): RequestDigest {
  const known = PROTOCOLS[protocol];
  const digest =
    known === undefined || bodyText === null ? null : digestRequest(known, headers, Buffer.from(bodyText));
  if (digest === null) throw new TypeError(`no digest of a ${protocol} request`);
  return digest;
}
