/**
 * What a CLI process shows the model relay in a key's place: whose it is, and a proof that the bridge made it. Pure: the
 * words alone; both sides compute the proof with the sandbox's own token, so it travels in no frame and is kept nowhere.
 *
 *   hfm.<member>.<epoch>.<process generation>.<HMAC-SHA-256 over all before it, base64url>
 */
import { Count, OurId } from "./ids.ts";

/** One process of one member: its generation counts the member's processes in one life of the bridge, its epoch. */
export interface ModelCaller {
  member: string;
  epoch: number;
  processGeneration: number;
}

/** What the proof is made over. A member's id may hold dots, and nothing behind it does. */
export function modelTokenWords({ member, epoch, processGeneration }: ModelCaller): string {
  return `hfm.${member}.${epoch}.${processGeneration}`;
}

const TOKEN = /^(hfm\.(.{1,128})\.(\d{1,15})\.(\d{1,15}))\.([A-Za-z0-9_-]{43})$/;

/** What the text says of itself; null for one that is no such token. The proof is still to be checked. */
export function readModelToken(text: string): { caller: ModelCaller; words: string; proof: string } | null {
  const [, words, member, epoch, generation, proof] = TOKEN.exec(text) ?? [];
  if (words === undefined || proof === undefined) return null;
  const caller = { member: member ?? "", epoch: Number(epoch), processGeneration: Number(generation) };
  const isWhole =
    OurId.safeParse(caller.member).success &&
    [caller.epoch, caller.processGeneration].every((count) => Count.safeParse(count).success);
  // Written in one way only: `01` would be another text with the same meaning.
  return isWhole && modelTokenWords(caller) === words ? { caller, words, proof } : null;
}
