// An extension of somebody else's for the real pi (`-e`) that waits for an answer while pi starts: pi reads none by then.
interface Api {
  on(
    event: "session_start",
    handler: (
      event: unknown,
      context: { ui: { confirm(title: string, text: string): Promise<boolean> } },
    ) => unknown,
  ): void;
}

/** Pi loads an extension by its default export. */
// biome-ignore lint/style/noDefaultExport: see above
export default function waiting(pi: Api): void {
  pi.on("session_start", async (_event, { ui }) => {
    await ui.confirm("Already?", "At the start.");
  });
}
