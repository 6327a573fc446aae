/** How many partitions `chat.events` has; the number never changes. */
export const PARTITIONS = 64;

const VERSION = 1;
/** Version, epoch, and how many bytes an offset has. */
const HEADER_BYTES = 6;
/** Where a sync that has more pages goes on. */
const PAGE_BYTES = 18;

/** A text that is no token, or one of another version of Tidemark. */
export class TokenError extends Error {
  override name = "TokenError";
}

/** A position in `chat.events`. */
export interface Position {
  partition: number;
  offset: number;
}

/** How far a device has followed each partition of `chat.events`: it knows everything of its user below these offsets. */
export class SyncToken {
  private constructor(
    /** The epoch of the log under which it was made. */
    readonly epoch: number,
    private readonly next: number[],
    /** Where the sync under way goes on, as it came: only a service reads it. */
    private readonly page: Uint8Array,
  ) {}

  /** A token with these entries. */
  static of(epoch: number, next: (partition: number) => number): SyncToken {
    const entries = Array.from({ length: PARTITIONS }, (_, i) => next(i));
    return new SyncToken(epoch, entries, new Uint8Array());
  }

  /**
   * Reads a token.
   *
   * @throws {@link TokenError} for what is none.
   */
  static parse(text: string): SyncToken {
    const bytes = fromBase64Url(text);
    const [version, ...header] = bytes.subarray(0, HEADER_BYTES);
    const width = header.pop();
    if (version !== VERSION || width === undefined || width < 1 || width > 8) {
      throw new TokenError("no token of a version that is known here");
    }
    const end = HEADER_BYTES + width * PARTITIONS;
    if (bytes.length !== end && bytes.length !== end + PAGE_BYTES) {
      throw new TokenError("a token of the wrong length");
    }
    const offsets = bytes.subarray(HEADER_BYTES);
    const next = Array.from({ length: PARTITIONS }, (_, i) =>
      integer(offsets.subarray(i * width, (i + 1) * width)),
    );
    return new SyncToken(integer(header), next, bytes.slice(end));
  }

  /** The offset of the first event of a partition that the device may not know. */
  get(partition: number): number {
    const next = this.next[partition];
    if (next === undefined) throw new RangeError(`no partition: ${partition}`);
    return next;
  }

  /** Whether the device knows the event there, if it is one of its user. */
  covers(at: Position): boolean {
    return at.offset < this.get(at.partition);
  }

  /** Everything of a partition below `next` is known. A token never goes back. */
  advance(partition: number, next: number): void {
    this.next[partition] = Math.max(this.get(partition), next);
  }

  /** Whether it is of the same epoch as another one, and covers what that one does. */
  reaches(other: SyncToken): boolean {
    const isBelow = other.next.some((next, partition) => this.get(partition) < next);
    return this.epoch === other.epoch && !isBelow;
  }

  /** Everything below another token is known, too. */
  raise(other: SyncToken): void {
    other.next.forEach((next, partition) => this.advance(partition, next));
  }

  /** As services read it. */
  toString(): string {
    const largest = Math.max(...this.next);
    let width = 1;
    while (largest >= 256 ** width) width += 1;
    const entries = this.next.flatMap((next) => bigEndian(next, width));
    const header = [VERSION, ...bigEndian(this.epoch, 4), width];
    return toBase64Url([...header, ...entries, ...this.page]);
  }
}

function integer(bytes: Iterable<number>): number {
  let value = 0;
  for (const byte of bytes) value = value * 256 + byte;
  if (!Number.isSafeInteger(value)) {
    throw new TokenError("a token with an offset above 2^53");
  }
  return value;
}

function bigEndian(value: number, width: number): number[] {
  const bytes = Array.from<number>({ length: width });
  for (let i = width - 1; i >= 0; i -= 1) {
    bytes[i] = value % 256;
    value = Math.floor(value / 256);
  }
  return bytes;
}

function fromBase64Url(text: string): Uint8Array {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) {
    throw new TokenError("a token that is no base64url");
  }
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}

export function toBase64Url(bytes: number[]): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
