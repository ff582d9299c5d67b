import { expect, onTestFinished, test } from "vitest";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { relayOf } from "../../../controller/cli/relay-settings.ts";
import { loopbackModel, namedModel } from "../../../controller/cli/tour-model.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

test("the scripted model is a program of its own: it answers, shows what it received, can be slow, and ends", async () => {
  const model = await loopbackModel(readEnvironment({}, process.env));
  onTestFinished(() => model.close());
  const [route] = model.relay.routes;
  expect(route).toMatchObject({
    baseUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v1$/) as string,
    key: null,
  });
  expect(await model.receivedTexts()).toEqual([]);
  await model.makeSlow("Count");
  const answer = await fetch(`${route?.baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "m1",
      stream: true,
      messages: [{ role: "user", content: "What is it?" }],
      tools: [{ type: "function", function: { name: "bash", parameters: { type: "object" } } }],
    }),
  });
  await answer.text();
  expect(await model.receivedTexts()).toEqual([["What is it?"]]);
  await model.close();
  await expect(fetch(`${route?.baseUrl}/models`)).rejects.toThrow();
});

test("a package without it says which options name another model", async () => {
  const environment = { ...readEnvironment({}, {}), root: temporaryDirectory() };
  await expect(loopbackModel(environment)).rejects.toMatchObject({
    code: "USAGE",
    message: expect.stringContaining("--base-url") as string,
  });
});

test("of a provider nobody can know what it received, and its key is in no description", async () => {
  const model = namedModel({
    relay: relayOf({ baseUrl: "https://p.example/v1", key: "sk-secret", upstream: {} }),
    route: undefined,
    model: "m",
  });
  expect(await model.receivedTexts()).toBeNull();
  await model.makeSlow("x");
  await model.close();
  expect(model.description).toBe("m at https://p.example/v1");
});
