/**
 * Every limit that both sides share, with its unit in its name and what happens beyond it.
 * Limits of one side alone live beside the code that enforces them. Waits are on a monotonic clock.
 */
export const LIMITS = {
  /** One WebSocket message, before decoding. Beyond: the link closes with FRAME_TOO_LARGE. */
  messageBytes: 16 * 1024 * 1024,
  /** Frames in one message. Beyond: a batch is split by the sender and refused by the receiver. */
  framesPerMessage: 4096,
  /** Messages kept for a link that was not started yet. Beyond: the link closes with OVERLOADED. */
  earlyMessages: 16,
  /** Levels of lists and objects in a request's params or a response's result. Beyond: FRAME_INVALID. */
  nestedLevels: 32,
  /** One user message. Beyond: MESSAGE_TOO_LARGE, nothing stored. */
  userTextBytes: 4 * 1024 * 1024,
  /** Assistant text kept of one turn, in UTF-16 units. Beyond: cut, `textIsCut` says so, events still flow. */
  outputChars: 2 * 1024 * 1024,
  /** Text of one error, reason or title on the wire, in UTF-16 units. Beyond: cut with an ellipsis. */
  reasonChars: 2000,
  /** Requests of one endpoint without an answer. Beyond: OVERLOADED. */
  pendingRequests: 1024,
  /** How long a request on the link waits for its answer. Beyond: LINK_TIMEOUT; the request is not sent again. */
  requestMs: 30_000,
  /** From the opened socket to the answer of the handshake. Beyond: the link closes. */
  handshakeMs: 5000,
  /** A ping goes out after this much silence; two missed ones end the link. */
  pingMs: 5000,
  /** Delta bytes on their way without an acknowledgement. Beyond: deltas wait in their parts and coalesce. */
  windowBytes: 1024 * 1024,
  /** Reconnect: first wait, longest wait, and how long a link must have lasted to start again from the first. */
  reconnectFirstMs: 50,
  reconnectLongestMs: 5000,
  reconnectStableMs: 10_000,
} as const;
