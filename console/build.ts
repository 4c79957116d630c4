// Bundles the console into the folder that the service serves. Names hold a hash of what is inside, so that browsers
// may keep every file but index.html for ever. Run by hatch_build.py.

import { build, type BuildOptions, type Metafile } from "esbuild";

const out = "../service/worldledger_service/console/dist";
const common: BuildOptions = {
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outdir: `${out}/assets`,
  entryNames: "[name]-[hash]",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  metafile: true,
};

/** The address of what an entry point became. */
function address(made: Metafile, entry: string): string {
  const [name] = Object.entries(made.outputs).find(([, output]) => output.entryPoint === entry) ?? [];
  if (name === undefined) throw new Error(`${entry} made no file`);
  return `/assets/${name.split("/").at(-1)}`;
}

await Deno.remove(out, { recursive: true }).catch(() => undefined);
// A script and no module: a page that was opened from a disk may not run modules as workers.
const worker = await build({ ...common, format: "iife", entryPoints: ["src/core/verify.worker.ts"], metafile: true });
const made = await build({
  ...common,
  metafile: true,
  entryPoints: ["src/main.tsx", "src/style.css", "src/icon.svg"],
  loader: { ".svg": "copy" },
  define: { VERIFY_WORKER: JSON.stringify(address(worker.metafile, "src/core/verify.worker.ts")) },
});
const page = (await Deno.readTextFile("index.html"))
  .replace("{{icon}}", address(made.metafile, "src/icon.svg"))
  .replace("{{style}}", address(made.metafile, "src/style.css"))
  .replace("{{script}}", address(made.metafile, "src/main.tsx"));
await Deno.writeTextFile(`${out}/index.html`, page);
Deno.exit(0);
