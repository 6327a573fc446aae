import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { ClientFrame, ServerFrame } from "../src/frames.js";

/** A WebSocket server that says what a test tells it to: for what no real gateway can be brought to say when a test wants it. */
export class ScriptedGateway {
  readonly #sockets = new Set<Duplex>();
  readonly #connections: ScriptedConnection[] = [];
  readonly #waiting: ((connection: ScriptedConnection) => void)[] = [];
  /** Refuse handshakes with this status. */
  refusal: number | null = null;
  handshakes = 0;

  private constructor(private readonly server: Server) {
    server.on("upgrade", (request, socket) => {
      this.handshakes += 1;
      this.#sockets.add(socket);
      if (this.refusal !== null) {
        socket.end(`HTTP/1.1 ${this.refusal} No\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      const key = request.headers["sec-websocket-key"];
      const accept = createHash("sha1")
        .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
        .digest("base64");
      const offered = request.headers["sec-websocket-protocol"] ?? "";
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
          `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: tidemark.v1.json\r\n\r\n`,
      );
      const target = `${request.url} ${offered}`;
      this.#arrive(new ScriptedConnection(socket, target));
    });
  }

  static async start(): Promise<ScriptedGateway> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new ScriptedGateway(server);
  }

  get url(): string {
    const { port } = this.server.address() as AddressInfo;
    return `ws://127.0.0.1:${port}`;
  }

  #arrive(connection: ScriptedConnection): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#connections.push(connection);
    else waiting(connection);
  }

  /** The next connection of a device. */
  accept(): Promise<ScriptedConnection> {
    const connection = this.#connections.shift();
    if (connection !== undefined) return Promise.resolve(connection);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  stop(): void {
    this.server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** A connection of a device. */
export class ScriptedConnection {
  #bytes = Buffer.alloc(0);
  readonly #frames: (ClientFrame | null)[] = [];
  #wake: (() => void) | null = null;

  constructor(
    private readonly socket: Duplex,
    /** The path, and the subprotocols that were offered. */
    readonly target: string,
  ) {
    socket.on("data", (bytes) => this.#read(bytes));
    socket.on("error", () => undefined);
    socket.on("close", () => this.#push(null));
  }

  /** The device's next frame; `null` where it has gone. */
  async next(): Promise<ClientFrame | null> {
    while (this.#frames.length === 0) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return this.#frames.shift() ?? null;
  }

  send(frame: ServerFrame): void {
    this.sendText(JSON.stringify(frame));
  }

  sendText(text: string): void {
    this.#write(1, Buffer.from(text));
  }

  close(code: number, reason: string): void {
    const payload = Buffer.alloc(2);
    payload.writeUInt16BE(code);
    this.#write(8, Buffer.concat([payload, Buffer.from(reason)]));
    this.socket.end();
  }

  /** As a gateway that is killed. */
  destroy(): void {
    this.socket.destroy();
  }

  #write(opcode: number, payload: Buffer): void {
    const length = payload.length;
    const header =
      length < 126 ? [length] : [126, Math.floor(length / 256), length % 256];
    this.socket.write(Buffer.from([0x80 | opcode, ...header]));
    this.socket.write(payload);
  }

  #push(frame: ClientFrame | null): void {
    this.#frames.push(frame);
    this.#wake?.();
  }

  #read(more: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, more]);
    for (;;) {
      const short = (this.#bytes[1] ?? 0) & 0x7f;
      const start = short === 126 ? 4 : 2;
      if (this.#bytes.length < start + 4) return;
      const length = short === 126 ? this.#bytes.readUInt16BE(2) : short;
      const end = start + 4 + length;
      if (this.#bytes.length < end) return;
      const mask = this.#bytes.subarray(start, start + 4);
      const payload = this.#bytes
        .subarray(start + 4, end)
        .map((byte, i) => byte ^ mask[i % 4]!);
      const opcode = this.#bytes[0]! & 0x0f;
      this.#bytes = this.#bytes.subarray(end);
      if (opcode === 8) this.socket.end();
      if (opcode === 1) this.#push(JSON.parse(Buffer.from(payload).toString()));
    }
  }
}
