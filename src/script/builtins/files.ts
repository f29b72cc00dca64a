/** @module Builtins that read and write files. */

import { builtin } from "../builtin.ts";
import { readFileValue, writeFileValue } from "../files.ts";

builtin(
  "read",
  "file data_type? value_type? format? rows? cols? nnz? header? sep? schema? fill? default? na.strings?",
  "the value of a file; what is not said here is taken from the file FILE.mtd",
  (args, host) =>
    readFileValue(host.path(args.text("file")), {
      format: args.has("format") ? args.text("format") : undefined,
      dataType: args.has("data_type") ? args.text("data_type") : undefined,
      valueType: args.has("value_type") ? args.text("value_type") : undefined,
      rows: args.has("rows") ? args.int("rows") : undefined,
      columns: args.has("cols") ? args.int("cols") : undefined,
      header: args.has("header") ? args.flag("header") : undefined,
      separator: args.has("sep") ? args.text("sep") : undefined,
      schema: args.has("schema") ? args.text("schema") : undefined,
    }),
);
builtin(
  "write",
  "X file format? header? sep? sparse? description?",
  "writes a value, and what its file FILE.mtd says about it",
  (args, host) => {
    writeFileValue(host.path(args.text("file")), args.value("X"), {
      format: args.text("format", "text"),
      header: args.flag("header"),
      separator: args.text("sep", ","),
    });
    return [];
  },
);
