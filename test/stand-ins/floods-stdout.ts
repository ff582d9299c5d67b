// Writes to stdout as fast as it is read, for ever.
const line = `${"x".repeat(65_535)}\n`;
function flood(): void {
  while (process.stdout.write(line));
  process.stdout.once("drain", flood);
}
flood();
