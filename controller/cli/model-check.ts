/** A look at the model before a conversation rests on it: a wrong address or key is said at once, not after retries. */
import { get as httpGet, type IncomingMessage } from "node:http";
import { get as httpsGet } from "node:https";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { keyHeader } from "../relay/key-header.ts";
import type { ModelRoute } from "./environment.ts";

const ANSWER_MS = 10_000;
/** Anthropic's API refuses a request that names no version. */
const VERSION_HEADER: Readonly<Record<ModelProtocol, Record<string, string>>> = {
  "chat-completions": {},
  responses: {},
  messages: { "anthropic-version": "2023-06-01" },
};

/** Null when all is well, or a remark. Throws MODEL_UNREACHABLE. Costs nothing: only the list of models is asked for. */
export async function checkModel(
  { baseUrl, key }: ModelRoute,
  protocol: ModelProtocol,
): Promise<string | null> {
  const url = new URL(`${baseUrl.replace(/\/$/, "")}/models`);
  const status = await statusOf(url, { ...keyHeader(protocol, key), ...VERSION_HEADER[protocol] }).catch(
    (cause: NodeJS.ErrnoException) => {
      const why =
        cause.name === "TimeoutError"
          ? `nothing within ${ANSWER_MS / 1000} s`
          : (cause.code ?? cause.message);
      throw new HoldfastError("MODEL_UNREACHABLE", `${url.origin} does not answer (${why})`);
    },
  );
  if (status === 401 || status === 403) {
    const what = key === null ? "wants a key: name its file with --key-file" : "refuses the key";
    throw new HoldfastError("MODEL_UNREACHABLE", `${url.origin} ${what} (status ${status})`);
  }
  if (status < 300) return null;
  return `note: ${url.href} answers ${status}; a base URL usually ends in /v1`;
}

/** Asked the way the forwarder asks; `fetch` refuses ports that it can use. */
function statusOf(url: URL, headers: Readonly<Record<string, string>>): Promise<number> {
  const get = url.protocol === "https:" ? httpsGet : httpGet;
  return new Promise((resolve, reject) => {
    const call = get(
      url,
      {
        agent: false,
        headers,
        signal: AbortSignal.timeout(ANSWER_MS),
      },
      (answer: IncomingMessage) => {
        resolve(answer.statusCode ?? 0);
        answer.destroy();
      },
    );
    call.on("error", (error) => {
      reject(error.name === "AbortError" && error.cause instanceof Error ? error.cause : error);
    });
  });
}
