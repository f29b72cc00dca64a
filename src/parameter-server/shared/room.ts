/** @module Room for what is under way on a link to a server: what goes beyond it waits for its turn, so a link takes no more memory however much it asks at once. */

/** Bytes that are under way at once. */
const mostUnderWay = 2 ** 28;

/** Bytes that several requests share. */
export class Room {
  private readonly most: number;
  private used = 0;
  private readonly waiting: { readonly bytes: number; readonly enter: () => void }[] = [];

  /** @param most bytes at once; a request with more has all of them to itself. Default 256 MiB */
  constructor(most = mostUnderWay) {
    this.most = most;
  }

  /** Waits for room, in the order of the calls. Resolves with what gives it back, which is called once. */
  async take(bytes: number): Promise<() => void> {
    const own = Math.min(bytes, this.most);
    if (this.waiting.length > 0 || this.used + own > this.most)
      await new Promise<void>((enter) => this.waiting.push({ bytes: own, enter }));
    else this.used += own;
    return () => {
      this.used -= own;
      for (
        let [next] = this.waiting;
        next !== undefined && this.used + next.bytes <= this.most;
        [next] = this.waiting
      ) {
        this.waiting.shift();
        this.used += next.bytes;
        next.enter();
      }
    };
  }
}
