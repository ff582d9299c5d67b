/** The real clock of this process. */
import { performance } from "node:perf_hooks";
import { type Clock, hostClock } from "../protocol/clock.ts";

export const realClock: Clock = hostClock({
  performance,
  setTimeout,
  clearTimeout,
  setImmediate,
  clearImmediate,
});
