// A plugin of TypeDoc: a warning, and so an error, for every exported function, class and constant without a docstring.
// TypeDoc's own `validation.notDocumented` would ask for one of each method and of each field that holds a function, too.

/** The kinds of TypeDoc's `ReflectionKind`. */
const kinds = { module: 2, namespace: 4, variable: 32, function: 64, class: 128 };

export function load(app) {
  app.on("validateProject", (project) => {
    // Of a single entry point the project is the module.
    for (const name of undocumented(project, [])) app.logger.warn(`${name} has no docstring`);
  });
}

/** Names, with those of the modules around them; re-exports are references to the same thing, and have a kind of their own. */
function undocumented(parent, path) {
  return (parent.children ?? []).flatMap((child) => {
    const name = [...path, child.name];
    if (child.kind === kinds.module || child.kind === kinds.namespace) return undocumented(child, name);
    if (![kinds.variable, kinds.function, kinds.class].includes(child.kind)) return [];
    // The docstring of a function is that of its signatures.
    const documented = [child, ...(child.signatures ?? [])].some((one) => one.hasComment());
    return documented ? [] : [name.join(".")];
  });
}
