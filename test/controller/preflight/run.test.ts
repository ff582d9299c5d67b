import { expect, onTestFinished, test } from "vitest";
import { CASE_NAMES } from "../../../controller/preflight/cases.ts";
import { type PreflightOptions, runPreflight } from "../../../controller/preflight/run.ts";
import type { PreflightReport } from "../../../controller/preflight/verdict.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { type RecallingOptions, startRecallingModel } from "../../stand-ins/recalling-model.ts";
import { startModelServer } from "../../support/model/server.ts";
import { until } from "../../support/until.ts";

function run(baseUrl: string, more: Partial<PreflightOptions> = {}): Promise<PreflightReport> {
  return runPreflight({
    baseUrl,
    protocol: "chat-completions",
    model: "m1",
    key: null,
    proxy: null,
    repetitions: 1,
    signal: new AbortController().signal,
    ...more,
  });
}

const kinds = ({ calls }: PreflightReport) =>
  calls.map(({ failures }) => failures.map(({ kind }) => kind).join());
const PROTOCOLS = ModelProtocol.options;

test.for(PROTOCOLS)(
  "%s: a model that recalls passes, three repetitions are fifteen calls",
  async (protocol) => {
    const { url, requests } = await startRecallingModel();
    const started: number[] = [];
    const report = await run(url, {
      protocol,
      repetitions: 3,
      onStart: ({ number }) => started.push(number),
    });
    expect(kinds(report)).toEqual(Array.from({ length: 15 }, () => ""));
    expect(report).toMatchObject({
      recall_passed: true,
      thinking_observed: true,
      plannedCalls: 15,
      endedEarly: null,
    });
    expect(report.calls.map((call) => call.case)).toEqual([...CASE_NAMES, ...CASE_NAMES, ...CASE_NAMES]);
    expect(report.calls.map(({ requestId }) => requestId)).toEqual(started.map((number) => `req-${number}`));
    expect(requests).toHaveLength(15);
  },
);

const PLAYED: ReadonlyArray<[string, RecallingOptions, string[]]> = [
  ["thinks nothing", { thinks: false }, ["", "", "", "", ""]],
  [
    "claims that history is missing",
    { answer: () => "This is the start of our conversation." },
    [
      "missing_fact,missing_history_claim",
      "missing_fact,missing_history_claim",
      "missing_fact,missing_history_claim",
      "missing_fact,missing_history_claim",
      "",
    ],
  ],
  [
    "knows, and claims it all the same",
    { answer: (right) => `${right} There are no previous messages.` },
    ["missing_history_claim", "missing_history_claim", "missing_history_claim", "missing_history_claim", ""],
  ],
  [
    "forgets the update",
    { answer: (right) => right.replace(/now: (\S+)\nbefore: (\S+)/, "now: $2\nbefore: $1") },
    ["", "", "", "missing_fact", ""],
  ],
  ["is cut by its length", { finish: "length" }, Array.from({ length: 5 }, () => "truncated")],
  ["says nothing", { answer: () => "" }, Array.from({ length: 5 }, () => "empty_answer")],
];

for (const [what, options, expected] of PLAYED) {
  test.for(PROTOCOLS)(`%s: a model that ${what}`, async (protocol) => {
    const { url } = await startRecallingModel(options);
    const report = await run(url, { protocol });
    expect(kinds(report)).toEqual(expected);
    expect(report.recall_passed).toBe(expected.every((kind) => kind === ""));
    expect(report.thinking_observed).toBe(options.thinks ?? true);
  });
}

test("a model that answers from another conversation is found where there is none", async () => {
  const first: string[] = [];
  const { url } = await startRecallingModel({
    answer(right, number) {
      first.push(right);
      return number === 5 ? (first[0] ?? "") : right;
    },
  });
  expect(kinds(await run(url))).toEqual(["", "", "", "", "foreign_fact"]);
});

test.for(PROTOCOLS)(
  "%s: the loopback model's faults, each in its call, and the run goes on",
  async (protocol) => {
    const model = await startModelServer();
    onTestFinished(() => model.close());
    model.queue([{ kind: "reply", text: "OK." }]);
    model.queue([{ kind: "status", status: 500 }]);
    model.queue([{ kind: "errorChunk", message: "it broke" }]);
    model.queue([{ kind: "endEarly", text: "half" }]);
    model.queue([{ kind: "cut", text: "half" }]);
    const report = await run(model.url, { protocol });
    expect(kinds(report)).toEqual([
      "missing_fact",
      "http_status",
      "stream_error",
      "truncated",
      "stream_error",
    ]);
    expect(report).toMatchObject({ recall_passed: false, endedEarly: null });
  },
);

test("a first call that can't get through ends the run; a later one does not", async () => {
  const refused = await startModelServer({ expectedKey: "right" });
  onTestFinished(() => refused.close());
  const report = await run(refused.url, { key: "wrong", repetitions: 3 });
  expect(report).toMatchObject({ endedEarly: "given_up", recall_passed: false, plannedCalls: 15 });
  expect(kinds(report)).toEqual(["http_status"]);
  const { url } = await startRecallingModel({
    plays(response, { number }) {
      if (number === 2) response.writeHead(401).end();
      return number === 2;
    },
  });
  expect(kinds(await run(url))).toEqual(["", "http_status", "", "", ""]);
});

test("an interruption settles with what was done", async () => {
  const stop = new AbortController();
  const { url, requests } = await startRecallingModel({ plays: (_, { number }) => number === 3 });
  const ended = run(url, { signal: stop.signal });
  await until("the third call", () => requests.length === 3);
  stop.abort();
  const report = await ended;
  expect(kinds(report)).toEqual(["", "", "interrupted"]);
  expect(report).toMatchObject({ endedEarly: "interrupted", recall_passed: false });
  expect(requests).toHaveLength(3);
});
