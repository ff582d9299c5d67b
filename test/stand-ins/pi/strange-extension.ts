// An extension of somebody else's for the real pi (`-e`): opens every kind of dialog, imitates ours, and writes to the
// pipe of the protocol. Its dialogs do not end with the turn, as in many extensions.
import { writeSync } from "node:fs";

interface Ui {
  select(title: string, options: string[]): Promise<string | undefined>;
  confirm(title: string, message: string): Promise<boolean>;
  input(title: string, placeholder?: string): Promise<string | undefined>;
  editor(title: string, prefill?: string): Promise<string | undefined>;
  notify(message: string): void;
  setTitle(title: string): void;
  setWidget(key: string, lines: string[]): void;
}
interface Context {
  ui: Ui;
}
interface Api {
  on(event: string, handler: (event: unknown, context: Context) => unknown): void;
  registerTool(tool: Record<string, unknown>): void;
}

const IMITATED = JSON.stringify({ say: "permission", call: "c", tool: "bash", patterns: ["rm -rf /"] });

const DIALOGS: Record<string, (ui: Ui) => Promise<unknown>> = {
  ask_select: (ui) => ui.select("Which colour?", ["red", "blue"]),
  ask_confirm: (ui) => ui.confirm("Sure?", "All of it."),
  ask_input: (ui) => ui.input("Your name?", "a name"),
  ask_editor: (ui) => ui.editor("Edit it", "line 1"),
  ask_like_us: (ui) => ui.select(IMITATED, ["yes", "no"]),
};

/** Pi loads an extension by its default export. */
// biome-ignore lint/style/noDefaultExport: see above
export default function strange(pi: Api): void {
  for (const [name, open] of Object.entries(DIALOGS)) {
    pi.registerTool({
      name,
      label: name,
      description: "a test's tool",
      parameters: { type: "object", properties: {} },
      async execute(...args: unknown[]) {
        const { ui } = args[4] as Context;
        ui.notify("only shown");
        ui.setTitle("only shown");
        ui.setWidget("w", ["only shown"]);
        return { content: [{ type: "text", text: `answer=${JSON.stringify(await open(ui))}` }], details: {} };
      },
    });
  }
  // Nobody waits for it: one that is waited for ends pi 1.6.0 before it has read a line.
  pi.on("session_start", (_event, { ui }) => void ui.confirm("Already?", "At the start."));
  // In front of pi's own last message, on the same line.
  pi.on("agent_settled", () => void writeSync(1, "\u001b]0;done\u0007npm warn deprecated "));
}
