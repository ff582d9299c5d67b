/** The members of a soak: two a sandbox, CLIs by turns; a sandbox that came to its end is replaced by another one. */

import { ALLOW_ALL } from "../../protocol/permission-policy.ts";
import type { DriverSubject } from "../conformance/suite/subject.ts";
import { type Place, type PlaceProcess, placeOf } from "../fault/place.ts";
import { MEMBER, type TestHost } from "../support/host.ts";
import { subjectOf } from "../support/subjects.ts";
import type { SoakOptions } from "./options.ts";

const MEMBERS_PER_SANDBOX = 2;

export interface Mate {
  member: string;
  sandbox: string;
  subject: DriverSubject;
  word: string;
  /** The conversation has the word. */
  wasTold: boolean;
  /** What the last turn left: the context that the next one must have is decided from it. */
  last: { pid: number | null; keepsProcess: boolean; outcome: string } | null;
}

export interface Crew {
  mates(): readonly Mate[];
  /** Those of the same sandbox, the given one first. */
  around(mate: Mate): Mate[];
  place(mate: Mate): Place;
  cli(mate: Mate): PlaceProcess | null;
  /** Removes the sandbox and makes another one in its place. */
  replace(sandbox: string): Promise<void>;
}

export function createCrew(t: TestHost, options: SoakOptions, engineSocketPath: string): Crew {
  let mates: Mate[] = [];
  let made = 0;

  function makeSandbox(size: number): void {
    const sandbox = t.host.createSandbox({ kind: "docker" }).id;
    for (let at = 0; at < size; at += 1) {
      const subject = subjectOf(options.clis[made % options.clis.length] ?? "");
      made += 1;
      const asks = { tool: subject.tools.shell("").name, pattern: "echo asked*", action: "ask" as const };
      const permissions = { ...ALLOW_ALL, rules: [asks] };
      const { cli } = subject.manifest;
      const member = t.host.createMember({ sandbox, cli, ...MEMBER, ...subject.member, permissions }).id;
      mates.push({ member, sandbox, subject, word: `shell${made}`, wasTold: false, last: null });
    }
  }

  for (let left = options.members; left > 0; left -= MEMBERS_PER_SANDBOX)
    makeSandbox(Math.min(left, MEMBERS_PER_SANDBOX));

  const place = ({ sandbox }: Mate) =>
    // In a path of the engine's: where no container was made yet, none is found.
    placeOf(engineSocketPath, t.host.store.sandbox(sandbox)?.container?.containerId ?? "no-container-yet");

  return {
    mates: () => mates,
    around: (mate) => [mate, ...mates.filter((other) => other !== mate && other.sandbox === mate.sandbox)],
    place,
    cli(mate) {
      const uid = uidOf(place(mate), mate.member);
      return place(mate).find((each) => each.uid === uid && each.command.includes(mate.subject.processText));
    },
    async replace(sandbox) {
      const size = mates.filter((mate) => mate.sandbox === sandbox).length;
      mates = mates.filter((mate) => mate.sandbox !== sandbox);
      await t.host.removeSandbox(sandbox);
      makeSandbox(size);
    },
  };
}

/** Whose slot it is, as its folder says. */
function uidOf(place: Place, member: string): number | null {
  return place.ownerOf(`/home/slots/${member}`);
}
