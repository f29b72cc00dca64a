/** @module All builtin functions of DML, by kind. */

import "./aggregates.ts";
import "./construct.ts";
import "./control.ts";
import "./distributions.ts";
import "./elementwise.ts";
import "./files.ts";
import "./frames.ts";
import "./layers.ts";
import "./lists.ts";
import "./paramserv.ts";
import "./reorganize.ts";
import "./selection.ts";
import "./systems.ts";
