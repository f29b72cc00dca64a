/** Joins a mesh that differs between the ranks, or counts other ranks, as the first argument says. */
import { connect, mesh } from "heddle";

const [differs] = process.argv.slice(2);
const second = process.env["RANK"] === "1";
if (differs === "sizes" && second) process.env["WORLD_SIZE"] = "3";
if (differs === "order") {
  // Two meshes at once, in another order on each rank, are no difference.
  const both = [mesh({ data: 2 }), mesh({ model: 2 })];
  const [first, last] = second ? both : both.reverse();
  await Promise.all([connect(first), connect(last)]);
} else await connect(differs === "meshes" ? mesh(second ? { model: 2 } : { data: 2 }) : undefined);
console.log("joined");
process.exit(0);
