// Reads src/ and writes the page that the Python package serves: one classic script, one style sheet, one HTML file.
// `made-from.txt` has the hash of the sources and of the page, so that a test without npm can tell a stale page.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const page = `${here}../src/composer_replication/viewer/page/`;

function sources(folder) {
  return readdirSync(`${here}${folder}`, { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? sources(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`]))
    .sort();
}

function hashOf(folder, names) {
  const hash = createHash("sha256");
  for (const name of names.sort()) hash.update(`${name}\0`).update(readFileSync(`${folder}${name}`)).update("\0");
  return hash.digest("hex");
}

rmSync(page, { recursive: true, force: true });
mkdirSync(page, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: ["src/index.tsx", "src/index.css"],
  outdir: page,
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  legalComments: "none",
  banner: { js: `/*\n${readFileSync(`${here}node_modules/preact/LICENSE`, "utf8")}*/` },
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
});
copyFileSync(`${here}src/index.html`, `${page}index.html`);
const made = hashOf(page, readdirSync(page));
const from = hashOf(here, ["build.mjs", "package-lock.json", "package.json", "tsconfig.json", ...sources("src")]);
writeFileSync(`${page}made-from.txt`, `${from}\n${made}\n`);
