// Writes the types of the REST calls and of the gateway's frames, as a running stack describes them; with --check it only says whether they are stale.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const { env } = process;
const ingest = env.TIDEMARK_INGEST ?? "http://127.0.0.1:7301";
const query = env.TIDEMARK_QUERY ?? "http://127.0.0.1:7302";
const gateway = env.TIDEMARK_GATEWAY ?? "http://127.0.0.1:7308";
const descriptions = {
  ingest: () => description(`${ingest}/openapi.json`),
  query: () => description(`${query}/openapi.json`),
  gateway: async () => ofFrames(await description(`${gateway}/asyncapi.json`)),
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

for (const [name, describe] of Object.entries(descriptions)) {
  const file = new URL(`../src/generated/${name}.ts`, import.meta.url);
  const types = astToString(await openapiTS(await describe()));
  const text = `// Written by \`npm run generate\` from the description of ${name}.\n\n${types}`;
  if (!isCheck) {
    await writeFile(file, text);
  } else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
    console.error(`src/generated/${name}.ts is stale: npm run generate`);
    process.exitCode = 1;
  }
}
