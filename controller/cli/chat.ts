/** `holdfast chat`: a conversation in the terminal. Each message is a turn; each turn says its status and settlement. */
import { asHoldfastError, HoldfastError } from "../../protocol/errors.ts";
import { CliName } from "../../protocol/locator.ts";
import { ModelProtocol, PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import type { RelayOptions } from "../relay/routes.ts";
import { readBudget } from "./budget-option.ts";
import { type Command, MODEL_OPTIONS, MODEL_USAGE, text, type Values } from "./command.ts";
import { converse } from "./converse.ts";
import { pipedMessages, terminalMessages } from "./messages.ts";
import { checkModel } from "./model-check.ts";
import { chooseKind, memberOptions, type OpenHost, openCommandHost } from "./open.ts";
import { type Output, oneLine } from "./output.ts";
import { readModel, readRelay } from "./relay-settings.ts";

const DEFAULT_CLI: CliName = "opencode";

export const chat: Command = {
  name: "chat",
  summary:
    "Talks with an agent in a sandbox; Ctrl-C aborts a turn, Ctrl-D leaves (the conversation is kept).",
  usage: `${MODEL_USAGE} [--cli ${CliName.options.join("|")}]
       [--sandbox docker|process] [--permissions allow|ask|deny] [--budget TOKENS] [--member ID]

--cli is the agent that you talk with (the default: ${DEFAULT_CLI}), and says what the model at --base-url must speak:
${needs()}

--member goes on with a conversation that was kept; --model, --cli, --sandbox and --permissions are its own then.
--permissions allow (the default) lets the agent's tools run, each use once; ask asks you here before each use, with the
task that wants it; deny rejects each. --budget is the most tokens that its calls of the model may use, input and output
together; without it there is no limit, and 0 takes a member's away. Native questions are always asked here. Input that is no terminal: each line is a
message, answers go to stdout, everything else to stderr, and the exit code is 0 when every turn completed.`,
  options: {
    ...MODEL_OPTIONS,
    cli: { type: "string" },
    sandbox: { type: "string" },
    permissions: { type: "string" },
    budget: { type: "string" },
    member: { type: "string" },
  },
  words: { min: 0, max: 0 },
  async run({ values, environment, output }) {
    const { relay, route, model } = readSettings(values, environment.variables);
    const opened = await openCommandHost({ environment, output, relay });
    try {
      const { kept, cli, make } = await findMember({ opened, output, values, model, route });
      const own = kept === null ? route : opened.host.member(kept).options.route;
      const remark = await checkModel(relay, PROTOCOL_OF_CLI[cli], own, environment.variables);
      if (remark !== null) output.progress(remark);

      const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true && !output.isJson;
      let member = kept;
      try {
        const { failed } = await converse({
          host: opened.host,
          output,
          kept,
          member: () => {
            member ??= make();
            return member;
          },
          open: (onInterrupt) =>
            isTerminal
              ? terminalMessages({ input: process.stdin, output: process.stdout, onInterrupt })
              : pipedMessages(process.stdin),
        });
        return isTerminal || failed === 0 ? 0 : 1;
      } finally {
        if (member !== null) await leave(opened, member, output);
      }
    } finally {
      await opened.close();
    }
  },
};

/** What each protocol's endpoint below the base URL is called, and the CLIs that ask it. */
function needs(): string {
  const endpoints: Readonly<Record<ModelProtocol, string>> = {
    "chat-completions": "OpenAI Chat Completions (/chat/completions)",
    responses: "OpenAI Responses (/responses)",
    messages: "Anthropic Messages (/messages)",
  };
  return ModelProtocol.options
    .map((protocol) => {
      const clis = CliName.options.filter((cli) => PROTOCOL_OF_CLI[cli] === protocol);
      return `  ${clis.join(", ").padEnd(20)} ${endpoints[protocol]}`;
    })
    .join("\n");
}

function readSettings(
  values: Values,
  variables: NodeJS.ProcessEnv,
): { relay: RelayOptions; route: string | undefined; model: string | null } {
  const isKept = text(values, "member") !== undefined;
  const own = ["sandbox", "cli", "permissions", "route"].find((name) => text(values, name) !== undefined);
  if (isKept && own !== undefined)
    throw new HoldfastError("USAGE", `a member has its own: leave --${own} out`);
  if (!isKept || text(values, "model") !== undefined) {
    const settings = readModel(values, variables);
    if (settings !== null) return settings;
    throw new HoldfastError("USAGE", "chat needs --base-url or --routes, and --model");
  }
  const relay = readRelay(values, variables);
  if (relay === null)
    throw new HoldfastError("USAGE", "chat needs --base-url or --routes: addresses and keys are not kept");
  return { relay, route: undefined, model: null };
}

/** The member that was named, or how to make one: with the first message, so that a mere look leaves nothing. */
async function findMember(options: {
  opened: OpenHost;
  output: Output;
  values: Values;
  model: string | null;
  route: string | undefined;
}): Promise<{ kept: string | null; cli: CliName; make(): string }> {
  const { output, values, model, route } = options;
  const { host, setup } = options.opened;
  const asked = text(values, "member");
  const budget = readBudget(text(values, "budget"));
  if (asked === undefined) {
    const cli = chosen(values, "cli", CliName.options) ?? DEFAULT_CLI;
    const action = chosen(values, "permissions", ["allow", "ask", "deny"]) ?? "allow";
    const kind = await chooseKind(text(values, "sandbox"), setup, output);
    return {
      kept: null,
      cli,
      make() {
        const sandbox = host.createSandbox({ kind }).id;
        const way = route === undefined ? {} : { route };
        const { id } = host.createMember({
          sandbox,
          cli,
          ...memberOptions(cli, model ?? "", action),
          ...way,
        });
        if (budget !== undefined) host.setBudget(id, budget);
        if (output.isJson) output.json({ kind: "member", member: id, sandbox });
        return id;
      },
    };
  }
  const { sandbox, cli, options: own } = host.member(asked);
  const row = host.store.sandbox(sandbox);
  if (row === null || row.wanted === "removed")
    throw new HoldfastError("CONTEXT_LOST", `${asked} is lost: its sandbox ${sandbox} was removed`);
  if (model !== null && model !== own.model.name)
    throw new HoldfastError("USAGE", `the model of ${asked} is ${own.model.name}: leave --model out`);
  await chooseKind(row.kind, setup, output);
  if (budget !== undefined) host.setBudget(asked, budget);
  return { kept: asked, cli, make: () => asked };
}

/** An option that takes one of a few words. */
function chosen<Word extends string>(values: Values, name: string, words: readonly Word[]): Word | undefined {
  const given = text(values, name);
  const word = words.find((candidate) => candidate === given);
  if (given !== undefined && word === undefined)
    throw new HoldfastError("USAGE", `--${name} takes ${words.join(", ")}, not ${given}`);
  return word;
}

/** Stops the sandbox, so that nothing goes on running unseen, and says how to come back. */
async function leave({ host }: OpenHost, member: string, output: Output): Promise<void> {
  const { sandbox } = host.member(member);
  output.progress("stopping the sandbox", "dim");
  try {
    await host.stopSandbox(sandbox);
  } catch (error) {
    const fault = asHoldfastError(error);
    if (fault.code === "MEMBER_BUSY") output.progress("a turn goes on in it, so it runs on");
    else output.progress(`holdfast: it could not be stopped: ${oneLine(fault.message)}`);
    output.progress(`to stop it later: ${output.command(`sandbox stop ${sandbox}`)}`);
  }
  output.progress(`kept; to go on: ${output.command(`chat --member ${member} --base-url URL`)}`);
}
