// A plugin of TypeDoc: methods that are made of functions (src/functions/methods.ts) get the docstrings and the parameters of those functions,
// as in editors; TypeDoc itself finds only some docstrings, and shows the parameters as `...rest`.

/** `ReflectionKind`'s numbers. */
const kinds = { function: 64, class: 128 };

export function load(app) {
  app.converter.on("resolveBegin", ({ project }) => {
    for (const module of project.children ?? []) {
      const functions = new Map(
        (module.children ?? []).filter(({ kind }) => kind === kinds.function).map((child) => [child.name, child]),
      );
      const classes = (module.children ?? []).filter(({ kind }) => kind === kinds.class);
      for (const member of classes.flatMap((reflection) => reflection.children ?? []))
        document(functions.get(member.name), member);
    }
  });
}

function document(from, to) {
  // A property whose type is a function, as in a mapped type.
  const [targetSignature] = to.type?.declaration?.signatures ?? [];
  if (targetSignature === undefined) return;
  const [sourceSignature] = from?.signatures ?? [];
  // The first parameter is the object itself.
  if (sourceSignature !== undefined) targetSignature.parameters = sourceSignature.parameters?.slice(1);
  else if (targetSignature.parameters?.[0]?.type?.elements?.length === 0) targetSignature.parameters = [];
  if (sourceSignature?.comment !== undefined && !to.hasComment()) to.comment = sourceSignature.comment.clone();
}
