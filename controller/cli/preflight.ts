/**
 * `holdfast preflight URL`: does a model answer from the history that it is given? Opt-in: it sends made-up messages, which
 * cost what calls cost. The key is read from a file and stays in this process.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { ModelProtocol } from "../../protocol/model-protocol.ts";
import { onlyModel } from "../preflight/only-model.ts";
import { runPreflight } from "../preflight/run.ts";
import { type CallReport, type PreflightReport, summaryRows } from "../preflight/verdict.ts";
import { type Command, text, type Values } from "./command.ts";
import { readRoute } from "./environment.ts";
import { watchInterrupts } from "./interrupts.ts";
import { type Output, oneLine, seconds, table } from "./output.ts";

const DEFAULT_REPETITIONS = 3;
const MOST_REPETITIONS = 100;

/** As shells name the end by Ctrl-C. */
const INTERRUPTED = 130;
const NO_THINKING = 3;

export const preflight: Command = {
  name: "preflight",
  summary:
    "Asks a model whether it answers from the history it is given. Opt-in: real calls, with their costs.",
  usage: `URL [--protocol chat-completions|responses|messages] [--model NAME] [--repetitions 3]
       [--key-file FILE] [--proxy URL] [--json]

URL is the base URL, which usually ends in /v1. Each repetition makes five calls: greeting, repeated question, task,
fact and update, no history. Without --model the server's only one is taken; the protocol is chat-completions unless named.
--proxy takes http://HOST:PORT; an authority of your own for TLS is named by NODE_EXTRA_CA_CERTS.
Exit code: 0 recall passed and thinking observed, 1 recall failed, 2 usage, 3 recall passed and thinking not observed in
every call, 130 interrupted. What the detectors can't tell: docs/preflight.md.`,
  options: {
    protocol: { type: "string" },
    model: { type: "string" },
    repetitions: { type: "string" },
    "key-file": { type: "string" },
    proxy: { type: "string" },
  },
  words: { min: 1, max: 1 },
  async run({ words, values, output }) {
    const protocol = readProtocol(values);
    const repetitions = readRepetitions(values);
    const proxy = readProxy(values);
    const route = readRoute({ "base-url": words[0] ?? "", "key-file": text(values, "key-file") });
    if (route === null) throw new HoldfastError("USAGE", "preflight needs the model's base URL");
    const { baseUrl, key } = route;
    if (key !== null && isBare(new URL(baseUrl)))
      output.progress("note: without TLS the key travels readable to all");
    const stop = new AbortController();
    const unwatch = watchInterrupts(() => stop.abort());
    try {
      const way = { baseUrl, protocol, key, proxy, signal: stop.signal };
      const model = text(values, "model") ?? (await onlyModel(way));
      if (model === "") throw new HoldfastError("USAGE", "--model needs a name");
      const report = await runPreflight({
        ...way,
        model,
        repetitions,
        onStart: ({ number, of, name }) => output.progress(`call ${number} of ${of}: ${name}`, "dim"),
        onCall: (call) => (output.isJson ? undefined : showCall(call, output)),
      });
      if (output.isJson) output.json(report);
      else showRun(report, output);
      return exitCode(report);
    } finally {
      unwatch();
    }
  },
};

function exitCode({ endedEarly, recall_passed, thinking_observed }: PreflightReport): number {
  if (endedEarly === "interrupted") return INTERRUPTED;
  if (!recall_passed) return 1;
  return thinking_observed ? 0 : NO_THINKING;
}

function readProtocol(values: Values): ModelProtocol {
  const given = text(values, "protocol") ?? "chat-completions";
  const parsed = ModelProtocol.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new HoldfastError("USAGE", `--protocol takes ${ModelProtocol.options.join(", ")}, not "${given}"`);
}

function readRepetitions(values: Values): number {
  const given = text(values, "repetitions") ?? String(DEFAULT_REPETITIONS);
  const number = /^\d{1,3}$/.test(given) ? Number(given) : 0;
  if (number >= 1 && number <= MOST_REPETITIONS) return number;
  throw new HoldfastError("USAGE", `--repetitions takes 1 to ${MOST_REPETITIONS}, not "${given}"`);
}

/** A password of the proxy would stand in argv, which every process can see: it is refused. */
function readProxy(values: Values): URL | null {
  const given = text(values, "proxy");
  if (given === undefined) return null;
  const url = URL.parse(given);
  if (url === null || url.protocol !== "http:")
    throw new HoldfastError("USAGE", "--proxy takes http://HOST:PORT");
  if (
    url.username !== "" ||
    url.password !== "" ||
    url.pathname !== "/" ||
    url.search !== "" ||
    url.hash !== ""
  )
    throw new HoldfastError(
      "USAGE",
      "--proxy takes http://HOST:PORT alone; one that wants a password can't be used",
    );
  return url;
}

function isBare(url: URL): boolean {
  return url.protocol === "http:" && !/^(?:localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname);
}

function showCall(call: CallReport, output: Output): void {
  const { recall_passed, thinking_observed, answer, failures, requestId, providerId, totalMs } = call;
  const marks = [
    `${recall_passed ? "ok" : "!!"}  ${call.repetition} ${call.case}`.padEnd(26),
    seconds(totalMs),
    thinking_observed ? "thinking" : "no thinking",
    ...(requestId === null ? [] : [`request ${requestId}`]),
    ...(providerId === null ? [] : [`answer ${providerId}`]),
  ];
  output.line(marks.join("  "));
  if (answer !== "") output.line(`      | ${oneLine(answer)}`);
  for (const { kind, detail } of failures) output.line(`      ${kind}: ${oneLine(detail)}`);
}

function showRun(report: PreflightReport, output: Output): void {
  const { calls, plannedCalls, endedEarly } = report;
  output.line();
  output.line(table(["CASE", "CALLS", "RECALLED", "THINKING", "FAILURES"], summaryRows(calls)));
  output.line();
  if (endedEarly === "interrupted")
    output.line(`interrupted: ${calls.length} of ${plannedCalls} calls were made`);
  if (endedEarly === "given_up")
    output.line(
      `given up: the first call can't get through, ${plannedCalls - calls.length} others were not made`,
    );
  const count = (fits: (call: CallReport) => boolean) => `${calls.filter(fits).length} of ${plannedCalls}`;
  output.line(`recall_passed:     ${yes(report.recall_passed)} (${count((call) => call.recall_passed)})`);
  output.line(
    `thinking_observed: ${yes(report.thinking_observed)} (${count((call) => call.thinking_observed)})`,
  );
  if (!report.recall_passed && calls.some(({ status }) => status === 200))
    output.line("read the answers: a detector may reject one that quotes a false claim (docs/preflight.md)");
}

function yes(value: boolean): string {
  return value ? "yes" : "no";
}
