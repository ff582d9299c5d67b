// Takes SIGTERM, says so, and stays: only SIGKILL ends it.
process.on("SIGTERM", () => process.stdout.write("SIGTERM\n"));
process.stdout.write("ready\n");
setInterval(() => undefined, 60_000);
