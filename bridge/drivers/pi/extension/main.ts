/**
 * Our extension inside pi: it gives pi a provider, permissions and a question to its user, and says at each start that
 * it is there. Pi has no permissions of its own; its `tool_call` hook asks the bridge for each tool that must ask. It
 * decides nothing, registers no command, and touches no text.
 *
 * It fails closed: a call whose dialog can't be shown, is cancelled or throws does not run, and a pi in which it can't
 * be loaded ends at once (exit code 1).
 */
import { readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { actsOn } from "./acts-on.ts";
import type { PiApi, PiContext } from "./pi-api.ts";
import { QUESTION } from "./question-tool.ts";
import {
  ALLOW,
  type Decided,
  type Hello,
  type PermissionTitle,
  PROVIDER,
  REJECT,
  SETUP_VARIABLE,
  type Setup,
  STATUS_KEY,
} from "./words.ts";

/** Pi loads an extension by its default export. */
// biome-ignore lint/style/noDefaultExport: see above
export default function extension(pi: PiApi): void {
  const setup = JSON.parse(process.env[SETUP_VARIABLE] ?? "null") as Setup | null;
  if (setup === null) throw new Error(`${SETUP_VARIABLE} is not set`);
  const { model, ask } = setup;

  pi.registerProvider(PROVIDER, {
    name: "Holdfast",
    baseUrl: setup.baseUrl,
    apiKey: setup.key,
    api: "openai-completions",
    models: [
      {
        type: "chat",
        id: model.name,
        name: model.name,
        reasoning: false,
        input: ["text"],
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
        contextWindow: model.contextTokens,
        maxTokens: model.outputTokens,
      },
    ],
  });

  if (setup.offersQuestion) pi.registerTool(QUESTION);

  const say = ({ ui }: PiContext, message: Hello | Decided) =>
    ui.setStatus(STATUS_KEY, JSON.stringify(message));

  pi.on("session_start", async (_event, context) => {
    const branch = context.sessionManager.getBranch();
    const isWhole = (branch[0]?.parentId ?? null) === null;
    const { cwd } = context;
    say(context, { say: "hello", version: ownVersion(), cwd, entries: branch.length, isWhole });
  });

  pi.on("tool_call", async ({ toolName, toolCallId, input }, context) => {
    if (ask !== "all" && !ask.includes(toolName)) return undefined;
    // Whether it may be asked at all was decided when it was offered.
    if (toolName === QUESTION.name) return undefined;
    const title: PermissionTitle = {
      say: "permission",
      call: toolCallId,
      tool: toolName,
      patterns: actsOn(input, context.cwd, homedir()),
    };
    const { signal } = context;
    const isAllowed = (await context.ui.select(JSON.stringify(title), [ALLOW, REJECT], { signal })) === ALLOW;
    say(context, { say: "decided", call: toolCallId, isAllowed });
    return isAllowed ? undefined : { block: true, reason: "The user's permissions do not allow this call." };
  });
}

/** Of the program that runs here: it is two folders above its entry, `dist/bundle/cli.js`. */
function ownVersion(): string {
  const entry = realpathSync(process.argv[1] ?? "");
  const { version } = JSON.parse(readFileSync(join(dirname(entry), "../../package.json"), "utf8")) as {
    version: string;
  };
  return version;
}
