// A plugin of TypeDoc: methods that are made of functions (src/tensor/methods.ts) have the docstrings of those functions, which editors
// show; TypeDoc finds only some of them by itself.

/** `ReflectionKind`'s numbers. */
const kinds = { function: 64, class: 128 };

export function load(app) {
  app.converter.on("resolveBegin", ({ project }) => {
    for (const module of project.children ?? []) {
      const functions = new Map(
        (module.children ?? []).filter(({ kind }) => kind === kinds.function).map((child) => [child.name, child]),
      );
      const classes = (module.children ?? []).filter(({ kind }) => kind === kinds.class);
      for (const member of classes.flatMap((one) => one.children ?? []))
        copyComment(functions.get(member.name), member);
    }
  });
}

function copyComment(from, to) {
  const comment = from?.signatures?.[0]?.comment;
  // A function by its type, as those of a mapped type are.
  const [held] = to.type?.declaration?.signatures ?? [];
  const target = to.signatures?.[0] ?? (held && to);
  if (comment !== undefined && target !== undefined && !target.hasComment()) target.comment = comment.clone();
}
