import type { ClientFrame, ServerFrame } from "./frames.js";
import type { Pace } from "./pace.js";
import { toBase64Url } from "./token.js";

const SUBPROTOCOL = "tidemark.v1.json";
/** How long a gateway may take to answer a handshake. */
const HANDSHAKE_MS = 10_000;
/** What a token begins with that is written in other characters. */
const ENCODED = "base64url.";
/** How often a gateway pings that does not say. */
const PING_SECONDS = 25;
/** The longest that a timer waits. */
const LONGEST_MS = 2 ** 31 - 1;
/** So many characters of frames may wait to be handled; the gateway cannot know that they do. */
const MAX_WAITING = 1_000_000;

/** A connection that has ended, or was never made. */
export class ConnectionEnded extends Error {
  override name = "ConnectionEnded";

  constructor(
    message: string,
    /** The gateway's close code; 0 where it sent none. */
    readonly code: number,
    /** Whether the handshake had succeeded. */
    readonly wasOpen: boolean,
  ) {
    super(message);
  }

  /** Whether the device is to come back with its token. */
  get comesBack(): boolean {
    return this.code < 4100 || this.code > 4199;
  }
}

/** What a connection is for. */
export interface ConnectionUse {
  /** The first frame. */
  hello(): ClientFrame;
  /** A ping waits to be handled. */
  onPing(): void;
  /** What is written is counted here. */
  pace: Pace;
}

/** A subprotocol has fewer characters than a bearer token: no slash, and no equals sign. */
function subprotocolOf(token: string): string {
  const isPlain = /^[\w.~+-]+$/.test(token) && !token.startsWith(ENCODED);
  if (isPlain) return `bearer.${token}`;
  const bytes = Array.from(token, (char) => char.charCodeAt(0));
  return `bearer.${ENCODED}${toBase64Url(bytes)}`;
}

/** How long a gateway may be silent that pings so often: two of its pings do not come. */
export function silenceMs(pingSeconds = PING_SECONDS): number {
  return Math.min((2 * pingSeconds + 10) * 1_000, LONGEST_MS);
}

/** A connection to a gateway: frames in both directions, until it ends. */
export class Connection {
  readonly #socket: WebSocket;
  readonly #frames: ServerFrame[] = [];
  /** How long the frames are that came since none waited. */
  #waiting = 0;
  #ended: ConnectionEnded | null = null;
  #wake: (() => void) | null = null;
  #wasOpen = false;
  #silenceMs = silenceMs();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Begins the handshake; `hello` goes out after it. */
  constructor(
    Socket: typeof WebSocket,
    url: string,
    token: string | undefined,
    private readonly use: ConnectionUse,
  ) {
    // A browser sets no header of a WebSocket.
    const bearer = token === undefined ? [] : [subprotocolOf(token)];
    this.#socket = new Socket(url, [SUBPROTOCOL, ...bearer]);
    this.#expect(HANDSHAKE_MS, `${url}: no handshake in time`);
    this.#socket.onopen = () => {
      this.#wasOpen = true;
      this.#expect(this.#silenceMs, "the gateway is silent");
      this.write(use.hello());
    };
    this.#socket.onmessage = ({ data }) => this.#receive(String(data));
    // Nobody says more than this of a handshake that fails.
    this.#socket.onerror = () => {
      if (!this.#wasOpen) this.#end(`${url}: the handshake fails`, 0);
    };
    this.#socket.onclose = ({ code, reason }) => {
      const ownCode = code >= 4000 && code < 5000 ? code : 0;
      this.#end(reason || `the connection is gone (${code})`, ownCode);
    };
  }

  /** Resolves once a frame waits. Throws {@link ConnectionEnded} behind the last. */
  async arrival(): Promise<void> {
    while (this.#frames.length === 0) {
      if (this.#ended !== null) throw this.#ended;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** The next frame, if one waits. */
  take(): ServerFrame | undefined {
    const frame = this.#frames.shift();
    if (this.#frames.length === 0) this.#waiting = 0;
    return frame;
  }

  /** Whether a ping waits. */
  get hasPing(): boolean {
    return this.#frames.some((frame) => frame.type === "ping");
  }

  /** What cannot be written is lost with the connection, whose end shows where it is read. */
  write(frame: ClientFrame): void {
    if (this.#ended !== null || this.#socket.readyState !== 1) return;
    const text = JSON.stringify(frame);
    this.use.pace.spend(bytesOf(text));
    this.#socket.send(text);
  }

  /** Ends it, without waiting for the other side. */
  close(reason = "closed here"): void {
    this.#frames.length = 0;
    this.#end(reason, 0);
  }

  #receive(text: string): void {
    const frame = parse(text);
    if (frame === null) return this.#end(`no frame: ${text.slice(0, 80)}`, 0);
    if (frame.type === "welcome" || frame.type === "sync_required") {
      this.#silenceMs = silenceMs(frame.ping_seconds);
    }
    this.#expect(this.#silenceMs, "the gateway is silent");
    if (frame.type === "ping" && frame.token === undefined) {
      // There is no stream, so nothing has to be handled first; a sync may take longer than the gateway waits.
      return this.write({ type: "pong" });
    }
    this.#frames.push(frame);
    this.#waiting += text.length;
    if (this.#waiting > MAX_WAITING) return this.#end("too much waits", 0);
    this.#wake?.();
    if (frame.type === "ping") this.use.onPing();
  }

  #expect(ms: number, otherwise: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end(otherwise, 0), ms);
  }

  #end(reason: string, code: number): void {
    if (this.#ended !== null) return;
    this.#ended = new ConnectionEnded(reason, code, this.#wasOpen);
    clearTimeout(this.#timer);
    this.#socket.onopen = null;
    this.#socket.onmessage = null;
    this.#socket.onerror = null;
    this.#socket.onclose = null;
    this.#socket.close();
    this.#wake?.();
  }
}

/** How many bytes of UTF-8 a text has. */
export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

function parse(text: string): ServerFrame | null {
  try {
    const frame: unknown = JSON.parse(text);
    const isFrame =
      typeof frame === "object" && frame !== null && "type" in frame;
    return isFrame ? (frame as ServerFrame) : null;
  } catch {
    return null;
  }
}
