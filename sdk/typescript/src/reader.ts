import type { ChangesAfter } from "./chat.js";
import { splitKey, type ChatKey } from "./chat-key.js";
import {
  Service,
  type ChangesPage,
  type MessagesPage,
  type QueryPaths,
} from "./rest.js";
import type { DeviceSettings } from "./settings.js";
import { nextOf, type DeviceState } from "./state.js";

/** The most messages or changes that a page has. */
const PAGE = 200;

/** Reads what a device is missing from the query API. */
export class Reader {
  readonly #query: Service<QueryPaths>;

  constructor(settings: DeviceSettings, signal: AbortSignal) {
    const { query: url, token, fetch } = settings;
    this.#query = new Service({ url, token, fetch, signal });
  }

  /** Throws if the query API refuses the user's calls, and says why. */
  async probe(uid: string): Promise<void> {
    // One read of Redis: all devices of a gateway that ends ask at the same time.
    await this.#query.get("/v1/users/{uid}/unread", { uid }, { device: "pc" });
  }

  /** Syncs from the device's token on. `onPage` runs after each page. */
  async sync(state: DeviceState, onPage: () => void): Promise<void> {
    for (let more = true; more;) {
      const since = state.token ?? undefined;
      const path = "/v1/users/{uid}/sync" as const;
      const { uid } = state;
      const query = since === undefined ? {} : { since };
      more = state.takeSync(await this.#query.get(path, { uid }, query));
      onPage();
    }
  }

  /** A page of a chat's messages, as new as what the device knows of it. */
  messages(
    state: DeviceState,
    key: ChatKey,
    after_mid: number,
  ): Promise<MessagesPage> {
    const [kind, id] = splitKey(key);
    const { uid } = state;
    const query = { after_mid, limit: PAGE, ...reflecting(state, key) };
    if (kind === "group") {
      const path = "/v1/groups/{gid}/messages";
      return this.#query.get(path, { gid: id }, { uid, ...query });
    }
    const path = "/v1/users/{uid}/conversations/{peer}/messages";
    return this.#query.get(path, { uid, peer: id }, query);
  }

  /** Which of these `client_msg_id`s the user's messages above a number have, and their numbers. */
  async find(
    state: DeviceState,
    key: ChatKey,
    ids: ReadonlySet<string>,
    above: number,
  ): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (let after: number | null = above; after !== null;) {
      const page: MessagesPage = await this.messages(state, key, after);
      for (const { srcid, client_msg_id: id, mid } of page.items) {
        if (srcid === state.uid && id && ids.has(id)) found.set(id, mid);
      }
      after = found.size < ids.size ? nextOf(page) : null;
    }
    return found;
  }

  /** A page of the changes to a chat's messages, as new as what the device knows of it. */
  changes(
    state: DeviceState,
    key: ChatKey,
    { chg: after_chg, ownPos }: ChangesAfter,
  ): Promise<ChangesPage> {
    const [kind, id] = splitKey(key);
    const { uid } = state;
    // An earlier query API does not know it.
    const own = ownPos > 0 ? { after_own_pos: ownPos } : {};
    const of = { after_chg, ...own };
    const query = { ...of, limit: PAGE, ...reflecting(state, key) };
    if (kind === "group") {
      const path = "/v1/groups/{gid}/changes";
      return this.#query.get(path, { gid: id }, { uid, ...query });
    }
    const path = "/v1/users/{uid}/conversations/{peer}/changes";
    return this.#query.get(path, { uid, peer: id }, query);
  }
}

function reflecting(state: DeviceState, key: ChatKey): { after?: string[] } {
  const known = state.knownOf(key);
  return known === null ? {} : { after: [known] };
}
