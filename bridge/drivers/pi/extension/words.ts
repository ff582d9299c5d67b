/**
 * What our extension inside pi and the driver outside say to each other. Pure; the extension carries this file with it.
 *
 * Pi's extension channel has dialogs, which block until they are answered, and status lines, which do not:
 *
 *   status  hello       at each start: who runs here, and what of the history was loaded
 *   select  permission  a tool is about to run: ALLOW or REJECT
 *   status  decided     what the extension made of the answer
 *   input   question    the model asks its user: the answers as JSON
 *
 * Dialogs carry their message as JSON in their title. One of another extension may say whatever it likes: it can do
 * anything that pi can, and no boundary lies between the two.
 */

/** Key of our status lines. */
export const STATUS_KEY = "holdfast";

/** The environment variable with the {@link Setup}. Holds no secret. */
export const SETUP_VARIABLE = "HOLDFAST_PI_SETUP";

/** The provider that the extension registers, and the driver chooses. */
export const PROVIDER = "holdfast";

export const ALLOW = "allow";
export const REJECT = "reject";

/** The word of our question tool. */
export const QUESTION_TOOL = "question";

export interface Setup {
  model: { name: string; contextTokens: number; outputTokens: number };
  baseUrl: string;
  /** Stands where a key would. */
  key: string;
  /** Tools that must ask before each call. */
  ask: "all" | string[];
  /** The model may ask its user. */
  offersQuestion: boolean;
}

export interface Hello {
  say: "hello";
  /** Of the pi that runs here, by its own package file. */
  version: string;
  /** Working directory of the session: a resumed one brings its own. */
  cwd: string;
  /** Entries of the loaded history from its root to its leaf. */
  entries: number;
  /** The path begins at a root: no record between is missing. */
  isWhole: boolean;
}

export interface Decided {
  say: "decided";
  call: string;
  isAllowed: boolean;
}

export interface PermissionTitle {
  say: "permission";
  call: string;
  tool: string;
  /** What the call acts on, whole. */
  patterns: string[];
}

export interface QuestionTitle {
  say: "question";
  call: string;
  items: Array<{
    header: string;
    question: string;
    options: Array<{ label: string; description: string }>;
    isMultiple: boolean;
    isOpen: boolean;
  }>;
}
