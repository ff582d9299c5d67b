import { expect, test } from "vitest";
import { checkHostMove, HOST_MOVES, HOST_STATES, hasLetGo } from "../../../controller/hosts/host-life.ts";

for (const from of HOST_STATES) {
  for (const to of HOST_STATES) {
    const isListed = HOST_MOVES[from].includes(to);
    test(`a host that is ${from} ${isListed ? "can" : "can't"} become ${to}`, () => {
      const move = () => checkHostMove("h-1", from, to);
      if (isListed) move();
      else
        expect(move).toThrow(
          expect.objectContaining({ code: from === "removed" ? "HOST_ENDED" : "REQUEST_INVALID" }),
        );
    });
  }
}

test("nobody drives the sandboxes of one that moved out, was terminated or was removed", () => {
  expect(HOST_STATES.filter(hasLetGo)).toEqual(["moved_out", "terminated", "removed"]);
});

test("one that was removed never comes back", () => {
  expect(HOST_MOVES.removed).toEqual([]);
});
