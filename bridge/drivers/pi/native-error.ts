/** A provider's error as pi words it, without what may leak. Pure. */
import { clip } from "../../../protocol/errors.ts";
import { withoutAddresses } from "../addresses.ts";
import type { NativeError } from "../driver.ts";

export function providerError(text: string): NativeError {
  return { name: "ProviderError", message: clip(withoutAddresses(text)) };
}
