// A plugin of TypeDoc: `@module` opens a file with a sentence about it. TypeDoc takes that sentence for the module's name;
// here the name is the subpath that users import, and the sentence its description.

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
      const folder = reflection.name.replace(/(^|\/)index$/, "");
      reflection.name = folder === "" ? "heddle" : `heddle/${folder}`;
    },
    // Before TypeDoc's own reading of the tag.
    1000,
  );
}
