/**
 * Frames of WebSocket (RFC 6455 §5), for Node; browsers have their own. Pure.
 *
 * Bytes come in any pieces and leave as whole messages: text (opcode 1, put together from its
 * fragments), close (8), ping (9). What a server must not send ends the connection.
 */
import { randomBytes } from "node:crypto";

import { CorruptError, LimitError } from "./errors.js";

/** Of a message. An event that comes whole has at most 16 MiB of values. */
export const MESSAGE_BYTES_MAX = 128 << 20;

export interface Frame {
  opcode: number;
  payload: Uint8Array;
  /** Of text; of a close its reason. */
  text: string;
}

/** A frame from a client, masked as it must be. */
export function encodeFrame(opcode: number, payload: Uint8Array): Uint8Array {
  const size = payload.length;
  const begin = size < 126 ? 2 : size < 1 << 16 ? 4 : 10;
  const frame = new Uint8Array(begin + 4 + size);
  const view = new DataView(frame.buffer);
  const key = randomBytes(4);
  frame[0] = 0x80 | opcode;
  frame[1] = 0x80 | (begin === 2 ? size : begin === 4 ? 126 : 127);
  if (begin === 4)
    view.setUint16(2, size);
  else if (begin === 10)
    view.setBigUint64(2, BigInt(size));
  frame.set(key, begin);
  for (let at = 0; at < size; at++)
    frame[begin + 4 + at] = payload[at]! ^ key[at & 3]!;
  return frame;
}

/** Bytes to messages. */
export class FrameReader {
  private pieces: Uint8Array[] = [];
  private size = 0;
  private wanted = 2; // bytes without which nothing can be told
  private parts: Uint8Array[] | null = null; // of a message under way

  push(data: Uint8Array): Frame[] {
    const found: Frame[] = [];
    this.pieces.push(data);
    this.size += data.length;
    while (this.size >= this.wanted) {
      const whole = this.join();
      const frame = this.take(whole);
      if (frame)
        found.push(frame);
    }
    return found;
  }

  private join(): Uint8Array {
    if (this.pieces.length !== 1)
      this.pieces = [concat(this.pieces)];
    return this.pieces[0]!;
  }

  /** Takes one frame off, or learns how much of it is still to come. */
  private take(data: Uint8Array): Frame | null {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    const [first, second] = [data[0]!, data[1]!];
    const mark = second & 0x7f;
    const begin = mark === 126 ? 4 : mark === 127 ? 10 : 2;
    if (second & 0x80 || first & 0x70)
      throw new CorruptError("the daemon sent a frame that no server may send", "corrupt");
    if (data.length < begin) {
      this.wanted = begin;
      return null;
    }
    const size = mark === 126 ? view.getUint16(2)
      : mark === 127 ? Number(view.getBigUint64(2)) : mark;
    if (size > MESSAGE_BYTES_MAX)
      throw new LimitError(`a message has at most ${MESSAGE_BYTES_MAX} bytes`, "limit");
    if (data.length < begin + size) {
      this.wanted = begin + size;
      return null;
    }
    this.wanted = 2;
    this.size -= begin + size;
    this.pieces = this.size > 0 ? [data.subarray(begin + size)] : [];
    return this.collect(first & 0x0f, (first & 0x80) !== 0, data.slice(begin, begin + size));
  }

  private collect(opcode: number, last: boolean, payload: Uint8Array): Frame | null {
    if (opcode >= 8) {
      if (!last || payload.length > 125 || opcode > 10)
        throw new CorruptError("the daemon sent a control frame of a wrong form", "corrupt");
      const text = opcode === 8 ? new TextDecoder().decode(payload.subarray(2)) : "";
      return { opcode, payload, text };
    }
    if (opcode > 1 || (opcode === 0) !== (this.parts !== null))
      throw new CorruptError("the daemon sent a frame that is no text", "corrupt");
    const parts = this.parts ?? [];
    parts.push(payload);
    if (parts.reduce((sum, part) => sum + part.length, 0) > MESSAGE_BYTES_MAX)
      throw new LimitError(`a message has at most ${MESSAGE_BYTES_MAX} bytes`, "limit");
    this.parts = last ? null : parts;
    if (!last)
      return null;
    const whole = concat(parts);
    return { opcode: 1, payload: whole, text: new TextDecoder().decode(whole) };
  }
}

function concat(pieces: Uint8Array[]): Uint8Array {
  if (pieces.length === 1)
    return pieces[0]!;
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
