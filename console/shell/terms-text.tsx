/** Plain text of terms: an empty line separates paragraphs, and line breaks inside them stay. */
export function TermsText({ body }: { body: string }) {
  const paragraphs = body.split(/\n\s*\n/).filter((text) => text.trim() !== '')
  return (
    <div className="flex flex-col gap-3 text-sm">
      {paragraphs.map((text, at) => (
        // A version never changes, so the position is a key.
        <p key={at} className="break-words whitespace-pre-line">
          {text.trim()}
        </p>
      ))}
    </div>
  )
}
