// One good store, and for each thing that can be wrong with its records the line that says so.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { NO_CALLS } from "../../../controller/relay/call-sums.ts";
import { checkStore } from "../../../controller/store/check.ts";
import { recordProblems } from "../../../controller/store/check-records.ts";
import { MIGRATIONS, migrate } from "../../../controller/store/migrations.ts";
import { CALL } from "../relay/calls.ts";
import { LAYOUTS, storeOfLayout } from "./layouts.ts";

/** SQL that bends the good store -> the problems that are found. */
const BENT: Readonly<Record<string, RegExp[]>> = {
  "UPDATE meta SET value = 'many' WHERE name = 'fence'": [/^meta: the fence is no number$/],
  "DELETE FROM meta WHERE name = 'id'": [/^meta: the store has no id$/],
  "UPDATE sandboxes SET wanted = 'paused' WHERE id = 'box-3'": [/^sandbox: box-3 can't be read \(wanted\)$/],
  "UPDATE sandboxes SET generation = 2 WHERE id = 'box-1'": [
    /^sandbox: box-1 is bound to a container of box-1, generation 1$/,
  ],
  "UPDATE sandboxes SET applied = -1 WHERE id = 'box-3'": [/^sandbox: box-3 has applied -1 events$/],
  "UPDATE turns SET state = 'ended' WHERE id = 'turn-a1'": [/^turn: turn-a1 can't be read \(state\)$/],
  "UPDATE turns SET state = 'unknown' WHERE id = 'turn-a1'": [
    /^turn: turn-a1 is unknown, its settlement says settled$/,
  ],
  "UPDATE turns SET settlement = NULL WHERE id = 'turn-a1'": [/^turn: turn-a1 is settled and has no end$/],
  "UPDATE turns SET ended_at = 5 WHERE id = 'turn-d1'": [/^turn: turn-d1 is delivered and has an end$/],
  "UPDATE turns SET settlement = replace(settlement, 'completed', 'complete') WHERE id = 'turn-a1'": [
    /^turn: turn-a1 can't be read \(settlement.outcome\)$/,
  ],
  "UPDATE members SET submissions = 2 WHERE id = 'm-1'": [
    /^member: m-1 has given 2 numbers, its last turn has 3$/,
  ],
  "UPDATE members SET settled_turns = 4 WHERE id = 'm-2'": [
    /^member: m-2 has settled 4 turns, its locator says 2$/,
  ],
  "UPDATE members SET locator = replace(locator, 'msg_3', 'msg_4') WHERE id = 'm-1'": [
    /^member: m-1 has a locator that is not the last of its history$/,
  ],
  "UPDATE members SET locator = '{' WHERE id = 'm-3'": [/^member: malformed JSON$/],
  "UPDATE members SET options = '{}' WHERE id = 'm-3'": [/^member: m-3 can't be read \(options.model\)$/],
  "UPDATE members SET cli = 'kilo' WHERE id = 'm-1'": [
    /^member: m-1 is a kilo of box-1, its locator a opencode of box-1$/,
  ],
  "UPDATE native_ids SET member = 'm-2' WHERE native_id = 'ses_a'": [
    /^member: m-1 does not own the native id of its locator$/,
  ],
  [`INSERT INTO turns (id, member, number, state, text_sha256, text_bytes, submitted_at)
    VALUES ('turn-d2', 'm-4', 2, 'admitted', 'ab', 2, 1); UPDATE members SET submissions = 2 WHERE id = 'm-4'`]:
    [/^member: m-4 has 2 open turns$/],
  "UPDATE locator_history SET settled_turns = 9 WHERE member = 'm-1' AND settled_turns = 1": [
    /^member: m-1 has a locator that is not the last of its history$/,
    /^locator history: m-1, turn 9: its locator says 1$/,
  ],
  "UPDATE locator_history SET locator = 'no' WHERE member = 'm-1' AND settled_turns = 1": [
    /^locator history: m-1, turn 1 can't be read/,
  ],
  "UPDATE turn_events SET event = '{}' WHERE turn = 'turn-a1' AND seq = 2": [
    /^turn event: turn-a1, event 2 can't be read/,
  ],
  "UPDATE turn_events SET turn = 'turn-z9' WHERE turn = 'turn-a1' AND seq = 2": [
    /^turn event: turn-z9, event 2 is of member m-1$/,
  ],
  "INSERT INTO member_events VALUES (7, 'm-1', 1, '{}')": [/^member event: m-1, event 7 can't be read/],
  "INSERT INTO member_events VALUES (8, 'm-1', 1, json_object('type', 'turn.delivered', 'turn', 't', 'member', 'm-1'))":
    [/^member event: m-1, event 8 is turn.delivered of member m-1$/],
  "INSERT INTO inspections VALUES ('turn-a1', 1, 'seen')": [
    /^inspection: turn-a1 has a note and is settled$/,
  ],
  "INSERT INTO launch_revisions VALUES ('m-1', 'abc', x'00', 1)": [
    /^launch configuration: m-1, abc… is not what was written$/,
  ],
  "UPDATE turns SET launch = 'abc' WHERE id = 'turn-a1'": [
    /^launch of a turn: turn turn-a1 names none of its member's$/,
  ],
  "INSERT INTO forks SELECT 'm-1', 'k', 'm-2', 'ready', locator, 0, NULL, NULL, 1, 1 FROM members WHERE id = 'm-2'":
    [/^fork: m-1 is ready without a session$/],
  "INSERT INTO forks SELECT 'm-1', 'k', 'm-2', 'prepared', locator, 1, NULL, NULL, 1, 1 FROM members WHERE id = 'm-2'":
    [/^fork: m-1 is prepared, and its locator says otherwise$/],
  "INSERT INTO forks SELECT 'm-3', 'k', 'm-2', 'failed', locator, 0, NULL, NULL, 1, 1 FROM members WHERE id = 'm-2'":
    [
      /^fork: m-3 and its parent m-2 are not of one sandbox$/,
      /^fork: m-3 is failed, and its locator says otherwise$/,
      /^fork: m-3 is failed, and its error says otherwise$/,
    ],
  "INSERT INTO forks SELECT 'm-1', 'k', 'm-2', 'made', locator, 0, NULL, NULL, 1, 1 FROM members WHERE id = 'm-2'":
    [/^fork: m-1 can't be read \(state\)$/],
  "INSERT INTO model_calls VALUES (1, 'c-1', 'box-1', 'm-1', NULL, '{}')": [
    /^model call: c-1 can't be read/,
    /^sums of calls: box-1, m-1 can't be read/,
  ],
  [`INSERT INTO model_calls VALUES (1, 'c-1', 'box-1', 'm-2', NULL, '${JSON.stringify({ ...CALL, id: "c-1" })}');
    INSERT INTO call_sums VALUES ('box-1', 'm-2', '', '${JSON.stringify(NO_CALLS)}')`]: [
    /^model call: c-1 is kept as another's$/,
    /^sums of calls: box-1, m-2 counts 0 calls, 1 are kept$/,
  ],
  "INSERT INTO request_chains VALUES ('k', 'm-1', 1, 1, '{}', NULL, NULL)": [
    /^chain of requests: k can't be read/,
  ],
  "INSERT INTO budgets VALUES ('m-1', 5, -1)": [/^budget: m-1 has used -1 of 5$/],
  "INSERT INTO reservations VALUES ('c-1', 'm-1', 4, 5)": [/^reservation: c-1 holds 4 for an input of 5$/],
  "INSERT INTO model_callers VALUES ('m-1', 1, 2)": [
    /^process that may call a model: m-1, generation 1, ended 2$/,
  ],
};

test("a good store has no problem", () => {
  expect(checkStore(join(storeOfLayout(LAYOUTS.length), "holdfast.db")).problems).toEqual([]);
});

for (const [sql, problems] of Object.entries(BENT)) {
  test(`found: ${sql}`, () => {
    const file = join(storeOfLayout(LAYOUTS.length), "holdfast.db");
    const database = new DatabaseSync(file);
    database.exec(sql);
    database.close();
    expect(checkStore(file).problems).toEqual(problems.map((problem) => expect.stringMatching(problem)));
  });
}

test("a fork that is not made yet counts its parent's turns, and is no problem", () => {
  const file = join(storeOfLayout(LAYOUTS.length), "holdfast.db");
  const database = new DatabaseSync(file);
  database.exec(`
    INSERT INTO members (id, sandbox, cli, options, submissions, settled_turns, created_at)
      SELECT 'm-fork', sandbox, cli, options, 0, settled_turns, 1 FROM members WHERE id = 'm-1';
    INSERT INTO forks SELECT 'm-fork', 'k', 'm-1', 'prepared', locator, 0, NULL, NULL, 1, 1 FROM members WHERE id = 'm-1'`);
  expect(checkStore(file).problems).toEqual([]);
  database.exec("UPDATE members SET settled_turns = 9 WHERE id = 'm-fork'");
  database.close();
  expect(checkStore(file).problems).toEqual(["member: m-fork has settled 9 turns, its locator says 3"]);
});

test("numbers above the last turn's are no problem: a sandbox has taken them, and this store is older than it", () => {
  const file = join(storeOfLayout(LAYOUTS.length), "holdfast.db");
  const database = new DatabaseSync(file);
  database.exec("UPDATE members SET submissions = 9 WHERE id = 'm-1'");
  database.close();
  expect(checkStore(file).problems).toEqual([]);
});

test("a member's launch configurations beyond what is kept are found", () => {
  const database = new DatabaseSync(":memory:");
  migrate(database, MIGRATIONS);
  database.exec(
    "PRAGMA foreign_keys = OFF; INSERT INTO launch_revisions VALUES ('m-1', 'abc', zeroblob(1048577), 1)",
  );
  const lines = recordProblems(database)
    .filter(({ what }) => what === "launch configurations")
    .flatMap(({ look }) => [...look()]);
  database.close();
  expect(lines).toEqual(["m-1 has 1 with 1048577 bytes"]);
});
