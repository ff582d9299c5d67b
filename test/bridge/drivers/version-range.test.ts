import { expect, test } from "vitest";
import { holdsFor } from "../../../bridge/drivers/version-range.ts";
import { rowsOf } from "../../support/table.ts";

/** `-` is no limit. */
const TABLE = rowsOf(`
  from     below    version          holds
  -        -        1.2.3            yes
  -        2.1.269  2.1.268          yes
  -        2.1.269  2.1.269          no
  -        2.1.269  2.1.270          no
  -        2.1.269  2.1.97           yes
  -        2.1.269  2.0.999          yes
  -        2.1.269  10.0.0           no
  -        2.1.269  2.1              yes
  -        1.6.1    1.6              yes
  -        2.1.269  2.1.268.9        yes
  -        2.1.269  2.1.269.0        no
  1.6.0    -        1.6.0            yes
  1.6.0    -        1.6              yes
  1.6.0    -        1.5.99           no
  1.6.0    -        1.10.0           yes
  1.6.0    -        0.74.2           no
  0.80.0   1.6.0    0.79.9           no
  0.80.0   1.6.0    0.80.0           yes
  0.80.0   1.6.0    1.5.9            yes
  0.80.0   1.6.0    1.6.0            no
  1.0.0    1.0.0    1.0.0            no
  -        -        2.1.268-beta.1   no
  -        -        v2.1.268         no
  -        -        2.1.             no
  -        -        .1               no
  -        2.0.0    latest           no
`);

const limit = (cell = "") => (cell === "-" ? null : cell);

test.each(TABLE.slice(1))("from %s and below %s: %s? %s", (from, below, version = "", holds) => {
  const range = { from: limit(from), below: limit(below), reason: "measured" };
  expect(holdsFor(range, version)).toBe(holds === "yes");
});

test("an empty version, and one with a line end, lie in none", () => {
  const all = { from: null, below: null, reason: "measured" };
  for (const version of ["", "1.2.3\n", " 1.2.3", "1.2.3 "]) expect(holdsFor(all, version)).toBe(false);
});
