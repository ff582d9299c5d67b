/** Takes addresses out of a native error's text: whom a sandbox talks to is no business of who reads it. Pure. */

const ADDRESS =
  /\b[a-z][a-z+.-]*:\/\/[^\s"')]+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?|\[[0-9a-f]*:[0-9a-f:]+\](:\d+)?|\blocalhost:\d+/gi;

export function withoutAddresses(text: string): string {
  return text.replace(ADDRESS, "[address]");
}
