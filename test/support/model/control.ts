// The control endpoint under /_control/ for callers in another process (the tour, tests of `main.ts`): the
// same verbs as the server object has. Plays nothing itself.
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { BodyFault, parseJson, readBody } from "./body.ts";
import type { Records } from "./records.ts";
import type { Scripts } from "./scripts.ts";

export const CONTROL_PREFIX = "/_control/";

const scriptBody = z.strictObject({
  /** The last user text contains this; or, as `{"pattern","flags"}`, fits this. */
  match: z.union([z.string(), z.strictObject({ pattern: z.string(), flags: z.string().default("") })]),
  steps: z.unknown(),
  times: z.number().int().min(1).optional(),
  purpose: z.enum(["title", "summary"]).optional(),
});
const stepsBody = z.strictObject({ steps: z.unknown() });

/**
 * GET requests[?main] -> {requests, dropped}; POST script {match, steps, times?, purpose?};
 * POST queue {steps}; POST default {steps}; POST reset. Each POST -> {ok: true}.
 */
export async function control(
  message: IncomingMessage,
  response: ServerResponse,
  { records, scripts }: { records: Records; scripts: Scripts },
): Promise<void> {
  const url = new URL(message.url ?? "/", "http://localhost");
  const verb = `${message.method} ${url.pathname.slice(CONTROL_PREFIX.length)}`;
  try {
    if (verb === "GET requests") {
      const all = records.list();
      const requests = url.searchParams.has("main") ? all.filter(({ purpose }) => purpose === "main") : all;
      send(response, 200, { requests, dropped: records.dropped });
      return;
    }
    const text = await readBody(message);
    switch (verb) {
      case "POST script": {
        const { match, steps, times, purpose } = parse(scriptBody, text);
        scripts.register(typeof match === "string" ? match : new RegExp(match.pattern, match.flags), steps, {
          ...(times === undefined ? {} : { times }),
          ...(purpose === undefined ? {} : { purpose }),
        });
        break;
      }
      case "POST queue":
        scripts.enqueue(parse(stepsBody, text).steps);
        break;
      case "POST default":
        scripts.setDefault(parse(stepsBody, text).steps);
        break;
      case "POST reset":
        scripts.reset();
        records.reset();
        break;
      default:
        send(response, 404, { error: `no control verb ${verb}` });
        return;
    }
    send(response, 200, { ok: true });
  } catch (error) {
    if (error instanceof BodyFault) send(response, error.status, { error: error.message });
    else if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) {
      send(response, 400, { error: error.message });
    } else throw error;
  }
}

export function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

function parse<T>(schema: z.ZodType<T>, text: string): T {
  const parsed = schema.safeParse(parseJson(text));
  if (!parsed.success) throw new TypeError(z.prettifyError(parsed.error));
  return parsed.data;
}
