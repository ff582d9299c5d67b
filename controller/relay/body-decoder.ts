/**
 * Undoes the content coding of a body that is read alongside. The relay passes the coded bytes on as they are; only the
 * copy that is read here is decoded, within limits, so that a body which unfolds without end costs nothing but its reading.
 */
import { finished } from "node:stream/promises";
import {
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  gunzipSync,
  inflateSync,
  zstdDecompressSync,
} from "node:zlib";

/** Decoded bytes of one answer. Beyond: reading ends, and what was not read is unknown. */
const DECODED_BYTES = 1024 * 1024 * 1024;
/** Coded bytes that wait for the decoder. Beyond: the same. */
const WAITING_BYTES = 8 * 1024 * 1024;
/** From the body's end to the decoder's. Beyond: the same. */
const END_MS = 5000;

export interface BodyDecoder {
  take(chunk: Buffer): void;
  /** Resolves when everything that could be decoded was told: true when that was all. Never rejects. */
  end(): Promise<boolean>;
}

/** @param coding as the header `content-encoding` says; null or empty: none */
export function createBodyDecoder(coding: string | null, onBytes: (bytes: Buffer) => void): BodyDecoder {
  const name = codingName(coding);
  if (name === "identity") return { take: onBytes, end: async () => true };
  const stream = decoderOf(name);
  if (stream === null) return { take: () => undefined, end: async () => false };
  let decoded = 0;
  let isWhole = true;
  const giveUp = () => {
    isWhole = false;
    stream.destroy();
  };
  stream.on("data", (bytes: Buffer) => {
    decoded += bytes.length;
    if (decoded > DECODED_BYTES) giveUp();
    else onBytes(bytes);
  });
  stream.on("error", giveUp);
  return {
    take(chunk) {
      if (stream.destroyed) return;
      if (stream.writableLength + chunk.length > WAITING_BYTES) giveUp();
      else stream.write(chunk);
    },
    async end() {
      if (stream.destroyed) return false;
      stream.end();
      try {
        await finished(stream, { signal: AbortSignal.timeout(END_MS) });
      } catch {
        // A damaged or endless body: what was decoded of it has been told.
        giveUp();
      }
      return isWhole;
    },
  };
}

/** A whole body decoded at once, or null when it can't be or exceeds the limit. */
export function decodeBody(coding: string | null, body: Buffer, limitBytes: number): Buffer | null {
  const options = { maxOutputLength: limitBytes };
  try {
    switch (codingName(coding)) {
      case "identity":
        return body.length > limitBytes ? null : body;
      case "gzip":
        return gunzipSync(body, options);
      case "deflate":
        return inflateSync(body, options);
      case "br":
        return brotliDecompressSync(body, options);
      case "zstd":
        return zstdDecompressSync(body, options);
      case "other":
        return null;
    }
  } catch {
    // Damaged, or over the limit: it can't be read, and that is the answer.
    return null;
  }
}

type Coding = "identity" | "gzip" | "deflate" | "br" | "zstd" | "other";

function codingName(coding: string | null): Coding {
  const name = (coding ?? "").trim().toLowerCase();
  if (name === "" || name === "identity") return "identity";
  if (name === "x-gzip") return "gzip";
  return name === "gzip" || name === "deflate" || name === "br" || name === "zstd" ? name : "other";
}

/** Each gives what it has at once, also of a body that was cut. */
function decoderOf(coding: Exclude<Coding, "identity">) {
  const zlib = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
  switch (coding) {
    case "gzip":
      return createGunzip(zlib);
    case "deflate":
      return createInflate(zlib);
    case "br":
      return createBrotliDecompress({
        flush: constants.BROTLI_OPERATION_FLUSH,
        finishFlush: constants.BROTLI_OPERATION_FLUSH,
      });
    case "zstd":
      return createZstdDecompress({ flush: constants.ZSTD_e_flush, finishFlush: constants.ZSTD_e_flush });
    case "other":
      return null;
  }
}
