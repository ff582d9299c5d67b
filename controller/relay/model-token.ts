/** Whether a token that came to the relay was made by the bridge of this very sandbox; see `protocol/model-token.ts`. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { type ModelCaller, readModelToken } from "../../protocol/model-token.ts";
import type { Store } from "../store/store.ts";

/** Whose it is, or null: another sandbox's, a placeholder, anything else. Whether it was revoked is the store's to say. */
export function provenCaller(sandboxToken: string, text: string): ModelCaller | null {
  const read = readModelToken(text);
  if (read === null) return null;
  const given = Buffer.from(read.proof, "base64url");
  const own = createHmac("sha256", sandboxToken).update(read.words).digest();
  return given.length === own.length && timingSafeEqual(given, own) ? read.caller : null;
}

/** Whose token may ask the model in this sandbox now; null for every other one, and for none. */
export function callersOf(store: Pick<Store, "mayCall">, sandbox: string, sandboxToken: string) {
  return (token: string | null): ModelCaller | null => {
    const caller = token === null ? null : provenCaller(sandboxToken, token);
    return caller !== null && store.mayCall(sandbox, caller) ? caller : null;
  };
}

/** The token that a request shows, in whichever header its client puts a key; null when it shows none. */
export function tokenOf(headers: Readonly<Record<string, string | string[] | undefined>>): string | null {
  for (const name of ["x-api-key", "api-key"]) {
    const value = headers[name];
    if (typeof value === "string" && value !== "") return value;
  }
  const [, bearer] = /^bearer +(\S+)$/i.exec(String(headers.authorization ?? "")) ?? [];
  return bearer ?? null;
}
