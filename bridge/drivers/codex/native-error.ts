/** An error as codex words it, without what may leak: addresses, and bodies of the provider's answer. Pure. */
import { clip } from "../../../protocol/errors.ts";
import type { NativeError } from "../driver.ts";
import type { TurnError } from "./native-message.ts";

const ADDRESS =
  /\b[a-z][a-z+.-]*:\/\/[^\s"')]+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?|\[[0-9a-f]*:[0-9a-f:]+\](:\d+)?|\blocalhost:\d+/gi;

export function nativeError(error: TurnError): NativeError {
  return { name: errorName(error), message: withoutAddresses(providerMessage(error.message)) };
}

/** Why codex tries again: `message` says only that it does. */
export function waitingReason({ message, additionalDetails }: TurnError): string {
  return withoutAddresses(
    providerMessage(additionalDetails == null || additionalDetails === "" ? message : additionalDetails),
  );
}

function errorName({ codexErrorInfo }: TurnError): string {
  if (typeof codexErrorInfo === "string") return codexErrorInfo.slice(0, 100);
  return (Object.keys(codexErrorInfo ?? {})[0] ?? "other").slice(0, 100);
}

/** A refused request is reported as its whole body: of a JSON one the provider's own message is kept. */
function providerMessage(text: string): string {
  try {
    const body = JSON.parse(text) as { error?: { message?: unknown } } | null;
    const message = body?.error?.message;
    return typeof message === "string" ? message : text;
  } catch {
    // Not JSON: it is a message already.
    return text;
  }
}

function withoutAddresses(text: string): string {
  return clip(text.replace(/, url: \S+/g, "").replace(ADDRESS, "[address]"));
}
