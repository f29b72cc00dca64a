// Packs the packages to publish: the main package, whose optional dependencies are the native packages of the same version,
// and a native package for each platform that was built on this machine (native/npm).
//
//   node scripts/pack.mjs --out <folder> [--check]       prints the names of the tarballs, one a line
//
// --check asks npm whether it would publish each package unchanged (npm publish --dry-run).
//
// The optional dependencies are in the packed manifest only: a clone builds its own native core, and must not fetch one.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { packages } from "../native/targets.mjs";
import { isBuilt } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The folders of the native packages that were built. */
function nativeFolders() {
  if (!existsSync(packages)) return [];
  return readdirSync(packages)
    .map((name) => join(packages, name))
    .filter((folder) => readdirSync(folder).some((name) => name.endsWith(".node")));
}

/**
 * The manifest as published: without the fields for clones (scripts, tools, sources), and with the native packages as
 * optional dependencies. A native package of another version is an error: npm would not find it.
 */
export function publishedManifest(manifest, nativeManifests) {
  const odd = nativeManifests.find(({ version }) => version !== manifest.version);
  if (odd !== undefined) {
    throw new Error(`${odd.name} has version ${odd.version}, ${manifest.name} ${manifest.version}: build it again`);
  }
  const { scripts: _scripts, devDependencies: _development, ...published } = manifest;
  const built = (table) =>
    Object.fromEntries(
      Object.entries(table).map(([path, conditions]) => {
        if (typeof conditions === "string") return [path, conditions];
        const { "heddle-source": _source, ...rest } = conditions;
        return [path, rest];
      }),
    );
  return {
    ...published,
    browser: Object.fromEntries(Object.entries(manifest.browser).filter(([path]) => !path.startsWith("./src/"))),
    exports: built(manifest.exports),
    sideEffects: manifest.sideEffects.filter((path) => !path.startsWith("./src/")),
    optionalDependencies: Object.fromEntries(nativeManifests.map(({ name, version }) => [name, version])),
  };
}

/** The manifest of a native package as published: npm's proof of a package's origin needs its repository. */
const publishedNative = (native, { repository, homepage, bugs }) => ({ ...native, repository, homepage, bugs });

// The references of Markdown, and of HTML within it.
const relativeLink = /(\]\(|^\[[^\]]+\]: +|(?:src|href)=")(?!#|\/|[a-z]+:)([^)#"\s]+)/gm;

/** Markdown whose links to files outside the package lead to the repository at this version. */
export function publishedLinks(markdown, { repository, version, files }) {
  const packed = (path) => files.some((file) => path === file || path.startsWith(`${file}/`));
  const place = (path) => (/\.(?:png|svg|gif|jpe?g)$/.test(path) ? "raw" : "blob");
  const home = repository.url.replace(/^git\+|\.git$/g, "");
  return markdown.replace(relativeLink, (whole, open, path) =>
    packed(path) ? whole : `${open}${home}/${place(path)}/v${version}/${path.replace(/^\.\//, "")}`,
  );
}

const readManifest = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

function npm(args, cwd) {
  const command = process.platform === "win32" ? "npm.cmd" : "npm";
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`npm ${args[0]} in ${cwd} failed\n${stderr}`);
  return { stdout, stderr };
}

/** Packs files as a package; returns the tarball. */
function packFiles(out, manifest, files) {
  const stage = mkdtempSync(join(tmpdir(), "heddle-pack-"));
  try {
    for (const file of files) {
      cpSync(file, join(stage, basename(file)), { recursive: true, filter: (path) => !path.endsWith(".stamp") });
    }
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    const readme = join(stage, "README.md");
    if (existsSync(readme)) writeFileSync(readme, publishedLinks(readFileSync(readme, "utf8"), manifest));
    const { stdout } = npm(["pack", "--ignore-scripts", "--json", "--pack-destination", out], stage);
    return join(out, JSON.parse(stdout)[0].filename);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Packs all packages into a folder; returns the tarballs, the package itself first. */
export function pack(out) {
  if (!isBuilt()) throw new Error("dist is missing, or older than src: build first (npm run build)");
  mkdirSync(out, { recursive: true });
  const manifest = readManifest(root);
  const folders = nativeFolders();
  const natives = folders.map(readManifest);
  const packedFiles = manifest.files.map((name) => join(root, name));
  return [
    packFiles(out, publishedManifest(manifest, natives), packedFiles),
    ...folders.map((folder, index) => {
      const files = [...natives[index].files.map((name) => join(folder, name)), join(root, "LICENSE")];
      return packFiles(out, publishedNative(natives[index], manifest), files);
    }),
  ];
}

/** Asks npm whether it would publish these tarballs; a change or a refusal by npm is an error. */
function check(tarballs) {
  for (const tarball of tarballs) {
    const { stderr } = npm(["publish", "--dry-run", "--access", "public", tarball], root);
    const corrected = /npm warn publish .*(?:auto-corrected|errors corrected)[\s\S]*/.exec(stderr)?.[0];
    if (corrected !== undefined) throw new Error(`${basename(tarball)}: npm would change it\n${corrected}`);
  }
}

function main(args) {
  const [flag, out, checked, ...more] = args;
  if (flag !== "--out" || out === undefined || ![undefined, "--check"].includes(checked) || more.length > 0) {
    throw new Error("use: node scripts/pack.mjs --out <folder> [--check]");
  }
  const tarballs = pack(resolve(out));
  if (checked !== undefined) check(tarballs);
  for (const tarball of tarballs) console.log(tarball);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    console.error(`heddle pack: ${error.message}`);
    process.exit(1);
  }
}
