// Writes the types of the REST calls, as a running stack describes them; with --check it only says whether they are stale.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const services = {
  ingest: process.env.TIDEMARK_INGEST ?? "http://127.0.0.1:7301",
  query: process.env.TIDEMARK_QUERY ?? "http://127.0.0.1:7302",
};
const isCheck = process.argv.includes("--check");

async function description(url) {
  const response = await fetch(`${url}/openapi.json`);
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return response.json();
}

for (const [name, url] of Object.entries(services)) {
  const file = new URL(`../src/generated/${name}.ts`, import.meta.url);
  const types = astToString(await openapiTS(await description(url)));
  const text = `// Written by \`npm run generate\` from the OpenAPI description of ${name}.\n\n${types}`;
  if (!isCheck) {
    await writeFile(file, text);
  } else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
    console.error(`src/generated/${name}.ts is stale: npm run generate`);
    process.exitCode = 1;
  }
}
