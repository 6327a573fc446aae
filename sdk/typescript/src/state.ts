import {
  takeChange,
  takeContact,
  takeFetched,
  takeFetchedChanges,
  takeHead,
  takeMessage,
  takeRead,
} from "./chat-events.js";
import {
  beginsAfter,
  joinedChat,
  newChat,
  setGroup,
  takeSyncedGroup,
  takeSyncedUser,
  type ChangesAfter,
  type Chat,
  type WithGroup,
} from "./chat.js";
import { splitKey, type ChatKey } from "./chat-key.js";
import {
  parsePosition,
  type EventFrame,
  type GroupChangeEvent,
  type HeadFrame,
} from "./frames.js";
import type {
  ChangesPage,
  MessagesPage,
  OwnProfile,
  SyncAnswer,
  ToldProfile,
} from "./rest.js";
import { PARTITIONS, SyncToken, type Position } from "./token.js";

/** What a storage keeps of a device besides its chats. */
export interface StoredHead {
  uid: string;
  token: string | null;
  /** What the pages of a full sync under way had so far. */
  returned: ChatKey[];
  fullSyncs: number;
  /** The user's own; absent where an earlier version has stored it. */
  profile?: OwnProfile | null;
}

/** What has changed in a device since it was last asked. A chat is `null` where it is gone. */
export interface StateChanges {
  head: StoredHead;
  chats: Map<ChatKey, Chat | null>;
}

/** What a device knows of its user: pure, so that it can be tested and stored. It follows the rules of clients (PROTOCOL W8, W9). */
export class DeviceState {
  readonly #chats = new Map<ChatKey, Chat>();
  #token: SyncToken | null = null;
  #returned = new Set<ChatKey>();
  #fullSyncs = 0;
  #profile: OwnProfile | null = null;
  #changed = new Set<ChatKey>();

  /** Of a device that knows nothing yet. */
  constructor(readonly uid: string) {}

  /** Of a device that was stored. */
  static of(head: StoredHead, chats: Iterable<Chat>): DeviceState {
    const state = new DeviceState(head.uid);
    for (const chat of chats) {
      // Programs of an earlier version have stored none.
      chat.ownPos ??= 0;
      chat.fetched.ownPos ??= 0;
      state.#chats.set(chat.key, chat);
    }
    state.#token = head.token === null ? null : SyncToken.parse(head.token);
    state.#returned = new Set(head.returned);
    state.#fullSyncs = head.fullSyncs;
    state.#profile = head.profile ?? null;
    return state;
  }

  /** `since` of the next sync, of `hello` and of `resume`; `null` before the first sync. */
  get token(): string | null {
    return this.#token?.toString() ?? null;
  }

