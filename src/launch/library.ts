/**
 * @module Loads the library into a worker before hooks are registered, for which Node would ask another thread twice for each module.
 * A user's file gets these modules when it imports them.
 */
import { isMainThread } from "node:worker_threads";

// A thread of a user may not need the library.
if (isMainThread) await import(import.meta.resolve("heddle"));
