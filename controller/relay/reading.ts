/** What a protocol's reader of one answer is: fed with the values of its stream, or with the one value of a whole answer. */
import type { CallUsage } from "./call-usage.ts";
import type { TellingWords } from "./telling-words.ts";

export interface ProtocolReading {
  /** An event behind the first ones that has none of these says nothing. */
  readonly words: TellingWords;
  /** One event of a stream, parsed. Anything is taken; what is not of the protocol says nothing. */
  event(value: unknown): void;
  /** The whole answer, for a call that does not stream. */
  whole(value: unknown): void;
  result(): ReadAnswer;
}

export interface ReadAnswer {
  /** Final figures: stated in or after the frame that ends the answer. */
  usage: CallUsage;
  /** A statement of usage came, whatever it was worth. */
  usageObserved: boolean;
  /** The answer came to its own end: the protocol's last frame, or a whole body. */
  isTerminal: boolean;
  /** The provider told an error in place of an answer, or in its middle. */
  isError: boolean;
  /** As the provider names it; at most 200 characters. */
  model: string | null;
  /** Of the answer, under the filter of `provider-id.ts`. */
  providerId: string | null;
  /** In the protocol's own words (`stop`, `end_turn`, `max_output_tokens` …), when it is one plain word. */
  stopReason: string | null;
}
