// A plugin of TypeDoc: a warning, and so an error, for every exported function, class and constant without a docstring, and for
// every method, property and accessor of an exported class. TypeDoc's own `validation.notDocumented` would ask for one of each field
// of a record that holds a function, too.

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
const within = {
  module: [kinds.variable, kinds.function, kinds.class],
  class: [kinds.property, kinds.method, kinds.accessor],
};

export function load(app) {
  app.on("validateProject", (project) => {
    // Of a single entry point the project is the module.
    for (const name of undocumented(project, [], within.module)) app.logger.warn(`${name} has no docstring`);
  });
}

/** Names, with those of the modules and classes around them; re-exports are references to the same thing, and have a kind of their own. */
function undocumented(parent, path, asked) {
  return (parent.children ?? []).flatMap((child) => {
    const name = [...path, child.name];
    if (child.kind === kinds.module || child.kind === kinds.namespace) return undocumented(child, name, asked);
    // What is inherited is documented where it comes from, and what has a symbol for its name is called by the language.
    if (!asked.includes(child.kind) || child.flags.isInherited || child.name.startsWith("[")) return [];
    const members = child.kind === kinds.class ? undocumented(child, name, within.class) : [];
    return isDocumented(child) ? members : [name.join("."), ...members];
  });
}

/** The docstring of a function is that of its signatures. */
const isDocumented = (one) =>
  [one, ...(one.signatures ?? []), one.getSignature, one.setSignature].some((part) => part?.hasComment());
