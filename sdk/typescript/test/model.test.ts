import assert from "node:assert/strict";
import { test } from "node:test";
import { missing, type Chat, type ChatKey } from "../src/chat.js";
import { DeviceState, type StoredHead } from "../src/state.js";
import { GroupModel } from "./model-group.js";
import { ServiceModel, type StreamModel } from "./model-service.js";
import { ME } from "./model-direct.js";
import { random, type Random } from "./random.js";

const RUNS = Number(process.env["TIDEMARK_SDK_RUNS"] ?? 300);
const STEPS = 300;

/** A device with its storage and its connection, driven by hand. */
class Driver {
  state = new DeviceState(ME);
  stream: StreamModel | null = null;
  #head: StoredHead = this.state.drainChanges().head;
  readonly #stored = new Map<ChatKey, Chat>();

  constructor(
    private readonly service: ServiceModel,
    private readonly random: Random,
  ) {}

  /** Something happens to it, or between it and the services. */
  step(): void {
    const { random, stream } = this;
    const step = random.below(40);
    if (step < 1) this.#crash();
    else if (step < 2) this.stream = null;
    else if (step < 5) this.#store();
    else if (step < 7) this.#fetch();
    else if (stream === null) this.connect();
    else if (step < 10) this.state.takePing(stream.ping());
    else if (step < 13) this.#repeat(stream);
    else this.receive();
  }

  connect(): void {
    const { random } = this;
    if (this.state.token === null || random.oneIn(3)) this.#sync();
    this.stream = this.service.stream(this.state.token!);
  }

  #sync(): void {
    while (this.state.takeSync(this.service.sync(this.state.token))) {
      if (this.random.oneIn(3)) this.service.step();
    }
  }

  /** Takes the next frame; whether there was one. */
  receive(): boolean {
    const frame = structuredClone(this.stream?.next() ?? null);
    if (frame === null) return false;
    if (frame.type === "head") this.state.takeHead(frame);
    else this.state.takeEvent(frame);
    return true;
  }

  #repeat(stream: StreamModel): void {
    const event = structuredClone(stream.repeat());
    if (event !== null) assert.equal(this.state.takeEvent(event), null);
  }

  #store(): void {
    const { head, chats } = structuredClone(this.state.drainChanges());
    this.#head = head;
    for (const [key, chat] of chats) {
      if (chat === null) this.#stored.delete(key);
      else this.#stored.set(key, chat);
    }
  }

  /** Begins again with what was stored. */
  #crash(): void {
    const chats = structuredClone([...this.#stored.values()]);
    this.state = DeviceState.of(this.#head, chats);
    this.stream = null;
  }

  #fetch(): void {
    const keys = [...this.state.chats.keys()];
    if (keys.length > 0) this.fetch(this.random.pick(keys));
  }

  fetch(key: ChatKey): void {
    const chat = (): Chat | undefined => this.state.chats.get(key);
    const lacks = () => missing(chat() ?? assert.fail("no chat"));
    if (lacks() === null) return;
    this.#meanwhile();
    const { service, random } = this;
    const model = () => service.models.get(key) ?? assert.fail(key);
    const joinMid = () => {
      const group = model();
      return group instanceof GroupModel ? group.joinMid : 0;
    };
    const limit = () => 1 + random.below(9);
    let after = (chat() && lacks()?.mid) ?? null;
    while (after !== null) {
      const above = Math.max(after, joinMid());
      const page = model().contents.messagesPage(above, limit());
      after = this.state.takeMessages(key, page);
      this.#meanwhile();
    }
    after = (chat() && lacks()?.chg) ?? null;
    while (after !== null) {
      const page = model().contents.changesPage(after, limit(), joinMid());
      after = this.state.takeMessageChanges(key, after, page);
      this.#meanwhile();
    }
  }

  /** What a page has and the stream does not have yet. */
  #meanwhile(): void {
    for (let i = this.random.below(8); i > 3; i -= 1) this.service.step();
  }
}

test("a device that drops, repeats, forgets and resumes ends with what was", () => {
  for (let seed = 1; seed <= RUNS; seed += 1) {
    const dice = random(seed);
    const service = new ServiceModel(dice);
    const device = new Driver(service, dice);
    for (let step = 0; step < STEPS; step += 1) {
      if (dice.oneIn(2)) service.step();
      else device.step();
    }
    if (device.stream === null) device.connect();
    service.isAtRest = true;
    while (device.receive());
    for (const key of [...device.state.chats.keys()]) device.fetch(key);
    const known = service.known(device.state.chats.values());
    assert.deepEqual(sorted(known), sorted(service.expected()), `seed ${seed}`);
  }
});

function sorted(chats: Record<string, unknown>): unknown[] {
  return Object.entries(chats).sort(([a], [b]) => (a < b ? -1 : 1));
}
