/** A type and a value, to be imported. */
export interface Greeting {
  readonly text: string;
}

export const greeting: Greeting = { text: "hello" };
