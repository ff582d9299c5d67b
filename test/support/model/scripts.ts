// Decides which step answers a request: registered scripts, the directive in the text, the queue, the
// default. A turn that took a script of its own keeps it over its tool rounds and retries. No socket, no clock.
import { directiveIn } from "./directive.ts";
import type { Position, Purpose } from "./history.ts";
import { BOUND_TURNS_MAX, SCRIPTS_MAX } from "./limits.ts";
import { parseSteps, type Step } from "./steps.ts";

export type Source = "script" | "directive" | "queue" | "default";

export interface ScriptOptions {
  /** How many turns it serves; undefined: any number. */
  readonly times?: number;
  /** Undefined: requests with tools and plain ones, never title or summary ones. */
  readonly purpose?: "title" | "summary";
}

export interface Choice {
  readonly source: Source;
  readonly round: number;
  readonly step: Step;
  /** Whether this request gets the step's `failFirst` status. */
  readonly isFailure: boolean;
  /** To be called when the reply went out whole: the same history is then a new turn, not a retry. */
  delivered(): void;
}

interface Script {
  readonly source: Source;
  readonly steps: readonly Step[];
  /** Failures given so far, by step index; raised by `choose`. */
  readonly failures: Map<number, number>;
}

interface Registered extends Script {
  readonly match: string | RegExp;
  readonly purpose: "title" | "summary" | undefined;
  /** Turns still to serve; lowered by `pick`. */
  left: number;
}

interface Bound {
  readonly script: Script;
  isDelivered: boolean;
}

export class Scripts {
  #registered: Registered[] = [];
  #queue: Script[] = [];
  #default: Script | null = null;
  readonly #bound = new Map<string, Bound>();

  /** A string matches a text that contains it. Tried in the order of registration. */
  register(match: string | RegExp, steps: unknown, options: ScriptOptions = {}): void {
    this.#checkRoom();
    const script = newScript("script", parseSteps(steps));
    const left = options.times ?? Number.POSITIVE_INFINITY;
    this.#registered.push({ ...script, match, purpose: options.purpose, left });
  }

  enqueue(steps: unknown): void {
    this.#checkRoom();
    this.#queue.push(newScript("queue", parseSteps(steps)));
  }

  setDefault(steps: unknown): void {
    this.#default = newScript("default", parseSteps(steps));
  }

  reset(): void {
    this.#registered = [];
    this.#queue = [];
    this.#default = null;
    this.#bound.clear();
  }

  /** Null: nothing scripted. Throws a TypeError for a broken directive. */
  choose(position: Position, purpose: Purpose): Choice | null {
    const key = `${purpose}:${position.turnKey}`;
    const bound = this.#bound.get(key);
    const isRetryOrRound = bound !== undefined && !(position.round === 0 && bound.isDelivered);
    const script = isRetryOrRound ? bound.script : this.#pick(key, position, purpose);
    if (script === null) return null;
    const step = script.steps[position.round] ?? { kind: "reply" as const, text: "Done." };
    return {
      source: script.source,
      round: position.round,
      step,
      isFailure: takeFailure(script, position.round, step),
      delivered: () => {
        const current = this.#bound.get(key);
        if (current !== undefined) current.isDelivered = true;
      },
    };
  }

  #pick(key: string, position: Position, purpose: Purpose): Script | null {
    const text = position.lastText;
    const side = purpose === "title" || purpose === "summary" ? purpose : undefined;
    const hit = this.#registered.find(
      (each) => each.left > 0 && each.purpose === side && isMatch(each.match, text),
    );
    if (hit !== undefined) {
      if (hit.left === Number.POSITIVE_INFINITY) return hit;
      hit.left--;
      return this.#bind(key, hit);
    }
    if (side !== undefined) return null;
    const steps = directiveIn(text);
    if (steps !== null) return this.#bind(key, newScript("directive", steps));
    const next = this.#queue.shift();
    return next === undefined ? this.#default : this.#bind(key, next);
  }

  #bind(key: string, script: Script): Script {
    this.#bound.delete(key);
    this.#bound.set(key, { script, isDelivered: false });
    const oldest = this.#bound.keys().next();
    if (this.#bound.size > BOUND_TURNS_MAX && !oldest.done) this.#bound.delete(oldest.value);
    return script;
  }

  #checkRoom(): void {
    if (this.#registered.length + this.#queue.length >= SCRIPTS_MAX) {
      throw new RangeError(`more than ${SCRIPTS_MAX} scripts`);
    }
  }
}

function newScript(source: Source, steps: readonly Step[]): Script {
  return { source, steps, failures: new Map() };
}

function isMatch(match: string | RegExp, text: string): boolean {
  return typeof match === "string" ? text.includes(match) : text.search(match) >= 0;
}

function takeFailure(script: Script, index: number, step: Step): boolean {
  const given = script.failures.get(index) ?? 0;
  if (step.failFirst === undefined || given >= step.failFirst.times) return false;
  script.failures.set(index, given + 1);
  return true;
}
