// A plugin of TypeDoc: `@module` opens a file with a sentence about it. TypeDoc takes that sentence for the module's name;
// here the name is the subpath that users import, and the sentence its description.
import { readFileSync } from "node:fs";

const { exports } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
const folderOf = (file) => file.replace(/^\.\/src\//, "").replace(/(^|\/)index(\.ts)?$/, "");

/** What users import, by its folder below src. */
const names = new Map(
  Object.entries(exports).map(([name, entry]) => [
    folderOf(entry["heddle-source"] ?? name),
    name.replace(".", "heddle"),
  ]),
);

/** `ReflectionKind.Module`; a namespace (`export * as random`) keeps its name. */
const moduleKind = 2;

export function load(app) {
  app.converter.on(
    "createDeclaration",
    (_context, reflection) => {
      const tag = reflection.comment?.getTag("@module");
      if (tag === undefined) return;
      reflection.comment.summary = tag.content;
      reflection.comment.removeTags("@module");
      if (reflection.kind !== moduleKind) return;
      // TypeDoc starts with the path of the file below src.
      reflection.name = names.get(folderOf(reflection.name)) ?? reflection.name;
    },
    // Before TypeDoc's own reading of the tag.
    1000,
  );
}
