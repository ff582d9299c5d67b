import { expect, test } from "vitest";
import { KEY_HEADERS, keyHeader, protocolOfPath } from "../../../controller/relay/key-header.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";

test("each protocol's key goes into its own header, and into no other", () => {
  expect(keyHeader("chat-completions", "k")).toEqual({ authorization: "Bearer k" });
  expect(keyHeader("responses", "k")).toEqual({ authorization: "Bearer k" });
  expect(keyHeader("messages", "k")).toEqual({ "x-api-key": "k" });
});

test("without a key there is no header, and every header of a key is one that no client may send", () => {
  for (const protocol of ModelProtocol.options) {
    expect(keyHeader(protocol, null)).toEqual({});
    for (const name of Object.keys(keyHeader(protocol, "k"))) expect(KEY_HEADERS).toContain(name);
  }
});

test("a request's protocol is told by its path, to the letter", () => {
  const paths: Record<string, string[]> = {
    messages: ["/messages", "/messages?beta=true", "/messages/count_tokens", "/messages/batches/x"],
    responses: ["/responses", "/responses/compact", "/responses?x=1"],
    "chat-completions": ["/chat/completions", "/chat/completions?x=1", "/chat/completions/x"],
    none: [
      "/models",
      "/messages2",
      "/messagesx?beta=true",
      "/x/messages",
      "/Messages",
      "/chat",
      "/chat/completionsx",
      "/embeddings?path=/messages",
      "/",
      "",
    ],
  };
  for (const [protocol, each] of Object.entries(paths))
    for (const path of each) expect(protocolOfPath(path) ?? "none", path).toBe(protocol);
});
