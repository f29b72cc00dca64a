/** @module Pieces of work that join one another without making a cycle. */

/** A piece: what it reads the results of, and what it has become part of. */
export class Joinable<Self extends Joinable<Self>> {
  /** Pieces whose results this one reads; joined ones are found through {@link root}. */
  readonly deps = new Set<Self>();
  private into: Self | undefined;
  /** The last search that came by. */
  private mark = 0;
  private static searches = 0;

  /** The piece that this one is part of by now, in the end. */
  root(): Self {
    let piece = this as unknown as Self;
    while (piece.into !== undefined) piece = piece.into;
    return piece;
  }

  /** Makes another piece part of this one. */
  protected take(other: Self): void {
    for (const dep of other.deps) this.deps.add(dep);
    other.into = this as unknown as Self;
  }

  /** Whether a path of reads leads from this piece to another one through a third: to join the two would make a cycle. */
  reachesThrough(other: Self): boolean {
    const search = ++Joinable.searches;
    const stack = [...this.deps].map((dep) => dep.root()).filter((dep) => dep !== other && dep !== (this as unknown));
    while (stack.length > 0) {
      const piece = stack.pop() as Self;
      if (piece === other) return true;
      if (piece.mark === search) continue;
      piece.mark = search;
      for (const dep of piece.deps) {
        const root = dep.root();
        if (root.mark !== search) stack.push(root);
      }
    }
    return false;
  }
}
