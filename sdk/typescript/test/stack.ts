import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

const NAMES = [
  "ingest",
  "query_api",
  "gateway",
  "sequencer",
  "projector_unread",
  "projector_mysql",
  "redis",
  "mariadb",
  "kafka",
  "kafka_controller",
] as const;

/** The program `tidemark` that tests run; without it, what needs a stack is skipped. */
export const PROGRAM = process.env["TIDEMARK"];

/** A stack of its own: Kafka, Redis, MariaDB and all services, on free ports. */
export class Stack {
  private constructor(
    private readonly program: string,
    private readonly directory: string,
    private readonly firstPort: number,
  ) {}

  static async start(program: string): Promise<Stack> {
    const directory = await mkdtemp(join(tmpdir(), "tidemark-sdk-"));
    const stack = new Stack(program, directory, await freePorts());
    try {
      await stack.up();
    } catch (error) {
      await stack.stop();
      throw error;
    }
    return stack;
  }

  #port(name: (typeof NAMES)[number]): number {
    return this.firstPort + NAMES.indexOf(name);
  }

  get ingest(): string {
    return `http://127.0.0.1:${this.#port("ingest")}`;
  }

  get query(): string {
    return `http://127.0.0.1:${this.#port("query_api")}`;
  }

  get gateway(): string {
    return `ws://127.0.0.1:${this.#port("gateway")}`;
  }

  /** Where browsers find the chat. */
  get page(): string {
    return `http://127.0.0.1:${this.#port("gateway")}`;
  }

  /** Starts what does not run. */
  async up(): Promise<void> {
    await this.#stack("up");
  }

  /** Kills a service, as a crash does, or sends it another signal. */
  async kill(
    service: string,
    signal: NodeJS.Signals = "SIGKILL",
  ): Promise<void> {
    const file = join(this.directory, "run", `${service}.pid`);
    const [pid] = (await readFile(file, "utf8")).split(/\s/);
    process.kill(Number(pid), signal);
  }

  /** Stops everything, and deletes its data. */
  async stop(): Promise<void> {
    try {
      await this.#stack("clean");
    } finally {
      await rm(this.directory, { recursive: true });
    }
  }

  async #stack(command: string): Promise<void> {
    const ports = NAMES.map(
      (name) => `stack.ports.${name}=${this.#port(name)}`,
    );
    const settings = [`stack.run_dir=${join(this.directory, "run")}`, ...ports];
    const args = settings.flatMap((setting) => ["--set", setting]);
    // Brokers of tests live for minutes: Java is to compile fast, not well.
    const java = { JDK_JAVA_OPTIONS: "-XX:TieredStopAtLevel=1" };
    const env = { ...process.env, ...java };
    await run(this.program, ["stack", command, ...args], { env });
  }
}

/** The first of so many free ports in a row, below those that systems hand out. */
async function freePorts(): Promise<number> {
  for (;;) {
    const first = 12_000 + Math.floor(Math.random() * 18_000);
    const ports = NAMES.map((_, i) => first + i);
    const free = await Promise.all(ports.map(isFree));
    if (!free.includes(false)) return first;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.on("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
