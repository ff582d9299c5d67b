import { expect, onTestFinished, test } from "vitest";
import { checkModel } from "../../../controller/cli/model-check.ts";
import { startModelServer } from "../../support/model/server.ts";

async function model(expectedKey?: string) {
  const server = await startModelServer(expectedKey === undefined ? {} : { expectedKey });
  onTestFinished(() => server.close());
  return server;
}

test("a model that lists its models is well, with a slash at the end or without", async () => {
  const { url } = await model("k");
  expect(await checkModel({ baseUrl: url, key: "k" })).toBeNull();
  expect(await checkModel({ baseUrl: `${url}/`, key: "k" })).toBeNull();
});

test("a wrong key and a missing one are said, without the key", async () => {
  const { url } = await model("right");
  await expect(checkModel({ baseUrl: url, key: "wrong-key" })).rejects.toMatchObject({
    code: "MODEL_UNREACHABLE",
    message: expect.not.stringContaining("wrong-key") as string,
  });
  await expect(checkModel({ baseUrl: url, key: null })).rejects.toThrow("--key-file");
});

test("an address where nobody listens is said with the reason", async () => {
  await expect(checkModel({ baseUrl: "http://127.0.0.1:1/v1", key: null })).rejects.toMatchObject({
    code: "MODEL_UNREACHABLE",
    message: expect.stringMatching(/127\.0\.0\.1:1 does not answer \(ECONNREFUSED\)/) as string,
  });
});

test("an address without a list of models is a remark only: not every provider has one", async () => {
  const { url } = await model();
  expect(await checkModel({ baseUrl: url.replace("/v1", ""), key: null })).toContain("answers 404");
});
