/** The network of one device, which can be switched off: for trying what happens then. */
export class Network {
  readonly fetch: typeof fetch;
  readonly WebSocket: typeof WebSocket;
  readonly #sockets = new Set<WebSocket>();
  /** Aborted while it is switched off. */
  #calls = new AbortController();

  constructor() {
    const network = this;
    this.fetch = (input, init) => network.#fetch(input, init);
    this.WebSocket = class extends WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        network.#add(this);
      }
    };
  }

  get isOn(): boolean {
    return !this.#calls.signal.aborted;
  }

  /** Ends what is under way, and lets nothing new through. */
  switchOff(): void {
    this.#calls.abort(new TypeError("the network is switched off"));
    for (const socket of this.#sockets) socket.close();
  }

  switchOn(): void {
    this.#calls = new AbortController();
  }

  #fetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
    const { signal } = this.#calls;
    const both = init.signal ? AbortSignal.any([signal, init.signal]) : signal;
    return fetch(input, { ...init, signal: both });
  }

  #add(socket: WebSocket): void {
    if (!this.isOn) return socket.close();
    this.#sockets.add(socket);
    socket.addEventListener("close", () => this.#sockets.delete(socket));
  }
}
