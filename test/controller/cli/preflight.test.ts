import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readWords } from "../../../controller/cli/command.ts";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { preflight as command } from "../../../controller/cli/preflight.ts";
import type { PreflightReport } from "../../../controller/preflight/verdict.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { startRecallingModel, THINKING } from "../../stand-ins/recalling-model.ts";
import { canariesIn, canary } from "../../support/canaries.ts";
import { cli, keptOutput, startCli } from "../../support/cli.ts";
import { startHttpProxy } from "../../support/http-proxy.ts";
import { selfSigned } from "../../support/self-signed.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { until, within } from "../../support/until.ts";

const KEY = "sk-preflight-Canary/0123456789+";

function keyFile(text = `${KEY}\n`, mode = 0o600): string {
  const path = join(temporaryDirectory(), "key");
  writeFileSync(path, text, { mode });
  return path;
}

function preflight(words: string[], env: Record<string, string> = {}) {
  return cli(["preflight", ...words], { store: temporaryDirectory(), env });
}

test("a model that recalls and thinks: every answer with its ids, a table, exit code 0", async () => {
  const { url, requests } = await startRecallingModel();
  const { code, stdout, stderr } = await preflight([url, "--repetitions", "1", "--key-file", keyFile()]);
  expect(stdout).toMatch(
    /^ok {2}1 greeting +\d+\.\d s {2}thinking {2}request req-1 {2}answer chatcmpl-id1\n {6}\| It is /,
  );
  expect(stdout).toMatch(/^fact-update +1 +1 of 1 +1 of 1 +-$/m);
  expect(stdout).toMatch(/^recall_passed: +yes \(5 of 5\)\nthinking_observed: yes \(5 of 5\)$/m);
  expect(stderr.split("\n").filter((line) => line !== "")).toEqual(
    ["greeting", "repeated-question", "task", "fact-update", "no-history"].map(
      (name, at) => `call ${at + 1} of 5: ${name}`,
    ),
  );
  expect(code).toBe(0);
  // The list of models, and then the calls with its one model.
  expect(requests.map(({ path }) => path)).toEqual([
    "/v1/models",
    ...Array.from({ length: 5 }, () => "/v1/chat/completions"),
  ]);
  expect(requests.slice(1).map(({ body }) => (JSON.parse(body) as { model: string }).model)).toEqual(
    Array.from({ length: 5 }, () => "m1"),
  );
});

test("three repetitions unless told, as one JSON value; no thinking is 3", async () => {
  const { url } = await startRecallingModel({ thinks: false });
  const { code, stdout } = await preflight([url, "--model", "m7", "--protocol", "messages", "--json"]);
  const report = JSON.parse(stdout) as PreflightReport;
  expect(report).toMatchObject({
    url,
    protocol: "messages",
    model: "m7",
    recall_passed: true,
    thinking_observed: false,
    plannedCalls: 15,
    endedEarly: null,
  });
  expect(report.calls.map(({ answer }) => answer).filter((answer) => answer === "")).toEqual([]);
  expect(code).toBe(3);
});

test("a model that claims that history is missing: exit code 1, the claim's words, and where to read on", async () => {
  const { url } = await startRecallingModel({
    answer: (right) => `${right} This is the start of our conversation.`,
  });
  const { code, stdout } = await preflight([url, "--protocol", "responses", "--repetitions", "1"]);
  expect(stdout).toMatch(/^ {6}missing_history_claim: .*"this is the start of our conversation"$/m);
  expect(stdout).toMatch(/^recall_passed: +no \(1 of 5\)$/m);
  expect(stdout).toContain("docs/preflight.md");
  expect(code).toBe(1);
});

