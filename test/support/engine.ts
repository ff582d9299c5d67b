// A container engine as far as `holdfast doctor` and the choice of a sandbox look at it.
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { temporaryDirectory } from "./temporary-directory.ts";

/** Returns its socket's path. `images`: the labels of each image that is there, by id. */
export async function startEngineStandIn(options: {
  images: Record<string, Record<string, string>>;
}): Promise<string> {
  const socket = join(temporaryDirectory(), "engine.sock");
  const server = createServer((request, response) => {
    const path = (request.url ?? "").replace(/^\/v1\.\d+/, "").replace(/\?.*$/, "");
    const image = decodeURIComponent(path.match(/^\/images\/(.+)\/json$/)?.[1] ?? "");
    const labels = options.images[image];
    let answer: unknown = { message: "no such thing" };
    if (path === "/_ping") answer = "OK";
    if (path === "/version") answer = { Version: "20.10.24" };
    if (path === "/containers/json") answer = [];
    if (labels !== undefined) answer = { Id: image, Config: { Labels: labels } };
    const isKnown = labels !== undefined || ["/_ping", "/version", "/containers/json"].includes(path);
    response.writeHead(isKnown ? 200 : 404, { "content-type": "application/json" });
    response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
  });
  server.listen(socket);
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return socket;
}
