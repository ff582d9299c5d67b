// The store's suites once more, on a PostgreSQL server: each test in a schema of its own.
import { afterAll } from "vitest";
import { startPostgres } from "../../../support/postgres.ts";
import { usePlaces } from "../rig.ts";

const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);

let count = 0;
usePlaces(() => {
  count += 1;
  const schema = `t_${count}`;
  return {
    place: { url: server.url(), schema },
    look: (sql) => server.look(sql, [], undefined, schema),
  };
});

await import("../store.test.ts");
await import("../sql-store.test.ts");
await import("../budgets.test.ts");
await import("../forks.test.ts");
await import("../inspections.test.ts");
await import("../launch-revisions.test.ts");
await import("../members.test.ts");
await import("../model-callers.test.ts");
await import("../model-calls.test.ts");
await import("../residents.test.ts");
await import("../unrequested.test.ts");
