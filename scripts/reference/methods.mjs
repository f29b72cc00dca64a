// A plugin of TypeDoc: methods that are made of functions (src/functions/methods.ts) have the docstrings and the parameters of those functions,
// as editors show them; TypeDoc finds only some docstrings by itself, and says `...rest` of the parameters.

/** `ReflectionKind`'s numbers. */
const kinds = { function: 64, class: 128 };

export function load(app) {
  app.converter.on("resolveBegin", ({ project }) => {
    for (const module of project.children ?? []) {
      const functions = new Map(
        (module.children ?? []).filter(({ kind }) => kind === kinds.function).map((child) => [child.name, child]),
      );
      const classes = (module.children ?? []).filter(({ kind }) => kind === kinds.class);
      for (const member of classes.flatMap((one) => one.children ?? [])) document(functions.get(member.name), member);
    }
  });
}

function document(from, to) {
  // A function by its type, as those of a mapped type are.
  const [held] = to.type?.declaration?.signatures ?? [];
  if (held === undefined) return;
  const [said] = from?.signatures ?? [];
  // The first is the object itself.
  if (said !== undefined) held.parameters = said.parameters?.slice(1);
  else if (held.parameters?.[0]?.type?.elements?.length === 0) held.parameters = [];
  if (said?.comment !== undefined && !to.hasComment()) to.comment = said.comment.clone();
}
