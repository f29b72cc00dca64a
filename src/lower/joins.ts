/** @module Joins of pieces of work that never make a cycle. */

/** A piece of work, the pieces whose results it reads, and the piece that it has joined. */
export class Joinable<Self extends Joinable<Self>> {
  /** Pieces whose results this piece reads; {@link root} maps them to the pieces that they have joined. */
  readonly deps = new Set<Self>();
  private into: Self | undefined;
  /** The number of the last search that visited the piece. */
  private mark = 0;
  private static searches = 0;

  /** The piece that this piece has joined, directly or through others; itself if none. */
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

  /**
   * Whether a path of reads leads from this piece to another through a third piece, so that joining the two would make a cycle.
   */
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
