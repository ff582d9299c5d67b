import { expect, onTestFinished, test } from "vitest";
import { onlyModel } from "../../../controller/preflight/only-model.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { startRecallingModel } from "../../stand-ins/recalling-model.ts";
import { startModelServer } from "../../support/model/server.ts";

function asked(baseUrl: string, more: Partial<Parameters<typeof onlyModel>[0]> = {}): Promise<string> {
  const signal = new AbortController().signal;
  return onlyModel({ baseUrl, protocol: "chat-completions", key: null, proxy: null, signal, ...more });
}

async function serving(models: string[], expectedKey?: string): Promise<string> {
  const server = await startModelServer({ models, ...(expectedKey === undefined ? {} : { expectedKey }) });
  onTestFinished(() => server.close());
  return server.url;
}

test("a server's one model is it, with a slash at the end or without", async () => {
  const url = await serving(["m9"], "k");
  expect(await asked(url, { key: "k" })).toBe("m9");
  expect(await asked(`${url}/`, { key: "k" })).toBe("m9");
});

test("several models are named, so that one can be chosen", async () => {
  await expect(asked(await serving(["a", "b"]))).rejects.toMatchObject({
    code: "USAGE",
    message: expect.stringMatching(/--model is needed: .*\/v1\/models lists a, b$/) as string,
  });
  const many = Array.from({ length: 20 }, (_, at) => `m${at}`);
  await expect(asked(await serving(many))).rejects.toThrow(/m6, m7, …$/);
  await expect(asked(await serving([]))).rejects.toThrow(/lists none/);
});

test("a list that can't be had says why, without the key", async () => {
  await expect(asked(await serving(["a"], "right"), { key: "wrong-key" })).rejects.toMatchObject({
    code: "MODEL_UNREACHABLE",
    message: expect.not.stringContaining("wrong-key") as string,
  });
  await expect(asked("http://127.0.0.1:1/v1")).rejects.toThrow(/no list of models .*ECONNREFUSED.*--model/);
  const signal = AbortSignal.abort();
  await expect(asked(await serving(["a"]), { signal })).rejects.toMatchObject({ code: "STOPPED" });
});

test("it is asked as each protocol asks", async () => {
  const { url, requests } = await startRecallingModel();
  for (const protocol of ModelProtocol.options) await asked(url, { protocol, key: "k" });
  const shown = requests.map(({ headers }) => [
    headers.authorization,
    headers["x-api-key"],
    headers["anthropic-version"],
  ]);
  expect(shown).toEqual([
    ["Bearer k", undefined, undefined],
    ["Bearer k", undefined, undefined],
    [undefined, "k", "2023-06-01"],
  ]);
});
