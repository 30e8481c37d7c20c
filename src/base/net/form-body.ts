/** A body of kind `multipart/form-data`: fields, and one file that is not copied. */

interface FormFilePart {
  readonly field: string
  /** A field name without characters that a header cannot contain. */
  readonly name: string
  readonly type: string
  readonly bytes: Uint8Array
}

interface FormBody {
  readonly contentType: string
  readonly parts: readonly Uint8Array[]
}

/** `boundary`: a text that no field and no file contains. */
export function formBody(fields: Readonly<Record<string, string>>, file: FormFilePart, boundary: string): FormBody {
  const head = Object.entries(fields)
    .map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
    .join('')
  const fileHead = `--${boundary}\r\nContent-Disposition: form-data; name="${file.field}"; filename="${file.name}"\r\nContent-Type: ${file.type}\r\n\r\n`
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    parts: [Buffer.from(head + fileHead), file.bytes, Buffer.from(`\r\n--${boundary}--\r\n`)],
  }
}
