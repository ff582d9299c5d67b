/** A look at the model before a conversation rests on it: a wrong address or key is said at once, not after retries. */
import type { IncomingMessage } from "node:http";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { KEY_HEADERS } from "../relay/key-header.ts";
import { RELAY_DEFAULTS } from "../relay/limits.ts";
import { openRoutes, type RelayOptions, type Route } from "../relay/routes.ts";

const ANSWER_MS = 10_000;
/** Anthropic's API refuses a request that names no version. */
const VERSION_HEADER: Readonly<Record<ModelProtocol, readonly string[]>> = {
  "chat-completions": [],
  responses: [],
  messages: ["anthropic-version", "2023-06-01"],
};

/**
 * Null when all is well, or a remark. Throws MODEL_UNREACHABLE. Costs nothing: only the list of models is asked for.
 * @param name of the route; undefined for the protocol's first
 */
export async function checkModel(
  relay: RelayOptions,
  protocol: ModelProtocol,
  name: string | undefined,
  variables: NodeJS.ProcessEnv,
): Promise<string | null> {
  const routes = openRoutes(relay, variables);
  try {
    const route = routes.of(protocol, name);
    if (route === null)
      throw new HoldfastError(
        "REQUEST_INVALID",
        `no route ${name === undefined ? "" : `${name} `}speaks ${protocol}`,
      );
    return await look(route);
  } finally {
    routes.close();
  }
}

async function look(route: Route): Promise<string | null> {
  const { origin } = route.upstream.base;
  const path = route.pathOf("/models");
  const status = await statusOf(route, path).catch((cause: NodeJS.ErrnoException) => {
    const why =
      cause.name === "TimeoutError" ? `nothing within ${ANSWER_MS / 1000} s` : (cause.code ?? cause.message);
    throw new HoldfastError("MODEL_UNREACHABLE", `${origin} does not answer (${why})`);
  });
  if (status === 401 || status === 403) {
    const hasKey = KEY_HEADERS.some((header) => header in route.headers);
    const what = hasKey ? "refuses the key" : "wants a key: name its file with --key-file";
    throw new HoldfastError("MODEL_UNREACHABLE", `${origin} ${what} (status ${status})`);
  }
  if (status < 300) return null;
  return `note: ${origin}${path} answers ${status}; a base URL usually ends in /v1`;
}

/** Asked the way the relay asks. */
function statusOf({ upstream, headers, protocol }: Route, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = upstream.request({
      method: "GET",
      path,
      headers: ["Host", upstream.base.host, ...VERSION_HEADER[protocol], ...Object.entries(headers).flat()],
      headerBytes: RELAY_DEFAULTS.headerBytes,
    });
    const late = setTimeout(() => {
      call.destroy(Object.assign(new Error("late"), { name: "TimeoutError" }));
    }, ANSWER_MS);
    call.once("response", (answer: IncomingMessage) => {
      resolve(answer.statusCode ?? 0);
      answer.destroy();
    });
    call.on("error", reject);
    call.once("close", () => clearTimeout(late));
    call.end();
  });
}
