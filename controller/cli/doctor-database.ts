/** What `holdfast doctor` finds at a store in a PostgreSQL database. Nothing is written, and no host taken. */
import * as z from "zod/mini";
import { asHoldfastError } from "../../protocol/errors.ts";
import { placeOf } from "../store/postgres/faults.ts";
import { isMissing, openPostgres } from "../store/postgres/open-postgres.ts";
import type { Check } from "./doctor.ts";

const Settings = z.object({ version: z.string(), fsync: z.string() });
const SETTINGS = "SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync";

/** Reached, new enough, with a layout that this version reads, and durable. @param url may hold a password, which is not told */
export function databaseChecks(url: string): Check[] {
  const name = "store";
  const place = placeOf(url) ?? "the database";
  try {
    const db = openPostgres({ url, readOnly: true });
    try {
      const settings = db.row(Settings, SETTINGS);
      if (settings?.fsync !== "on") {
        const detail = `${place} runs with fsync off: what it has acknowledged may be lost`;
        return [
          { name, state: "failed", detail, fix: "set fsync = on in postgresql.conf, and restart the server" },
        ];
      }
      const detail = `${place} can be read, PostgreSQL ${settings.version}`;
      return [{ name, state: "ok", detail, fix: "" }];
    } finally {
      db.close();
    }
  } catch (error) {
    if (isMissing(error))
      return [
        { name, state: "ok", detail: `${place} can be reached; the store will be made there`, fix: "" },
      ];
    const { code, message, next } = asHoldfastError(error);
    const fix = code === "STORE_ERROR" ? "mend what the server says, then ask again" : next;
    return [{ name, state: "failed", detail: message, fix }];
  }
}
