/**
 * Bodies of kind `multipart/form-data`: fields, and one file that is streamed to its consumer as it arrives. The
 * consumer slows the client down. The fields are complete only after the file, since clients send them in any order.
 */
import type { IncomingMessage } from 'node:http'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { limits } from '../../base/limits.ts'
import { contained } from '../../base/net/contained.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'

export interface FormFile {
  readonly name: string
  /** Fails if the client goes away, is silent for too long, or sends too much. */
  readonly content: AsyncIterable<Buffer>
}

export interface Form<T> {
  /**
   * The field `expires_after[seconds]` becomes the member `seconds` of `expires_after`, and `kinds[]` an item of the list
   * `kinds`. The file's field has the name of the file.
   */
  readonly fields: Readonly<Record<string, unknown>>
  /** undefined: the form has no file. */
  readonly file: T | undefined
}

export interface FormOptions {
  /** The field of the file. */
  readonly fileField: string
  readonly maxBytes: number
}

const MAX_FIELDS = 20
const MAX_FIELD_BYTES = 65_536
const MAX_NAME_BYTES = 100
const MAX_HEADER_BYTES = 16_384

class UploadEnded extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.message)
    this.failure = failure
  }
}

function isMultipart(request: Pick<IncomingMessage, 'headers'>): boolean {
  return /^multipart\/form-data *;/i.test(request.headers['content-type'] ?? '')
}

/** `take` reads the file to its end, or returns a failure. */
export async function readForm<T>(
  request: IncomingMessage,
  options: FormOptions,
  take: (file: FormFile) => Promise<Result<T>>,
): Promise<Result<Form<T>>> {
  if (!isMultipart(request)) return fail('not_multipart')
  try {
    return await new FormReader(request, options, take).read()
  } catch (error) {
    if (error instanceof UploadEnded) return error.failure
    throw error
  } finally {
    request.resume()
  }
}

class FormReader<T> {
  readonly #request: IncomingMessage
  readonly #options: FormOptions
  readonly #take: (file: FormFile) => Promise<Result<T>>
  readonly #fields: Record<string, unknown> = Object.create(null) as Record<string, unknown>
  #taking: Promise<Result<T>> | undefined
  #stream: BusboyFileStream | undefined

  constructor(request: IncomingMessage, options: FormOptions, take: (file: FormFile) => Promise<Result<T>>) {
    this.#request = request
    this.#options = options
    this.#take = take
  }

  async read(): Promise<Result<Form<T>>> {
    const parser = this.#openParser()
    const silence = setTimeout(() => this.#request.destroy(), limits.uploadIdleMs).unref()
    let isReading = true
    const cut = (): unknown => this.#request.destroy()
    this.#request.on(
      'data',
      contained(cut, () => isReading && silence.refresh()),
    )
    try {
      await this.#parse(parser)
    } catch (error) {
      // The consumer has to see the end before anybody else learns of it.
      this.#stream?.destroy(error as Error)
      const stored = await this.#taking?.catch(() => undefined)
      if (stored !== undefined && !stored.ok) return stored
      throw error
    } finally {
      isReading = false
      clearTimeout(silence)
    }
    const stored = await this.#taking
    if (stored === undefined) return ok({ fields: this.#fields, file: undefined })
    return stored.ok ? ok({ fields: this.#fields, file: stored.value }) : stored
  }

  #openParser(): BusboyInstance {
    const { headers } = this.#request
    try {
      return new Busboy({
        headers: { ...headers, 'content-type': headers['content-type'] ?? '' },
        limits: {
          fields: MAX_FIELDS,
          fieldSize: MAX_FIELD_BYTES,
          fieldNameSize: MAX_NAME_BYTES,
          files: 1,
          fileSize: this.#options.maxBytes + 1,
          headerSize: MAX_HEADER_BYTES,
        },
      })
    } catch {
      // The boundary is missing or malformed.
      throw new UploadEnded(fail('bad_multipart'))
    }
  }

  #parse(parser: BusboyInstance): Promise<void> {
    const request = this.#request
    return new Promise<void>((resolve, reject) => {
      const end = (failure: Failure): void => {
        request.unpipe(parser)
        reject(new UploadEnded(failure))
      }
      parser.on('field', (name, value) => setMember(this.#fields, name, value))
      parser.on('file', (field, stream, name) => {
        if (field !== this.#options.fileField) return end(fail('bad_multipart'))
        setMember(this.#fields, field, name ?? '')
        this.#stream = stream
        // The consumer may have read all of the file before the form turns out to be broken.
        stream.on('error', () => {})
        stream.once('limit', () => end(fail('body_too_large')))
        this.#taking = this.#take({ name: name ?? '', content: stream })
        void this.#taking.then(
          (stored) => (stored.ok ? undefined : end(stored)),
          (error: unknown) => reject(error instanceof Error ? error : new Error(String(error))),
        )
      })
      for (const limit of ['fieldsLimit', 'filesLimit', 'partsLimit'] as const) {
        parser.on(limit, () => end(fail('bad_multipart')))
      }
      parser.once('error', () => end(fail('bad_multipart')))
      parser.once('finish', () => resolve())
      request.once('close', () => {
        if (!request.complete) end(fail('bad_request'))
      })
      if (request.destroyed && !request.complete) return end(fail('bad_request'))
      request.pipe(parser)
    })
  }
}

/** Sets a member. The first value counts, so that a field cannot be hidden behind another. */
function setMember(fields: Record<string, unknown>, name: string, value: string): void {
  const [, list] = /^(\w+)\[\]$/.exec(name) ?? []
  if (list !== undefined) {
    const items = (fields[list] ??= [])
    if (Array.isArray(items)) items.push(value)
    return
  }
  const [, outer, inner] = /^(\w+)\[(\w+)\]$/.exec(name) ?? []
  if (outer === undefined || inner === undefined) {
    fields[name] ??= value
    return
  }
  const object = (fields[outer] ??= Object.create(null)) as unknown
  if (typeof object === 'object' && object !== null) (object as Record<string, unknown>)[inner] ??= value
}
