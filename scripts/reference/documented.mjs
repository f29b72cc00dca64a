// A plugin of TypeDoc: a warning, and so an error, for every exported function, class and constant without a docstring, and for
// every method, property and accessor of an exported class. TypeDoc's `validation.notDocumented` would also demand docstrings for
// fields of records that hold functions.

/** The kinds of TypeDoc's `ReflectionKind`. */
const kinds = {
  module: 2,
  namespace: 4,
  variable: 32,
  function: 64,
  class: 128,
  property: 1024,
  method: 2048,
  accessor: 262144,
};
const documentedKinds = {
  module: [kinds.variable, kinds.function, kinds.class],
  class: [kinds.property, kinds.method, kinds.accessor],
};

export function load(app) {
  app.on("validateProject", (project) => {
    // With a single entry point the project is the module.
    for (const name of undocumented(project, [], documentedKinds.module)) app.logger.warn(`${name} has no docstring`);
  });
}

/** Names, with those of the modules and classes around them; re-exports are references to the same object, and have their own kind. */
function undocumented(parent, path, expectedKinds) {
  return (parent.children ?? []).flatMap((child) => {
    const name = [...path, child.name];
    if (child.kind === kinds.module || child.kind === kinds.namespace) return undocumented(child, name, expectedKinds);
    // Inherited members are documented in their class, and members named by symbols are called by the language.
    if (!expectedKinds.includes(child.kind) || child.flags.isInherited || child.name.startsWith("[")) return [];
    const members = child.kind === kinds.class ? undocumented(child, name, documentedKinds.class) : [];
    return isDocumented(child) ? members : [name.join("."), ...members];
  });
}

/** The docstrings of a function are those of its signatures. */
const isDocumented = (reflection) =>
  [reflection, ...(reflection.signatures ?? []), reflection.getSignature, reflection.setSignature].some((part) =>
    part?.hasComment(),
  );
