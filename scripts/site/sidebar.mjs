// The pages of the site, in the order in which they are read. Every page of docs/ stands here once; its title is its first line.

/** Groups of pages, by their paths from the root. */
export const groups = [
  {
    text: "Begin",
    pages: ["README.md", "examples/README.md"],
  },
  {
    text: "Train",
    pages: ["docs/training.md", "docs/keras.md", "docs/interchange.md", "docs/onnx.md", "docs/pipeline.md"],
  },
  {
    text: "Compute",
    pages: ["docs/library.md", "docs/algebra.md", "docs/dtypes.md", "docs/transforms.md", "docs/autograph.md"],
  },
  {
    text: "Look up",
    pages: ["docs/api/README.md", "docs/glossary.md", "docs/benchmarks.md", "docs/profiling.md", "CHANGELOG.md"],
  },
  {
    text: "Inside",
    pages: [
      "docs/architecture.md",
      "docs/walkthrough.md",
      "docs/extending.md",
      "docs/primitives.md",
      "docs/internals/lowered-program.md",
      "docs/stablehlo.md",
      "docs/dependencies.md",
      "CONTRIBUTING.md",
    ],
  },
];