  /** What pages of a chat have to reflect: `after=` of the calls that fetch them. An older one would undo what is known. */
  knownOf(key: ChatKey): string | null {
    const chat = this.#chats.get(key);
    if (this.#token === null || chat === undefined) return null;
    const token = SyncToken.parse(this.#token.toString());
    token.advance(partitionOf(this.uid, key), chat.knownTo);
    return token.toString();
  }

  /** All conversations and groups, deleted contacts too. */
  get chats(): ReadonlyMap<ChatKey, Chat> {
    return this.#chats;
  }

  /** What others see of the user; `null` where that is not known, or the user has set nothing. */
  get profile(): OwnProfile | null {
    return this.#profile;
  }

  /** The number of a message of the user's with this `client_msg_id`, if the device has it. */
  midOf(key: ChatKey, clientMsgId: string): number | null {
    for (const message of this.#chats.get(key)?.messages.values() ?? []) {
      const { srcid, client_msg_id: id, mid } = message;
      if (srcid === this.uid && id === clientMsgId) return mid;
    }
    return null;
  }

  /** How often everything was fetched. */
  get fullSyncs(): number {
    return this.#fullSyncs;
  }

  /** What has changed since the last call. */
  drainChanges(): StateChanges {
    const { uid, token, profile } = this;
    const returned = [...this.#returned];
    const chats = new Map<ChatKey, Chat | null>();
    for (const key of this.#changed) {
      chats.set(key, this.#chats.get(key) ?? null);
    }
    this.#changed = new Set();
    return {
      head: { uid, token, returned, fullSyncs: this.#fullSyncs, profile },
      chats,
    };
  }

  /** These changes were drained, and are not stored. */
  putBack(changes: Iterable<ChatKey>): void {
    for (const key of changes) this.#changed.add(key);
  }

  /** Takes a page of a sync; whether there is another. */
  takeSync(answer: SyncAnswer): boolean {
    const next = SyncToken.parse(answer.next);
    // No page goes back: another full sync has begun, and what the pages of the one before had does not count.
    if (this.#token !== null && !next.reaches(this.#token)) {
      this.#returned.clear();
      this.#profile = null;
    }
    if (answer.profile) this.#takeProfile(answer.profile);
    for (const row of answer.conversations) {
      if (typeof row.peer === "string") {
        const key: ChatKey = `user:${row.peer}`;
        takeSyncedUser(this.#returnedChat(key, answer.full), row);
      }
    }
    for (const row of answer.groups) {
      const key: ChatKey = `group:${row.gid}`;
      takeSyncedGroup(this.#returnedChat(key, answer.full), row);
    }
    for (const gid of answer.left) this.#drop(`group:${gid}`);
    if (!answer.more) {
      if (answer.full) this.#dropOthers();
      this.#returned = new Set();
    }
    this.#token = next;
    return answer.more;
  }

  /** Of a full sync it begins anew: the log may be another one. */
  #returnedChat(key: ChatKey, full: boolean): Chat {
    if (full) {
      if (!this.#returned.has(key)) this.#chats.delete(key);
      this.#returned.add(key);
    }
    return this.#userChat(key);
  }

  #userChat(key: ChatKey): Chat {
    const chat = this.#chats.get(key) ?? newChat(key);
    this.#put(chat);
    return chat;
  }

  #dropOthers(): void {
    for (const key of this.#chats.keys()) {
      if (!this.#returned.has(key)) this.#drop(key);
    }
    this.#fullSyncs += 1;
  }

  #drop(key: ChatKey): void {
    if (this.#chats.delete(key)) this.#changed.add(key);
  }

  #put(chat: Chat): void {
    this.#chats.set(chat.key, chat);
    this.#changed.add(chat.key);
  }

  /** Whether an event is below the token, or there is none yet: then nothing becomes of it. */
  knows({ at }: EventFrame): boolean {
    return this.#token === null || this.#token.covers(parsePosition(at));
  }

  /** Takes an event; the chat that it changes. `null` where it was known already, or changes none. */
  takeEvent(event: EventFrame): ChatKey | null {
    if (!this.#movesOn(parsePosition(event.at))) return null;
    const { uid } = this;
    const other = (one: string, two: string): string =>
      one === uid ? two : one;
    if (event.message !== undefined) {
      const { srcid, destid, gid } = event.message;
      const chat = this.#chat(gid, destid && other(srcid, destid));
      if (chat !== null) takeMessage(chat, uid, event.message);
      return chat?.key ?? null;
    }
    if (event.message_change !== undefined) {
      const { by, peer, gid } = event.message_change;
      const chat = this.#chat(gid, peer && other(by, peer));
      const { offset } = parsePosition(event.at);
      if (chat !== null) takeChange(chat, uid, offset, event.message_change);
      return chat?.key ?? null;
    }
    if (event.read_position !== undefined) {
      const { peer, gid, device, mid, n } = event.read_position;
      const chat = this.#chat(gid, peer);
      if (chat !== null) takeRead(chat, [device], mid, n);
      return chat?.key ?? null;
    }
    if (event.contact_change !== undefined) {
      const chat = this.#chat(null, event.contact_change.peer);
      if (chat !== null) takeContact(chat, uid, event.contact_change);
      return chat?.key ?? null;
    }
    if (event.profile?.uid === uid) {
      this.#takeProfile({ ...event.profile, at: event.at });
    }
    const change = event.group_change;
    return change === undefined ? null : this.#takeGroupChange(change);
  }

  /** A sync may have had a later one than the event that comes now. */
  #takeProfile(profile: ToldProfile): void {
    const { nick, avatar = null, extra = null, at } = profile;
    const known = this.#profile && parsePosition(this.#profile.at).offset;
    if (known !== null && parsePosition(at).offset < known) return;
    this.#profile = { nick, avatar, extra, at };
  }

  /** The chat of an event, which changes. A user becomes a chat by anything that happens; a group only by joining it. */
  #chat(
    gid: string | null | undefined,
    peer: string | null | undefined,
  ): Chat | null {
    if (typeof gid === "string") return this.#group(gid);
    return typeof peer === "string" ? this.#userChat(`user:${peer}`) : null;
  }

  #group(gid: string): Chat | null {
    const chat = this.#chats.get(`group:${gid}`) ?? null;
    if (chat !== null) this.#put(chat);
    return chat;
  }

  #takeGroupChange(event: GroupChangeEvent): ChatKey | null {
    const key: ChatKey = `group:${event.gid}`;
    const own = event.members.find((member) => member.uid === this.uid);
    const chat = this.#group(event.gid);
    const { name, dissolved, member_count: memberCount } = event;
    const known = chat?.with.type === "group" ? chat.with : null;
    const { role, muted, joined } = own ?? { ...known, joined: false };
    if (role === undefined || muted === undefined) return null;
    if (role === null) {
      this.#drop(key);
      return key;
    }
    const group: WithGroup = {
      type: "group",
      name,
      role,
      muted,
      dissolved,
      memberCount,
      wholeHistory: event.whole_history,
      joinMid: joined || known === null ? event.last_mid : known.joinMid,
    };
    if (chat !== null && !joined) setGroup(chat, group);
    else this.#put(joinedChat(key, group, event.last_mid));
    return key;
  }

  /**
   * Takes how far a group has come; it has to be fetched then. Where the head itself is below the token, since a sync has moved that meanwhile, some
   * of what it stands for may not be; and it says nothing that could go back.
   */
  takeHead(head: HeadFrame): ChatKey | null {
    this.#movesOn(parsePosition(head.at));
    const chat = this.#group(head.gid);
    if (chat !== null) takeHead(chat, head);
    return chat?.key ?? null;
  }

  /** Takes a token of a ping: everything below it was handed over before. */
  takePing(text: string): void {
    if (this.#token === null) return;
    this.#token.raise(SyncToken.parse(text));
  }

  /** What is below the token is known (W9), and what is handled moves it (W8). */
  #movesOn(at: Position): boolean {
    if (this.#token === null) return false;
    const isNew = !this.#token.covers(at);
    this.#token.advance(at.partition, at.offset + 1);
    return isNew;
  }

  /**
   * Takes a page of the messages of a chat that were missing; above which the next one begins, if there is another. What is of a group that shows
   * another part of its history than the device knows of is not taken: the device will hear of that, and what it lacks stays missing.
   */
  takeMessages(key: ChatKey, page: MessagesPage): number | null {
    const next = nextOf(page);
    const chat = this.#chats.get(key);
    if (chat === undefined || !beginsAfter(chat, page.begins_after_mid)) {
      return null;
    }
    takeFetched(chat, this.uid, page.items, next);
    this.#changed.add(key);
    return next;
  }

  /** Takes a page of the changes of a chat behind these, as with messages; behind which the next one begins, if there is another. */
  takeMessageChanges(
    key: ChatKey,
    after: ChangesAfter,
    page: ChangesPage,
  ): ChangesAfter | null {
    const next = nextChangesOf(page);
    const chat = this.#chats.get(key);
    if (chat === undefined || !beginsAfter(chat, page.begins_after_mid)) {
      return null;
    }
    takeFetchedChanges(chat, after, page.items, next);
    this.#changed.add(key);
    return next;
  }
}

function partitionOf(uid: string, key: ChatKey): number {
  const [kind, id] = splitKey(key);
  const sum = kind === "group" ? BigInt(id) : BigInt(uid) + BigInt(id);
  return Number(sum % BigInt(PARTITIONS));
}

/** `after_mid=3`. A page may be empty and not the last. */
export function nextOf(page: { next?: string | null }): number | null {
  return numbersOf(page, /^after_mid=(\d+)$/)?.[0] ?? null;
}

/** `after_chg=3` or `after_chg=3&after_own_pos=57`. */
function nextChangesOf(page: ChangesPage): ChangesAfter | null {
  const pattern = /^after_chg=(\d+)(?:&after_own_pos=(\d+))?$/;
  const numbers = numbersOf(page, pattern);
  return numbers && { chg: numbers[0] ?? 0, ownPos: numbers[1] ?? 0 };
}

function numbersOf(
  { next }: { next?: string | null },
  pattern: RegExp,
): number[] | null {
  if (typeof next !== "string") return null;
  const match = pattern.exec(next);
  if (match === null) throw new RangeError(`next is no page: ${next}`);
  return match.slice(1).map((text) => Number(text ?? 0));
}
