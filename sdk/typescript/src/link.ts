import {
  bytesOf,
  Connection,
  ConnectionEnded,
  type ConnectionUse,
} from "./connection.js";
import type { ClientFrame, ServerFrame } from "./frames.js";
import { Pace, type Rates } from "./pace.js";
import { ServiceError } from "./rest.js";
import { askToken } from "./checks.js";
import type { DeviceSettings } from "./settings.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** A browser does not say why a handshake fails. Somebody else is asked at the first of several in a row, and at each so many after it. */
const ASK_EVERY = 3;
/** The status of an answer to a token that is not valid, or not any more. */
const UNAUTHENTICATED = 401;
/** The close code of a gateway for whom the device was too fast. */
const TOO_FAST = 4003;

/** What a link is for. */
export interface LinkHandler {
  /** The first frame. */
  hello(): ClientFrame;
  /** Frames have come, for {@link Link.take}; more wait until they are handled. */
  arrived(): Promise<void>;
  /** The connection is gone, and is made again. */
  disconnected(reason: string): void;
  /** Handshakes fail. Throws if calls over HTTP say why. */
  probe(): Promise<void>;
}

/** They grow while the device does not get on. */
export class Pauses {
  #ms = FIRST_PAUSE_MS;
  #streamSince: number | null = null;

  /** A stream has begun. That alone is no reason to come back soon: a gateway may welcome every device, and close. */
  streamBegins(): void {
    this.#streamSince = performance.now();
  }

  /** A connection has ended. The next pause is a short one if there was a stream for as long as the longest pause. */
  connectionEnds(): void {
    const since = this.#streamSince ?? Infinity;
    if (performance.now() - since >= LONGEST_PAUSE_MS) this.reset();
    this.#streamSince = null;
  }

  /** Not all devices of a gateway that ends come back at once. */
  next(): number {
    const pause = this.#ms * (0.5 + Math.random());
    this.#ms = Math.min(2 * this.#ms, LONGEST_PAUSE_MS);
    return pause;
  }

  /** The next pause is a short one. */
  reset(): void {
    this.#ms = FIRST_PAUSE_MS;
  }
}

/** A connection to one of the gateways, again after whatever ends it. */
export class Link {
  #connection: Connection | null = null;
  #gateway = 0;
  #failures = 0;
  readonly #pauses = new Pauses();
  /** Of all connections: a new one is no new budget. */
  readonly #pace = new Pace();
  #afterMs = 0;
  /** The token of the last attempt. */
  #token: string | undefined;
  #onPing: () => void = () => undefined;
  /** Ends the pause that is under way. */
  #wake = new AbortController();

  constructor(
    private readonly settings: DeviceSettings,
    private readonly handler: LinkHandler,
    private readonly signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.#connection?.close());
  }

  /** Runs until it is aborted, or until an error that would come again. */
  async run(): Promise<void> {
    while (!this.signal.aborted) {
      const ended = await this.#connect();
      if (this.signal.aborted) return;
      this.#pauses.connectionEnds();
      const { code } = ended instanceof ConnectionEnded ? ended : { code: 0 };
      if (code === TOO_FAST) this.#pace.exhaust();
      this.handler.disconnected(ended.message);
      const isSilent = ended instanceof ConnectionEnded && !ended.wasOpen;
      this.#failures = isSilent ? this.#failures + 1 : 0;
      if (this.#failures % ASK_EVERY === 1) await this.#probe();
      const pause = this.#pauses.next();
      this.#wake = new AbortController();
      const ends = AbortSignal.any([this.signal, this.#wake.signal]);
      await sleep(Math.max(this.#afterMs, pause), ends);
      this.#afterMs = 0;
      this.#gateway += 1;
    }
  }

  /** Ends the pause between two attempts; the pauses after it are short again. */
  connectNow(): void {
    this.#pauses.reset();
    this.#wake.abort();
  }

  /** The next frame that has come and is not handled yet. */
  take(): ServerFrame | undefined {
    return this.#connection?.take();
  }

  /** Resolves once a ping is among these: it is to be answered soon. One caller at a time waits for it. */
  pinged(): Promise<void> {
    return new Promise((resolve) => {
      this.#onPing = resolve;
      if (this.#connection?.hasPing) resolve();
    });
  }

  /** Lost where there is no connection. */
  write(frame: ClientFrame): void {
    this.#connection?.write(frame);
  }

  /** Writes a frame unless the gateway would find it too much at present; in how many milliseconds it may be written, 0 if it was. */
  tryWrite(frame: ClientFrame): number {
    const wait = this.#pace.wait(bytesOf(JSON.stringify(frame)));
    if (wait === 0) this.write(frame);
    return wait;
  }

  /** A stream has begun, on which so much may be written. */
  welcomed(rates: Rates): void {
    this.#pauses.streamBegins();
    this.#pace.set(rates);
  }

  /** The device gets on: the next pause is a short one. */
  getsOn(): void {
    this.#pauses.reset();
  }

  /** Ends the connection; the next one begins in so many milliseconds at the earliest. */
  reconnect(afterMs: number): void {
    this.#afterMs = afterMs;
    this.#connection?.close("the gateway ends");
  }

  async #probe(): Promise<void> {
    try {
      await this.handler.probe();
    } catch (error) {
      await this.#reason(error);
    }
  }

  /** A connection, from the handshake to its end. */
  async #connect(): Promise<Error> {
    const Socket = this.settings.WebSocket ?? WebSocket;
    const use: ConnectionUse = {
      hello: () => this.handler.hello(),
      onPing: () => this.#onPing(),
      pace: this.#pace,
    };
    let connection: Connection;
    try {
      this.#token = await askToken(this.settings.token);
      connection = new Connection(Socket, this.#url(), this.#token, use);
    } catch (error) {
      return new ConnectionEnded(`no token: ${String(error)}`, 0, false);
    }
    this.#connection = connection;
    try {
      for (;;) {
        await connection.arrival();
        await this.handler.arrived();
      }
    } catch (error) {
      return await this.#reason(error);
    } finally {
      connection.close();
      this.#connection = null;
    }
  }

  /** A service is nobody's device without a uid. */
  #url(): string {
    const { gateways, uid } = this.settings;
    const gateway = gateways[this.#gateway % gateways.length];
    return `${gateway}/v1/connect?uid=${uid}`;
  }

  /** Throws what the next connection would end with, too. What cannot be read is none of that: another gateway may be of another version. */
  async #reason(error: unknown): Promise<Error> {
    const ends =
      error instanceof ConnectionEnded
        ? !error.comesBack
        : error instanceof ServiceError && !error.isRetryable;
    const isRefused =
      error instanceof ServiceError && error.status === UNAUTHENTICATED;
    if (ends && !(isRefused && (await this.#hasAnotherToken()))) throw error;
    return error instanceof Error ? error : new Error(String(error));
  }

  /** Whether there is another token than the one that was refused, or may be later. */
  async #hasAnotherToken(): Promise<boolean> {
    const { token } = this.settings;
    if (typeof token !== "function") return false;
    const next = await askToken(token).catch(() => null);
    return next !== this.#token;
  }
}

/** Resolves after so many milliseconds, or when it is aborted. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
