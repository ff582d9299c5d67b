// Bounds of the loopback model. Only numbers; what happens beyond each is said beside it.

/** Largest request body that is read; beyond it 413 and the connection is closed. */
export const REQUEST_BODY_MAX_BYTES = 32 * 1024 * 1024;
/** Kept records; beyond it the oldest is dropped and counted. A test makes a few dozen. */
export const KEPT_REQUESTS_MAX = 2000;
/** Kept request bodies together; beyond it the oldest record is dropped and counted. */
export const KEPT_BODIES_MAX_BYTES = 128 * 1024 * 1024;
/** Registered and queued scripts together; beyond it registering throws. */
export const SCRIPTS_MAX = 1000;
/** Turns that hold a script of their own (queue, `times`, directive); beyond it the oldest is forgotten. */
export const BOUND_TURNS_MAX = 2000;
/** Steps of one script; beyond it the script is refused. */
export const STEPS_MAX = 200;
/** Longest delay that a step may ask for; beyond it the script is refused. */
export const STEP_DELAY_MAX_MS = 10 * 60 * 1000;
/** Waits for a request at once; beyond it `waitForRequest` rejects. */
export const WAITS_MAX = 100;
