// The driver through a TCP relay: faults of the connection that the server itself knows nothing of.
import { expect, test } from "vitest";
import type { DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Script } from "../../../stand-ins/serve/script.ts";
import { openRelay } from "./relay.ts";
import { createRig, type Rig, steps, submit, textOf } from "./rig.ts";

/** A rig whose stand-in prints the relay's port in place of its own. */
async function relayed(script: Script, limits: Partial<DriverLimits>, byByte = false) {
  let rig: Rig | null = null;
  const relay = await openRelay(async () => (await rig?.port()) ?? 0, byByte);
  const noise = `opencode server listening on http://127.0.0.1:${relay.port}\n`;
  rig = await createRig({ ...script, ready: { noise, times: 0 } }, limits);
  return { rig, relay, resident: await rig.launch() };
}

test("P1: a connection that is dead on both sides without a close: lost within the limit, and no prompt goes out blind", async () => {
  const { rig, relay, resident } = await relayed(
    { turns: [steps({ open: "abc" }), steps({ text: "later" })] },
    { silenceMs: 400, requestMs: 500, abortMs: 400 },
  );
  await submit(resident);
  await rig.seen("text");
  relay.freeze();
  const lost = await rig.seen("stream_lost");
  expect(lost.reason).toMatch(/no byte for/);
  expect(rig.of("stream_lost")).toHaveLength(1);
  // The one abort can't get through either: it has no effect in time, and says so.
  expect(await resident.abort()).toBe(false);
  resident.endTurn();
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(await rig.calls("prompt_async")).toHaveLength(1);
  expect(rig.of("native_end")).toEqual([]);
  expect(textOf(rig)).toBe("abc");
  expect(await resident.stop()).toEqual([]);
});

test("P25: every answer and every event a byte at a time, both ways: the turn is the same", async () => {
  const { rig, resident } = await relayed({ turns: [steps({ text: "Größe € 🦑" })] }, {}, true);
  await submit(resident, "é € 🦑");
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(textOf(rig)).toBe("Größe € 🦑");
  expect((await rig.calls("prompt_async"))[0]?.body).toMatchObject({ parts: [{ text: "é € 🦑" }] });
  await resident.stop();
});
