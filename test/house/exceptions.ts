// The pinned exceptions to house rules. Each has a reason that a reviewer would accept; the list starts empty and
// entries that are no longer needed fail the tests.

/** Files of protocol, bridge or controller without a test file, because they hold types only: path -> reason. */
export const withoutTest: Record<string, string> = {
  "bridge/drivers/driver.ts": "the driver contract: types alone; the conformance suite is its test",
  "bridge/drivers/pi/extension/pi-api.ts":
    "the part of pi's own interface that the extension uses: types alone",
  "bridge/drivers/serve/traits.ts":
    "the shape of a CLI's traits: types alone; each CLI's own file has a test",
  "controller/relay/reading.ts":
    "what a protocol's reader is and gives: types alone; each protocol's own file has a test",
  "controller/store/postgres/messages.ts":
    "what the store's two threads say to each other: types alone; connection.ts and sync-client.ts have tests",
  "controller/host-contract.ts": "the host's calls and options: types alone; host.ts has the tests",
};
