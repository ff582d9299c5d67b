/** Which model a server has, for a preflight that names none: asked of its list of models, which costs nothing. */
import type { IncomingMessage } from "node:http";
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import { parsedJson } from "../parsed-json.ts";
import { keyHeader } from "../relay/key-header.ts";
import { dial } from "./dial.ts";
import { versionHeader } from "./request-body.ts";

const LIST_MS = 10_000;
/** Of a long list so much is read; it names several models then, whatever comes behind. */
const LIST_BYTES = 1024 * 1024;
const NAMED_MODELS = 8;
const ModelList = z.looseObject({ data: z.array(z.looseObject({ id: z.string() })) });

/** The one model that is served. Throws USAGE when it is none or several, MODEL_UNREACHABLE when the list can't be had. */
export async function onlyModel(options: {
  baseUrl: string;
  protocol: ModelProtocol;
  key: string | null;
  proxy: URL | null;
  signal: AbortSignal;
}): Promise<string> {
  const { baseUrl, protocol, key, proxy } = options;
  const url = new URL(`${baseUrl.replace(/\/$/, "")}/models`);
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(LIST_MS)]);
  const headers = { ...keyHeader(protocol, key), ...versionHeader(protocol) };
  let text = "";
  try {
    const request = await dial({ url, proxy, method: "GET", headers, body: "", signal });
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve).on("error", reject).end();
    });
    if (answer.statusCode !== 200) {
      answer.destroy();
      throw new Error(`status ${answer.statusCode ?? 0}`);
    }
    for await (const piece of answer.setEncoding("utf8") as AsyncIterable<string>) {
      text += piece;
      if (text.length > LIST_BYTES) break;
    }
  } catch (cause) {
    if (options.signal.aborted)
      throw new HoldfastError("STOPPED", "it was interrupted before a call was made");
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = signal.aborted ? `nothing within ${LIST_MS / 1000} s` : (code ?? message);
    throw new HoldfastError(
      "MODEL_UNREACHABLE",
      `no list of models at ${url.href} (${why}): name one with --model`,
    );
  }
  const parsed = ModelList.safeParse(parsedJson(text));
  const ids = parsed.success ? parsed.data.data.map(({ id }) => id) : [];
  const [only] = ids;
  if (only !== undefined && ids.length === 1) return only;
  const names = ids.slice(0, NAMED_MODELS).join(", ") || "none that can be read";
  throw new HoldfastError(
    "USAGE",
    `--model is needed: ${url.href} lists ${names}${ids.length > NAMED_MODELS ? ", …" : ""}`,
  );
}
