/**
 * Which users a sandbox's slots get: a range of its own on its engine, since the kernel counts processes (RLIMIT_NPROC)
 * and inotify instances by user across containers. Pure; the range is kept as a label of the container.
 */

/** Members that a sandbox can ever have: a user is never given to a second one. */
export const UIDS_PER_SANDBOX = 128;

const FIRST_UID = 20_001;
/** Below 65534, which is nobody's. Beyond: OVERLOADED. */
const RANGES = 355;

export interface UidRange {
  firstUid: number;
  lastUid: number;
}

/** The range as its container's label says it; a container made before there were ranges has the first one. */
export function uidRangeOf(label: string | undefined): UidRange {
  const firstUid = label !== undefined && /^\d{5}$/.test(label) ? Number(label) : FIRST_UID;
  return { firstUid, lastUid: firstUid + UIDS_PER_SANDBOX - 1 };
}

/**
 * A range that nobody has, or null. Who lost a race for the lowest one skips some more, so that two do not meet again.
 * @param taken labels of all containers of the engine that are sandboxes
 * @param skip how many free ranges to leave out; as many as there are is as good as none
 */
export function freeUidRange(taken: ReadonlyArray<string | undefined>, skip: number): UidRange | null {
  const starts = new Set(taken.map((label) => uidRangeOf(label).firstUid));
  const free = Array.from({ length: RANGES }, (_, at) => FIRST_UID + at * UIDS_PER_SANDBOX).filter(
    (firstUid) => !starts.has(firstUid),
  );
  const firstUid = free[skip] ?? free.at(-1);
  return firstUid === undefined ? null : uidRangeOf(String(firstUid));
}