test("a key that the other side sends back in every place is in none of the output, nor in argv or environment", async () => {
  const marks = [canary("key", KEY)];
  const places: Array<Buffer> = [];
  let running: ReturnType<typeof startCli> | null = null;
  const { url } = await startRecallingModel({
    answer: (right) => `${right} ${KEY} ${Buffer.from(`x${KEY}`).toString("base64")}`,
    headers: () => ({ "x-request-id": KEY }),
    plays(response, { headers, number: counted }) {
      // Two runs of five calls.
      const number = ((counted - 1) % 5) + 1;
      const pid = running?.child.pid ?? 0;
      for (const name of ["cmdline", "environ"]) places.push(readFileSync(`/proc/${pid}/${name}`));
      places.push(readFileSync(`/proc/${pid}/task/${pid}/children`));
      expect(headers.authorization).toBe(`Bearer ${KEY}`);
      if (number === 2) {
        const error = { message: `bad key ${KEY}`, type: KEY };
        response.writeHead(500, { "x-request-id": "r", "www-authenticate": `Bearer ${KEY}` });
        response.end(JSON.stringify({ error }));
      }
      if (number === 3) {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end(
          `${THINKING["chat-completions"]}data: ${JSON.stringify({ error: { message: KEY, code: KEY } })}\n\n`,
        );
      }
      if (number === 4) {
        response.writeHead(200, { "content-type": "text/plain" });
        response.end(
          `data: ${JSON.stringify({ id: `chatcmpl-${KEY}`, model: KEY, choices: [{ delta: {}, finish_reason: KEY }] })}\n\n`,
        );
      }
      return number >= 2 && number <= 4;
    },
  });
  const path = keyFile();
  for (const more of [["--json"], []]) {
    running = startCli(["preflight", url, "--repetitions", "1", "--key-file", path, ...more], {
      store: temporaryDirectory(),
      input: "",
    });
    const { stdout, stderr, code } = await within("the end", running.end, 20_000);
    expect(canariesIn(`${stdout}${stderr}`, marks), stdout).toEqual([]);
    expect(stdout).toContain("[key]");
    expect(code).toBe(1);
  }
  expect(places.flatMap((place) => canariesIn(place, marks))).toEqual([]);
  const children = places.filter((_, at) => at % 3 === 2).map(String);
  expect(children).toHaveLength(10);
  expect(new Set(children)).toEqual(new Set([""]));
});

test("control characters of an answer move no cursor and forge no line", async () => {
  const { url } = await startRecallingModel({ answer: (right) => `${right}\u001b[2J\r\nok  9 forged\u202e` });
  const { stdout } = await preflight([url, "--repetitions", "1"]);
  for (const character of ["\u001b", "\r", "\u202e"]) expect(stdout).not.toContain(character);
  expect(stdout).not.toMatch(/^ok {2}9 forged/m);
});

test("Ctrl-C ends the call that is under way, and the table tells what was done", async () => {
  const { url, requests } = await startRecallingModel({ plays: (_, { number }) => number === 3 });
  const running = startCli(["preflight", url], { store: temporaryDirectory(), input: "" });
  await until("the third call", () => requests.length === 4);
  running.child.kill("SIGINT");
  const { code, stdout } = await within("the end", running.end, 5000);
  expect(code).toBe(130);
  expect(stdout).toMatch(/^task +1 +0 of 1 +0 of 1 +1 interrupted$/m);
  expect(stdout).toMatch(/^interrupted: 3 of 15 calls were made$/m);
  expect(stdout).toMatch(/^recall_passed: +no \(2 of 15\)$/m);
});

test("Ctrl-C while a silent proxy is asked ends it at once", async () => {
  const proxy = await startHttpProxy(() => undefined);
  const words = [
    "preflight",
    "https://model.invalid/v1",
    "--model",
    "m",
    "--proxy",
    proxy.url.href,
    "--json",
  ];
  const running = startCli(words, { store: temporaryDirectory(), input: "" });
  await until("the proxy's being asked", () => proxy.asked.length === 1);
  running.child.kill("SIGINT");
  const { code, stdout } = await within("the end", running.end, 5000);
  expect(code).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({
    endedEarly: "interrupted",
    calls: [{ failures: [{ kind: "interrupted" }] }],
  });
});

