import { expect, test } from "vitest";
import { createActivity } from "../../../../bridge/drivers/claude/activity.ts";
import { known } from "./captured.ts";

const init = known({ type: "system", subtype: "init" });
const result = known({ type: "result", subtype: "success", is_error: false });
const tasks = (...ids: string[]) =>
  known({ type: "system", subtype: "background_tasks_changed", tasks: ids.map((task_id) => ({ task_id })) });

test("a turn that is not ours begins and ends by itself, and until then nothing is quiet", () => {
  const activity = createActivity();
  expect(activity.quietInMs(0)).toBe(0);
  expect(activity.take(init, false, 0)).toBe("started");
  expect(activity.take(init, false, 1)).toBeNull();
  expect(activity.quietInMs(1)).toBeNull();
  expect(activity.take(result, false, 2)).toBe("ended");
  expect(activity.quietInMs(2)).toBe(0);
});

test("our own turns are none of it", () => {
  const activity = createActivity();
  expect(activity.take(init, true, 0)).toBeNull();
  expect(activity.take(result, true, 1)).toBeNull();
  expect(activity.quietInMs(1)).toBe(0);
});

test("a turn of its own that took our message in ends with ours", () => {
  const activity = createActivity();
  activity.take(init, false, 0);
  expect(activity.take(result, true, 1)).toBe("ended");
});

test("behind the end of a background task a turn is due for a while, and behind its beginning none", () => {
  const activity = createActivity();
  activity.take(tasks("a"), true, 0);
  expect(activity.tasks()).toEqual(["a"]);
  expect(activity.quietInMs(0)).toBe(0);
  activity.take(tasks(), true, 1000);
  expect(activity.tasks()).toEqual([]);
  expect(activity.quietInMs(1000)).toBeGreaterThan(100);
  expect(activity.quietInMs(2000)).toBe(0);
});
