/**
 * What an answer says about the history that it was given: which facts it lacks, and whether it claims that there is no
 * history. Pure. Conservative: in doubt an answer is rejected, and a person looks at it; the known false alarms are in
 * `docs/preflight.md`, and each is pinned by a test.
 */

/** The facts that the answer does not hold as words of their own; case, marks of emphasis and kinds of dash don't matter. */
export function missingFacts(answer: string, facts: readonly string[]): string[] {
  const text = plain(answer);
  return facts.filter((fact) => !holds(text, fact));
}

/** Facts of other calls that the answer holds: nobody told them in this one. */
export function foreignFacts(answer: string, others: readonly string[]): string[] {
  const text = plain(answer);
  return others.filter((fact) => holds(text, fact));
}

/** Whether the answer names as what holds now what a correction has overruled. */
export function namesOverruled(answer: string, overruled: string): boolean {
  return new RegExp(
    `\\bnow\\b[\\s:=]{1,8}(?:code |is )?${escaped(plain(overruled))}(?![\\p{L}\\p{N}])`,
    "u",
  ).test(plain(answer));
}

/** The words with which the answer claims that messages before the last one are missing, or null. */
export function missingHistoryClaim(answer: string): string | null {
  const text = plain(answer).slice(0, CLAIM_CHARS);
  const hits = CLAIMS.flatMap((claim) => claim.exec(text) ?? []);
  return hits[0]?.trim() ?? null;
}

/** An answer of a few sentences is far shorter. */
const CLAIM_CHARS = 16_384;

const NOT = "(?:not|n't|never|unable to|without)";
const PAST = "(?:previous|prior|earlier|past|preceding|above)";
const HISTORY =
  "(?:messages?|conversations?|chats?|history|context|exchanges?|interactions?|discussions?|turns?|sessions?|memory|memories)";
/** Within one sentence. */
const GAP = "[^.!?\\n]{0,60}?";

const CLAIMS: readonly RegExp[] = [
  // "I don't have any earlier messages", "I can't see our previous conversation"
  `${NOT} (?:\\w+ ){0,2}(?:see|find|have|recall|access|locate|view|remember|retain|store|keep|know)\\b${GAP}\\b(?:${PAST}|any|your|our|the) ${GAP}${HISTORY}\\b`,
  `${NOT} (?:\\w+ ){0,2}(?:have|retain|store|keep) (?:\\w+ )?(?:memory|memories|history|context)\\b`,
  // "there is no previous conversation", "I have no memory of", "no record of that"
  `\\bno (?:\\w+ )?${PAST} ${HISTORY}\\b`,
  `\\bno (?:memory|record|recollection|knowledge|history|context)\\b(?: of| from| available|[.,;!]| in| for| to\\b|$)`,
  // "this is the start of our conversation", "this appears to be your first message"
  `\\bthis (?:is|seems|appears|looks|marks)\\b${GAP}\\b(?:start|beginning|first|new)\\b${GAP}(?:${HISTORY}|question|greeting|time)\\b`,
  `\\b(?:conversation|chat|session) (?:has )?(?:just|only) (?:started|begun|began)\\b`,
  `\\bwe(?:'ve| have)? (?:just|only) (?:started|begun|began|met)\\b`,
  `\\b(?:each|every) (?:new )?(?:conversation|session|chat|message) (?:starts|begins|is (?:new|independent|separate))\\b`,
  // "you haven't told me", "you did not mention a code"
  `\\byou (?:have(?:n't| not)|had(?:n't| not)|did(?:n't| not)|never)(?: yet| actually)? (?:tell|told|mention(?:ed)?|give|gave|given|provide[d]?|share[d]?|said|say|state[d]?|introduce[d]?|ask(?:ed)?|greet(?:ed)?)\\b`,
  `\\b(?:was|were|been|is|are) (?:not|n't|never) (?:yet )?(?:mentioned|provided|given|shared|stated|told)\\b`,
  `\\b(?:wasn't|weren't|isn't|hasn't been|haven't been) (?:mentioned|provided|given|shared|stated|told)\\b`,
].map((pattern) => new RegExp(pattern.replaceAll(" ", "\\s+"), "u"));

/** One spelling of what means the same: case, dashes, apostrophes, emphasis. */
function plain(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/\p{Pd}/gu, "-")
    .replace(/[\u2018\u2019\u02bc]/g, "'")
    .replace(/[*_`"\u201c\u201d]/g, "")
    .replace(/\p{Cf}/gu, "");
}

function holds(text: string, fact: string): boolean {
  return new RegExp(`(?<![\\p{L}\\p{N}])${escaped(plain(fact))}(?![\\p{L}\\p{N}])`, "u").test(text);
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
