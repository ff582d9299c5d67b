// Says that it is ready, and stays. SIGTERM ends it.
process.stdout.write("ready\n");
setInterval(() => undefined, 60_000);
