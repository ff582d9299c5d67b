// Texts with a slash, and what Claude Code makes of them: the host's rule is tested against them, and they against the
// real CLI (test/conformance/user-text.test.ts).

/** Both pinned versions know them: one that only prints, one that another text is put in the place of. */
export const KNOWN_COMMANDS = ["/cost x", "/init"] as const;

/** 2.1.220 swallows them without a model call, 2.1.332 passes them on. The host refuses them for both. */
export const UNKNOWN_COMMANDS = [
  "/foo",
  "/FOO",
  "/a:b",
  "/a-b",
  "/a_b",
  "/mcp__x__y",
  "/1",
  "/1 x",
  "/-",
  "/:",
  "/_",
  "/--none",
  "/foo\n",
  "/foo\nbar",
  "/foo\r\nx",
  "/foo\tbar",
  "/foo\u000bx",
  "/foo\fx",
  "/foo\u00a0bar",
  "/foo\u2028x",
  "/foo\u3000x",
  "/foo\ufeff x",
] as const;

/** Both versions pass them on byte for byte. */
export const NO_COMMANDS = [
  "hello",
  "/etc/hosts looks wrong",
  "/",
  "/ x",
  "//",
  "//x y",
  " /foo",
  "\n/foo",
  "\t/foo",
  "\u00a0/foo",
  "\ufeff/foo",
  "/a.b",
  "/é",
  "/foo, bar",
  "/foo! x",
  "/foo\u0085x",
  "/foo\u200bx",
  "/foo\u001fx",
  "!ls",
  "# x",
  "@missing",
  "what does /foo do?",
] as const;
