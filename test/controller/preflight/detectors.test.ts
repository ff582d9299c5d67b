import { expect, test } from "vitest";
import {
  foreignFacts,
  missingFacts,
  missingHistoryClaim,
  namesOverruled,
} from "../../../controller/preflight/detectors.ts";

test.for([
  ["as it was told", "It is cobalt-4475."],
  ["in capitals", "COBALT-4475"],
  ["in marks of emphasis and code", "It is **`cobalt-4475`**!"],
  ["with a dash that does not break", "It is Cobalt\u20114475."],
  ["with a long dash", "It is cobalt\u20134475."],
  ["with characters that are not seen", "It is cobalt\u200b-4475."],
])("a fact %s is found", ([, answer]) => {
  expect(missingFacts(answer as string, ["cobalt-4475"])).toEqual([]);
});

test.for([
  ["another number", "It is cobalt-4476."],
  ["a longer number", "It is cobalt-44751."],
  ["a longer word", "It is xcobalt-4475."],
  ["the word alone", "It is cobalt."],
  ["nothing", ""],
])("%s is not the fact", ([, answer]) => {
  expect(missingFacts(answer as string, ["cobalt-4475"])).toEqual(["cobalt-4475"]);
});

test("of several facts those that lack are named, and facts of other calls that are there", () => {
  expect(missingFacts("amber-1000", ["amber-1000", "dune-2000"])).toEqual(["dune-2000"]);
  expect(foreignFacts("It is iris-3000.", ["amber-1000", "iris-3000"])).toEqual(["iris-3000"]);
  expect(foreignFacts("It is iris-3000.", [])).toEqual([]);
});

test("the old fact behind the word now is taken for an overruled one, and the new one is not", () => {
  expect(namesOverruled("now: amber-1000\nbefore: dune-2000", "amber-1000")).toBe(true);
  expect(namesOverruled("**Now:** `amber-1000`", "amber-1000")).toBe(true);
  expect(namesOverruled("It is now amber-1000.", "amber-1000")).toBe(true);
  expect(namesOverruled("now: dune-2000\nbefore: amber-1000", "amber-1000")).toBe(false);
  expect(namesOverruled("now: amber-10001", "amber-1000")).toBe(false);
});

const CLAIMS = [
  "I don't have any previous messages from you.",
  "I don’t see any earlier messages in our conversation.",
  "I do not have access to our previous conversation.",
  "I'm not able to see the prior messages.",
  "I am unable to recall earlier conversations.",
  "I can't find any earlier greeting in this chat history.",
  "I cannot remember our earlier discussion.",
  "I don't have memory of past interactions.",
  "I do not retain memory between sessions.",
  "There are no previous messages here.",
  "There is no earlier conversation between us.",
  "I have no record of that.",
  "I have no memory of a call sign.",
  "This is the start of our conversation.",
  "This appears to be the beginning of our conversation, so I can't know.",
  "It looks like this is your first message to me.",
  "This seems to be our first interaction.",
  "Our conversation just started.",
  "We have only just begun, so: we've just started talking.",
  "Each conversation starts fresh for me.",
  "You haven't told me your call sign.",
  "You have not mentioned a shelf.",
  "You didn't give me a name.",
  "The release code was not provided.",
  "A call sign hasn't been mentioned so far.",
];

test.for(CLAIMS)("taken for a claim of missing history: %s", (answer) => {
  expect(missingHistoryClaim(answer)).not.toBeNull();
});

const SOUND = [
  "Your call sign is cobalt-4475.",
  "You greeted me as cobalt-4475 the first time. Hello again!",
  "The blue box is on shelf amber-1000, as I said before.",
  "It's still on shelf amber-1000. You've asked this three times now.",
  "The program is named dune-2000, and step 2 was to count the lines of its input.",
  "now: dune-2000\nbefore: amber-1000",
  "The code is dune-2000 now; earlier in this conversation it was amber-1000.",
  "As noted earlier, step 1 is done. Step 2 has not been done yet.",
  "The first step was the name. I did not count any lines yet.",
  "In your first message you gave the call sign cobalt-4475.",
  "I can see that from our earlier messages: cobalt-4475.",
  "",
];

test.for(SOUND)("no claim of missing history: %s", (answer) => {
  expect(missingHistoryClaim(answer)).toBeNull();
});

// Pinned, and named in docs/preflight.md: in doubt a person looks.
const FALSE_ALARMS = [
  'It would be wrong to say "this is the start of our conversation": your call sign is cobalt-4475.',
  "You said I had claimed that there were no previous messages, but there are: cobalt-4475.",
  "Your call sign is cobalt-4475; you have not told me your name.",
  "It is cobalt-4475. I don't have any information beyond our conversation.",
];

test.for(FALSE_ALARMS)("a known false alarm: %s", (answer) => {
  expect(missingHistoryClaim(answer)).not.toBeNull();
});

// Pinned too: claims that no pattern knows.
const MISSED = ["Je n'ai aucun message de votre part.", "Could you please share your call sign with me?"];

test.for(MISSED)("a known miss: %s", (answer) => {
  expect(missingHistoryClaim(answer)).toBeNull();
});

test("the claim's own words are given, and a claim is found whatever its case", () => {
  expect(missingHistoryClaim("Sorry. THIS IS THE START OF OUR CONVERSATION, friend.")).toBe(
    "this is the start of our conversation",
  );
});

test("a long answer is judged in time", () => {
  const began = performance.now();
  missingHistoryClaim("not have any your our the not see ".repeat(20_000));
  missingHistoryClaim("this is ".repeat(100_000));
  expect(performance.now() - began).toBeLessThan(2000);
});
