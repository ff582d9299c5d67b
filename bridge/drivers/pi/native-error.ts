/** A provider's error as pi words it, without what may leak. Pure. */
import { clip } from "../../../protocol/errors.ts";
import type { NativeError } from "../driver.ts";

const ADDRESS =
  /\b[a-z][a-z+.-]*:\/\/[^\s"')]+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?|\[[0-9a-f]*:[0-9a-f:]+\](:\d+)?|\blocalhost:\d+/gi;

/** Pi gives one line: status and the provider's own message. */
export function withoutAddresses(text: string): string {
  return clip(text.replace(ADDRESS, "[address]"));
}

export function providerError(text: string): NativeError {
  return { name: "ProviderError", message: withoutAddresses(text) };
}
