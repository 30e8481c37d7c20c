/** The lines of an input file: what each must be, and what is wrong with one. */
import { decodeUtf8 } from '../../base/json.ts'
import { limits } from '../../base/limits.ts'
import { sha256 } from '../../base/id.ts'
import { api } from '../../contract/api.ts'
import { batchOperations, type BatchFault, type BatchPath } from '../../contract/batch-state.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import { validate } from '../http/validation.ts'
import type { InputLine } from './input-file.ts'
import type { BatchRequest } from './line-answer.ts'

const MAX_ID_CHARS = 512

type Parsed = { readonly request: BatchRequest } | { readonly fault: Omit<BatchFault, 'line'> }

/** The request of a line, or the first thing that is wrong with it. */
export function parseLine(bytes: Buffer | undefined, path: BatchPath): Parsed {
  if (bytes === undefined) return faultOf('line_too_long', `At most ${limits.inferenceBodyBytes} bytes`)
  const value = readJson(bytes)
  if (value === undefined) return faultOf('invalid_json_line', 'Not a JSON object')
  const { custom_id: customId, method, url, body, ...others } = value
  if (typeof customId !== 'string' || customId === '' || customId.length > MAX_ID_CHARS) {
    return faultOf('invalid_custom_id', `Must be a text of 1 to ${MAX_ID_CHARS} characters`, 'custom_id')
  }
  if (method !== undefined && method !== 'POST') return faultOf('invalid_method', 'Must be POST', 'method')
  if (url !== path) return faultOf('mismatched_url', `Must be ${path}, as the batch has it`, 'url')
  const [more] = Object.keys(others)
  if (more !== undefined) return faultOf('unknown_field', 'Not known', more)
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return faultOf('invalid_request', 'Must be an object', 'body')
  }
  const request = body as Record<string, unknown>
  if (typeof request['model'] !== 'string') return faultOf('missing_model', 'Must have a model', 'body.model')
  if (request['stream'] === true) return faultOf('invalid_request', 'Batches are not streamed', 'body.stream')
  const endpoint: Endpoint = api[batchOperations[path]]
  const checked = validate(endpoint.body, request)
  if (checked.ok) return { request: { customId, body: request, bodyBytes: bytes.length } }
  const [issue] = checked.issues
  return faultOf('invalid_request', issue?.message ?? 'Not valid', ['body', ...(issue?.path ?? [])].join('.'))
}

function faultOf(code: string, message: string, param: string | null = null): Parsed {
  return { fault: { code, message, param } }
}

function readJson(bytes: Buffer): Record<string, unknown> | undefined {
  const text = decodeUtf8(bytes)
  if (text === undefined) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** Collects the faults of a file. Custom ids are remembered as digests: fifty thousand of any length take a few megabytes. */
export class InputCheck {
  readonly faults: BatchFault[] = []
  readonly #path: BatchPath
  readonly #ids = new Set<string>()
  #model: string | undefined

  constructor(path: BatchPath) {
    this.#path = path
  }

  get lines(): number {
    return this.#ids.size
  }

  /** undefined: no line has one. */
  get model(): string | undefined {
    return this.#model
  }

  /** Further faults would not be shown. */
  get isFull(): boolean {
    return this.faults.length >= limits.batchFaults || this.lines > limits.batchLines
  }

  take({ place: { line }, bytes }: InputLine): void {
    const parsed = parseLine(bytes, this.#path)
    if ('fault' in parsed) return void this.faults.push({ ...parsed.fault, line })
    const { customId, body } = parsed.request
    const digest = sha256(customId).toString('latin1', 0, 16)
    const fault = this.#ids.has(digest)
      ? { code: 'duplicate_custom_id', message: 'Another line has it', param: 'custom_id' }
      : this.#faultOfModel(body['model'] as string)
    this.#ids.add(digest)
    if (fault !== undefined) this.faults.push({ ...fault, line })
    if (this.lines > limits.batchLines) {
      const message = `At most ${limits.batchLines} lines`
      this.faults.push({ code: 'too_many_lines', line: null, message, param: 'input_file_id' })
    }
  }

  /** The file ends: it may be wrong as a whole. */
  end(): void {
    if (this.lines === 0 && this.faults.length === 0) {
      this.faults.push({ code: 'empty_file', line: null, message: 'The file has no lines', param: 'input_file_id' })
    }
  }

  #faultOfModel(model: string): Omit<BatchFault, 'line'> | undefined {
    this.#model ??= model
    if (model === this.#model) return undefined
    return { code: 'mismatched_model', message: 'All lines must have the same model', param: 'body.model' }
  }
}
