/** The part of pi's extension API (1.6.0, docs/extensions.md) that our extension uses, as types of its own: pi's packages are no dependency of ours. */

interface DialogOptions {
  signal?: AbortSignal | undefined;
}

interface SessionEntry {
  id: string;
  parentId: string | null;
}

export interface PiContext {
  cwd: string;
  signal: AbortSignal | undefined;
  sessionManager: {
    /** From the root, or from where the path breaks off, to the leaf. */
    getBranch(): SessionEntry[];
  };
  ui: {
    /** Undefined when it is cancelled, or can't be shown. */
    select(title: string, options: string[], more: DialogOptions): Promise<string | undefined>;
    input(title: string, placeholder: string | undefined, more: DialogOptions): Promise<string | undefined>;
    setStatus(key: string, text: string | undefined): void;
  };
}

export interface PiToolCall {
  toolName: string;
  toolCallId: string;
  input: Record<string, unknown>;
}

export interface PiTool {
  name: string;
  label: string;
  description: string;
  promptSnippet: string;
  /** A JSON schema; the arguments are checked against it before `execute`. */
  parameters: unknown;
  execute(
    call: string,
    params: unknown,
    signal: AbortSignal | undefined,
    onUpdate: unknown,
    context: PiContext,
  ): Promise<{ content: Array<{ type: "text"; text: string }>; details: unknown }>;
}

export interface PiApi {
  on(event: "session_start", handler: (event: unknown, context: PiContext) => Promise<void>): void;
  /** What it throws blocks the call. */
  on(
    event: "tool_call",
    handler: (event: PiToolCall, context: PiContext) => Promise<{ block: true; reason: string } | undefined>,
  ): void;
  registerTool(tool: PiTool): void;
  registerProvider(name: string, provider: Record<string, unknown>): void;
}
