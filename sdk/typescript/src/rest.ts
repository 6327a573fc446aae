import type { Ingest, Query } from "./generated.js";
import { askToken, baseUrl, checkNames, type TokenSource } from "./checks.js";

export type IngestPaths = Ingest.paths;
export type QueryPaths = Query.paths;

type Schemas = Query.components["schemas"];
/** A message as query-api returns it. */
export type Message = Schemas["MessageItem"];
/** A change to a message, or to what the user sees. */
export type ChangeItem = Schemas["ChangeItem"];
/** A conversation between two users, in a sync. */
export type SyncedConversation = Schemas["SyncedConversation"];
/** A group in the list of a member. */
export type ListedGroup = Schemas["GroupItem"];
/** What others see of the device's user, and which event in `chat.events` says so. */
export interface OwnProfile {
  nick: string;
  /** An http or https URL; `null` where there is none. */
  avatar: string | null;
  /** An object of the application's own. */
  extra: object | null;
  at: string;
}
/** The same as calls and frames have it: what is not set may be left out. */
export type ToldProfile = Pick<OwnProfile, "nick" | "at"> & Partial<OwnProfile>;
/** What has changed for a user since a token, or a page of it. An earlier version does not tell the user's profile. */
export type SyncAnswer = Schemas["SyncAnswer"];
/** Messages of one conversation. */
export type MessagesPage = Schemas["MessagesPage"];
/** Changes of one conversation. */
export type ChangesPage = Schemas["ChangesPage"];
/** What a service says of a call that it refuses (RFC 9457). */
export type Problem =
  Schemas["Problem"] | Ingest.components["schemas"]["Problem"];

/** Longer than any call may take by its own `timeout_ms`. */
const TIMEOUT_MS = 40_000;

/** A call that was refused, or not answered. */
export class ServiceError extends Error {
  override name = "ServiceError";

  constructor(
    message: string,
    /** 0 where there was no answer. */
    readonly status: number,
    readonly problem: Problem | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same call may succeed later. Of a send the outcome may be unknown: it is repeated with the same `client_msg_id`. */
  get isRetryable(): boolean {
    return this.status >= 500 || [0, 408, 429].includes(this.status);
  }
}

/** How a service is called. */
export interface ServiceSettings {
  /** `http://127.0.0.1:7302`. */
  url: string;
  /** The token to authenticate with; a function is called before each call. Without one the stack is an open one. */
  token?: TokenSource | undefined;
  fetch?: typeof fetch | undefined;
  /** Ends the calls that are under way. */
  signal?: AbortSignal;
}

type Method = "get" | "post" | "put";
type Operation<P, K extends keyof P, M extends Method> = P[K] extends {
  [m in M]: infer O;
}
  ? O
  : never;
type PathsWith<P, M extends Method> = {
  [K in keyof P]: Operation<P, K, M> extends { responses: unknown } ? K : never;
}[keyof P] &
  string;
type Given<Q> = [Q] extends [never] ? Record<string, never> : Q & object;
type Parameters<O, In extends string> = O extends {
  parameters: { [i in In]?: infer Q };
}
  ? Given<Exclude<Q, undefined>>
  : Record<string, never>;
type JsonBody<O> = O extends {
  requestBody: { content: { "application/json": infer B } };
}
  ? B
  : never;
type Content<R> = R extends { content: { "application/json": infer B } }
  ? B
  : never;
type Answer<O> = O extends { responses: infer R }
  ? Content<R[keyof R & (200 | 202)]>
  : never;

/** A typed caller of one service: `Service<QueryPaths>` or `Service<IngestPaths>`. */
export class Service<P extends object> {
  readonly #settings: ServiceSettings;
  readonly #fetch: typeof fetch;

  constructor(settings: ServiceSettings) {
    const names = { url: true, token: true, fetch: true, signal: true };
    checkNames("settings", settings, names);
    const url = baseUrl("url", "http", settings.url);
    this.#settings = { ...settings, url };
    // A browser's own must be called as a method of the window.
    this.#fetch = settings.fetch ?? fetch.bind(globalThis);
  }

  /** Reads. */
  get<K extends PathsWith<P, "get">>(
    path: K,
    parameters: Parameters<Operation<P, K, "get">, "path">,
    query?: Parameters<Operation<P, K, "get">, "query">,
  ): Promise<Answer<Operation<P, K, "get">>> {
    return this.#call("GET", path, parameters, query);
  }

  /** Posts. */
  post<K extends PathsWith<P, "post">>(
    path: K,
    parameters: Parameters<Operation<P, K, "post">, "path">,
    body: JsonBody<Operation<P, K, "post">>,
  ): Promise<Answer<Operation<P, K, "post">>> {
    return this.#call("POST", path, parameters, undefined, body);
  }

  /** Puts. */
  put<K extends PathsWith<P, "put">>(
    path: K,
    parameters: Parameters<Operation<P, K, "put">, "path">,
    body: JsonBody<Operation<P, K, "put">>,
  ): Promise<Answer<Operation<P, K, "put">>> {
    return this.#call("PUT", path, parameters, undefined, body);
  }

  async #token(): Promise<string | undefined> {
    try {
      return await askToken(this.#settings.token);
    } catch (cause) {
      throw new ServiceError(`no token: ${cause}`, 0, null, { cause });
    }
  }

  async #call<A>(
    method: string,
    path: string,
    parameters: object,
    query: object = {},
    body?: unknown,
  ): Promise<A> {
    const url = this.#settings.url + target(path, parameters, query);
    const headers: Record<string, string> = {};
    const token = await this.#token();
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    const init: RequestInit = { method, headers };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(body);
    }
    const { signal } = this.#settings;
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    init.signal = signal ? AbortSignal.any([timeout, signal]) : timeout;
    let answer: { ok: boolean; status: number; text: string };
    try {
      const response = await this.#fetch(url, init);
      const { ok, status } = response;
      answer = { ok, status, text: await response.text() };
    } catch (cause) {
      throw new ServiceError(`${url} does not answer`, 0, null, { cause });
    }
    const json = parse(answer.text);
    if (answer.ok && json !== null) return json as A;
    const problem = json as Problem | null;
    const detail = problem?.detail ?? problem?.title ?? "no answer of Tidemark";
    throw new ServiceError(
      `${url}: ${answer.status}: ${detail}`,
      answer.status,
      problem,
    );
  }
}

function target(path: string, parameters: object, query: object): string {
  const values = new Map<string, unknown>(Object.entries(parameters));
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(values.get(name))),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null) search.append(name, String(one));
    }
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

function parse(text: string): object | null {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === "object" ? json : null;
  } catch {
    return null;
  }
}