test("a proxy is used when it is named, one that refuses is said to refuse", async () => {
  const { url } = await startRecallingModel();
  const open = await startHttpProxy();
  expect((await preflight([url, "--repetitions", "1", "--proxy", open.url.href])).code).toBe(0);
  expect(open.asked).toHaveLength(6);
  // What the environment says of proxies is nobody's order here.
  expect(
    (await preflight([url, "--repetitions", "1"], { HTTP_PROXY: open.url.href, NODE_USE_ENV_PROXY: "1" }))
      .code,
  ).toBe(0);
  expect(open.asked).toHaveLength(6);
  const refusing = await startHttpProxy((answer) => {
    if ("tunnel" in answer) answer.tunnel.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  const { code, stdout } = await preflight([
    "https://model.invalid/v1",
    "--model",
    "m",
    "--proxy",
    refusing.url.href,
  ]);
  expect(code).toBe(1);
  expect(stdout).toContain("unreachable: the proxy refuses the way (status 403)");
  expect(stdout).toMatch(/^given up: .*14 others were not made$/m);
});

test("TLS is verified, and an authority of one's own can be named", async () => {
  const identity = selfSigned();
  const server = createServer(identity, (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end('data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const words = [
    `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    "--model",
    "m",
    "--repetitions",
    "1",
  ];
  expect((await preflight(words)).stdout).toMatch(/unreachable: TLS: .*NODE_EXTRA_CA_CERTS=FILE/);
  const authority = join(temporaryDirectory(), "ca.pem");
  writeFileSync(authority, identity.cert);
  const { stdout } = await preflight(words, { NODE_EXTRA_CA_CERTS: authority });
  expect(stdout).toMatch(/^greeting .*missing_fact/m);
});

/** What the command throws before it asks anything of a model. */
async function refusal(argv: string[]): Promise<HoldfastError> {
  const call = async () => {
    const { words, values } = readWords(command, argv);
    const environment = readEnvironment(values, {});
    return command.run({ words, values, environment, output: keptOutput() });
  };
  return call().then(
    (code) => {
      throw new Error(`it ended with ${code}`);
    },
    (error: unknown) => {
      if (error instanceof HoldfastError) return error;
      throw error;
    },
  );
}

const URL_OF_NOBODY = "http://127.0.0.1:1/v1";
test.for([
  ["no URL", [], "USAGE", /it takes one word/],
  ["a URL that is none", ["model.example"], "REQUEST_INVALID", /model\.example is no http or https URL/],
  ["another scheme", ["ftp://h/v1"], "REQUEST_INVALID", /is no http or https URL/],
  ["a key in the URL", ["http://name:secret-pw@h/v1"], "REQUEST_INVALID", /an address alone/],
  [
    "an unknown protocol",
    [URL_OF_NOBODY, "--protocol", "smtp"],
    "USAGE",
    /--protocol takes chat-completions/,
  ],
  ["no repetition", [URL_OF_NOBODY, "--repetitions", "0"], "USAGE", /--repetitions takes 1 to 100/],
  ["too many repetitions", [URL_OF_NOBODY, "--repetitions", "101"], "USAGE", /--repetitions takes 1 to 100/],
  [
    "repetitions that are no number",
    [URL_OF_NOBODY, "--repetitions", "1e1"],
    "USAGE",
    /--repetitions takes 1 to 100/,
  ],
  ["a proxy that is no address", [URL_OF_NOBODY, "--proxy", "proxy:3128"], "USAGE", /--proxy takes http:/],
  [
    "a password for the proxy",
    [URL_OF_NOBODY, "--proxy", "http://u:secret-pw@p:1"],
    "USAGE",
    /wants a password can't be used/,
  ],
  ["an empty model", [URL_OF_NOBODY, "--model", ""], "USAGE", /--model needs a name/],
  ["nobody at the address", [URL_OF_NOBODY], "MODEL_UNREACHABLE", /no list of models .*ECONNREFUSED/],
  [
    "a key file that is not there",
    [URL_OF_NOBODY, "--key-file", "/nonexistent/key"],
    "REQUEST_INVALID",
    /does not exist/,
  ],
] as Array<[string, string[], string, RegExp]>)(
  "%s is refused with what to do",
  async ([, words, expected, message]) => {
    const { code, message: said } = await refusal(words);
    expect(said).toMatch(message);
    expect(said).not.toContain("secret-pw");
    expect(code).toBe(expected);
  },
);

test.for([
  ["is empty", " \n", 0o600, /the key file .* is empty/],
  ["others can read", KEY, 0o644, /can be read by others: chmod 600 it/],
  ["holds more than a key", "two words", 0o600, /holds no single key/],
] as Array<[string, string, number, RegExp]>)(
  "a key file that %s is refused before anything is sent",
  async ([, content, mode, message]) => {
    const { url, requests } = await startRecallingModel();
    const { code, message: said } = await refusal([url, "--key-file", keyFile(content, mode)]);
    expect(said).toMatch(message);
    expect(code).toBe("REQUEST_INVALID");
    expect(requests).toEqual([]);
  },
);
