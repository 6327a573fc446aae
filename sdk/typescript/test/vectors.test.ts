import assert from "node:assert/strict";
import { test } from "node:test";
import { missing, type Chat } from "../src/chat.js";
import type { ChatKey } from "../src/chat-key.js";
import type { EventFrame, HeadFrame } from "../src/frames.js";
import { MemoryStorage } from "../src/storage.js";
import type {
  ChangesPage,
  Message,
  MessagesPage,
  SyncAnswer,
} from "../src/rest.js";
import { DeviceState } from "../src/state.js";
import { readVector } from "./vectors-folder.js";

type Step =
  | { sync: SyncAnswer }
  | { frame: EventFrame | HeadFrame | { type: "ping"; token: string } }
  | { messages: MessagesPage; of: ChatKey }
  | {
      changes: ChangesPage;
      of: ChatKey;
      after: { chg: number; own_pos: number };
    }
  | { chats: object; token: string | null; full_syncs: number };

function take(state: DeviceState, step: Step): void {
  if ("sync" in step) state.takeSync(step.sync);
  else if ("messages" in step) state.takeMessages(step.of, step.messages);
  else if ("changes" in step) {
    const { chg, own_pos: ownPos } = step.after;
    state.takeMessageChanges(step.of, { chg, ownPos }, step.changes);
  } else if ("chats" in step) {
    const { token, fullSyncs: full_syncs } = state;
    const chats = Object.fromEntries(
      [...state.chats].map(([key, chat]) => [key, known(chat)]),
    );
    assert.deepEqual({ chats, token, full_syncs }, step);
  } else if (step.frame.type === "event") state.takeEvent(step.frame);
  else if (step.frame.type === "head") state.takeHead(step.frame);
  else state.takePing(step.frame.token);
}

/** A chat in the words of the vectors. */
function known(chat: Chat): object {
  const { last, lastMid: last_mid, chg, readMid: read_mid, unread } = chat;
  const { ownPos: own_pos } = chat;
  const lacks = missing(chat);
  return {
    ...knownOfOther(chat.with),
    ...{ last_mid, chg, own_pos, read_mid, unread },
    last: last && knownOfMessage(last),
    messages: [...chat.messages.values()]
      .sort((a, b) => a.mid - b.mid)
      .map(knownOfMessage),
    missing: lacks && {
      after_mid: lacks.mid,
      after_chg: lacks.chg,
      after_own_pos: lacks.ownPos,
    },
  };
}

function knownOfOther(other: Chat["with"]): object {
  if (other.type === "user") {
    return { ...other.flags, deleted: other.deleted, peer_n: other.peerN };
  }
  const { type, memberCount, wholeHistory, joinMid, ...same } = other;
  const named = { whole_history: wholeHistory, join_mid: joinMid };
  return { ...same, member_count: memberCount, ...named };
}

/** As the API has it, which leaves out what is not set; but not `client_msg_id`. */
function knownOfMessage(message: Message): object {
  const isSet = ([name, value]: [string, unknown]): boolean =>
    name === "client_msg_id" || (value !== null && value !== false);
  return Object.fromEntries(Object.entries(message).filter(isSet));
}

const kinds = new Set<string>();
const devices =
  readVector<{ uid: string; steps: Step[] }[]>("simulated.json");
for (const [at, { uid, steps }] of devices.entries()) {
  for (const step of steps) kinds.add(Object.keys(step).sort().join(" "));

  test(`a device knows what the other core's does (${at})`, () => {
    const state = new DeviceState(uid);
    for (const step of structuredClone(steps)) take(state, step);
  });

  test(`so does one whose program ends after each step (${at})`, async () => {
    const storage = new MemoryStorage();
    let state = new DeviceState(uid);
    for (const step of structuredClone(steps)) {
      take(state, step);
      await storage.save({ ...state.drainChanges(), queue: new Map() });
      const { head, chats } = await storage.load();
      state = DeviceState.of(head!, chats);
    }
  });
}

test("the vectors have steps of each kind", () => {
  const all = ["after changes of", "chats full_syncs token", "frame"];
  assert.deepEqual([...kinds].sort(), [...all, "messages of", "sync"]);
});
