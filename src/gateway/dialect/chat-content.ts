/** The content of a chat message, from parts that a dialect has read. */

export type ChatPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string; readonly detail?: string } }

export const TEXT_SEPARATOR = '\n\n'

/** Returns plain text if there is nothing else: not every engine takes lists. */
export function chatContent(parts: readonly ChatPart[]): string | readonly ChatPart[] {
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  return texts.length === parts.length ? texts.join(TEXT_SEPARATOR) : parts
}
