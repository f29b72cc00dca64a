// TypeScript that runs as it is: types, an enum-free module, and an import with a .ts ending.
import { type Greeting, greeting } from "./greeting.ts";

const typed: Greeting = greeting;
console.log(`${typed.text} from rank ${process.env["RANK"]}, ${process.argv.slice(2).join(" ")}`);
