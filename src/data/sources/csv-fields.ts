/** @module The fields of a record of CSV: where they begin and end in the bytes, with quotes and line ends of both kinds. */

/** Columns of a file, at most. */
const mostColumns = 2 ** 16;
const [quoteCode, lineFeed, carriageReturn] = [0x22, 0x0a, 0x0d];

/** The fields of one record, as places in the bytes. */
export class Fields {
  count = 0;
  starts = new Int32Array(64);
  ends = new Int32Array(64);
  /** 1 for a quoted field, 2 where it has doubled quotes. */
  quoted = new Uint8Array(64);
  /** Line ends within the record. */
  lines = 0;
  /** Why the record is malformed, if it is. */
  problem: string | undefined;

  private grow(): void {
    const grown = <Kind extends Int32Array | Uint8Array>(from: Kind, to: Kind): Kind => {
      to.set(from as never);
      return to;
    };
    this.starts = grown(this.starts, new Int32Array(this.starts.length * 2));
    this.ends = grown(this.ends, new Int32Array(this.ends.length * 2));
    this.quoted = grown(this.quoted, new Uint8Array(this.quoted.length * 2));
  }

  /** Finds the fields of the record at `from`; gives where the next begins, or -1 if the record may go on after the bytes. */
  find(bytes: Uint8Array, from: number, to: number, separator: number, isLast: boolean): number {
    let at = from;
    this.count = 0;
    this.lines = 1;
    this.problem = undefined;
    for (;;) {
      if (this.count === this.starts.length) {
        if (this.count >= mostColumns) this.problem = `it has more than ${mostColumns} fields`;
        else this.grow();
      }
      // A record with too many fields is passed over with one place for all of them.
      const field = Math.min(this.count++, this.starts.length - 1);
      if (at < to && bytes[at] === quoteCode) {
        at = this.findQuoted(bytes, at, to, field, isLast);
        if (at < 0) return -1;
        const code = bytes[at];
        if (at < to && code !== separator && code !== lineFeed && code !== carriageReturn) {
          this.problem ??= "a quoted field goes on after its quote";
          while (at < to && bytes[at] !== separator && bytes[at] !== lineFeed) at++;
        }
      } else {
        this.starts[field] = at;
        this.quoted[field] = 0;
        for (; at < to; at++) {
          const code = bytes[at];
          if (code === separator || code === lineFeed || code === carriageReturn) break;
        }
        this.ends[field] = at;
      }
      if (at >= to) return isLast ? to : -1;
      if (bytes[at] === separator) {
        at++;
        continue;
      }
      if (bytes[at] === lineFeed) return at + 1;
      // A carriage return ends the record, with a line feed or alone.
      if (at + 1 >= to && !isLast) return -1;
      return bytes[at + 1] === lineFeed && at + 1 < to ? at + 2 : at + 1;
    }
  }

  private findQuoted(bytes: Uint8Array, open: number, to: number, field: number, isLast: boolean): number {
    let at = open + 1;
    this.starts[field] = at;
    this.quoted[field] = 1;
    for (; at < to; at++) {
      const code = bytes[at];
      if (code === lineFeed) this.lines++;
      if (code !== quoteCode) continue;
      if (at + 1 >= to && !isLast) return -1;
      if (at + 1 < to && bytes[at + 1] === quoteCode) {
        this.quoted[field] = 2;
        at++;
        continue;
      }
      this.ends[field] = at;
      return at + 1;
    }
    if (!isLast) return -1;
    this.problem = "a quote is left open";
    this.ends[field] = to;
    return to;
  }

  text(bytes: Buffer, field: number): string {
    const text = bytes.toString("utf8", this.starts[field], this.ends[field]);
    return this.quoted[field] === 2 ? text.replaceAll('""', '"') : text;
  }
}
