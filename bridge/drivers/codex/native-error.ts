/** An error as codex words it, without what may leak: addresses, and bodies of the provider's answer. Pure. */
import { clip } from "../../../protocol/errors.ts";
import { withoutAddresses } from "../addresses.ts";
import type { NativeError } from "../driver.ts";
import type { TurnError } from "./native-message.ts";

export function nativeError(error: TurnError): NativeError {
  return { name: errorName(error), message: stripped(providerMessage(error.message)) };
}

/** Why codex tries again: `message` says only that it does. */
export function waitingReason({ message, additionalDetails }: TurnError): string {
  return stripped(
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

function stripped(text: string): string {
  return clip(withoutAddresses(text.replace(/, url: \S+/g, "")));
}
