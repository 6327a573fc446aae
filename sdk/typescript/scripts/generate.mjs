// Writes the types of the REST calls and of the gateway's frames, as a running stack describes them; with --check it only says whether they are stale.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const { env } = process;
const ingest = env.TIDEMARK_INGEST ?? "http://127.0.0.1:7301";
const query = env.TIDEMARK_QUERY ?? "http://127.0.0.1:7302";
const gateway = env.TIDEMARK_GATEWAY ?? "http://127.0.0.1:7308";
const descriptions = {
  Ingest: () => description(`${ingest}/openapi.json`),
  Query: () => description(`${query}/openapi.json`),
  Gateway: async () => ofFrames(await description(`${gateway}/asyncapi.json`)),
};
const isCheck = process.argv.includes("--check");

async function description(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return response.json();
}

/** Frames as schemas of an OpenAPI description without calls, by who sends them and their type: `gateway.ping`. */
function ofFrames({ info, components }) {
  const frames = Object.entries(components.messages).map(([id, message]) => [
    id,
    { description: message.summary, ...message.payload },
  ]);
  const schemas = { ...components.schemas, ...Object.fromEntries(frames) };
  return { openapi: "3.1.0", info, paths: {}, components: { schemas } };
}

const file = new URL("../src/generated.ts", import.meta.url);
let text =
  "// Written by `npm run generate` from what the services say of themselves.\n";
for (const [name, describe] of Object.entries(descriptions)) {
  const types = astToString(await openapiTS(await describe()));
  text += `\nexport namespace ${name} {\n${types}}\n`;
}
if (!isCheck) {
  await writeFile(file, text);
} else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
  console.error("src/generated.ts is stale: npm run generate");
  process.exitCode = 1;
}
