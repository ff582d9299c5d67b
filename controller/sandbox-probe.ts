/**
 * The reverse probe of one sandbox: the host measures it, and asks the bridge that runs in it about itself, over its own link and
 * with a fresh challenge. Only looks: nothing is started, stopped, recorded or trusted for it. What the answers are worth is
 * decided where a turn's readiness is decided, by `attestation.ts`.
 */
import type { HelperReport } from "../protocol/attestation.ts";
import { asHoldfastError } from "../protocol/errors.ts";
import { attestAnswer, attestMeasured, attestSandbox } from "./attestation.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import { sandboxToken } from "./sandboxes/directory.ts";
import type { SandboxDriver, SandboxSpec, SandboxState } from "./sandboxes/sandbox.ts";
import type { SandboxKind, SandboxRow } from "./store/records.ts";

/** For one challenge: a bridge that works answers within milliseconds. */
const CHALLENGE_MS = 5000;

/** What a running bridge said about itself. */
export interface BridgeAnswer {
  /** Every reason for which it is not this host's helper. */
  reasons: string[];
  /** Null when it could not be asked, and then the reasons say why. */
  report: Pick<HelperReport, "pin" | "helperSha256" | "epoch"> | null;
  /** Age of its heartbeat: since the last frame on its link. Null without a link. */
  heartbeatMs: number | null;
}

export interface SandboxProbe extends BridgeAnswer {
  sandbox: string;
  kind: SandboxKind;
  place: SandboxState | "unknown";
  /** Why its bridge was not asked; "" when it was, or should have been. */
  notAsked: string;
}

type Link = Pick<SandboxLink, "request" | "silentMs">;

/** @param options.link throws why there is none; null when it is another controller's */
export async function probeSandbox(options: {
  row: SandboxRow;
  spec: SandboxSpec;
  driver: Pick<SandboxDriver, "state" | "pinned" | "measure" | "hasImage">;
  link: (() => Promise<Link>) | null;
}): Promise<SandboxProbe> {
  const { row, spec, driver } = options;
  const probe: SandboxProbe = {
    sandbox: row.id,
    kind: row.kind,
    place: "unknown",
    reasons: [],
    report: null,
    heartbeatMs: null,
    notAsked: "",
  };
  try {
    if (row.container === null)
      return { ...probe, place: "stopped", notAsked: "nothing was made for it yet" };
    const { containerId } = row.container;
    const pinned = await driver.pinned();
    probe.place = await driver.state(spec, containerId);
    if (probe.place === "missing") return { ...probe, reasons: ["what was made for it is gone"] };
    const measured = await driver.measure(spec, containerId);
    const { hasImage } = driver;
    const byMeasure = attestMeasured({ pinned, measured, hasImage });
    if (probe.place === "stopped") return { ...probe, reasons: byMeasure, notAsked: "it does not run" };
    if (options.link === null) return { ...probe, reasons: byMeasure, notAsked: NOT_OURS };
    const link = await options.link().catch((error: unknown) => {
      probe.reasons = [...byMeasure, `its bridge can't be asked: ${asHoldfastError(error).message}`];
      return null;
    });
    if (link === null) return probe;
    const token = await sandboxToken(row);
    return {
      ...probe,
      ...(await asked(link, (challenge) => attestSandbox({ pinned, measured, hasImage, token, challenge }))),
    };
  } catch (error) {
    return {
      ...probe,
      reasons: [...probe.reasons, `it can't be looked at: ${asHoldfastError(error).message}`],
    };
  }
}

const NOT_OURS = "its link belongs to the controller that holds the store";

/** Asks over a link that is up, and measures nothing. Never throws. */
export async function askBridge(options: {
  row(): Pick<SandboxRow, "directory">;
  driver: Pick<SandboxDriver, "pinned">;
  link: Link;
}): Promise<BridgeAnswer> {
  const { link } = options;
  try {
    const pinned = await options.driver.pinned();
    const token = await sandboxToken(options.row());
    return await asked(link, (challenge) => attestAnswer({ pinned, token, challenge }));
  } catch (error) {
    return { reasons: [asHoldfastError(error).message], report: null, heartbeatMs: link.silentMs() };
  }
}

async function asked(
  link: Link,
  judge: (challenge: (nonce: string) => Promise<HelperReport>) => Promise<string[]>,
): Promise<BridgeAnswer> {
  const answers: HelperReport[] = [];
  const reasons = await judge(async (nonce) => {
    const answer = await link.request("bridge.challenge", { nonce }, CHALLENGE_MS);
    answers.push(answer);
    return answer;
  }).catch((error: unknown) => [`its bridge does not answer: ${asHoldfastError(error).message}`]);
  const [answer] = answers;
  const report =
    answer === undefined ? null : { pin: answer.pin, helperSha256: answer.helperSha256, epoch: answer.epoch };
  return { reasons, report, heartbeatMs: link.silentMs() };
}
