// Writes dist/chat.js, which is in the program; with --check it only says whether it is stale.
import { readFile } from "node:fs/promises";
import { build } from "esbuild";

const isCheck = process.argv.includes("--check");
const outfile = "dist/chat.js";
const { outputFiles } = await build({
  entryPoints: ["src/main.ts"],
  outfile,
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "// Written by `npm run build` in gateway/page." },
  write: !isCheck,
});
if (isCheck) {
  const [built] = outputFiles;
  const kept = await readFile(outfile, "utf8").catch(() => "");
  if (kept !== built.text) {
    console.error(`gateway/page/${outfile} is stale: make page-built`);
    process.exitCode = 1;
  }
}
