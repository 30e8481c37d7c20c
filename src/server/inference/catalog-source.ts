/**
 * The model catalog that the operator has set: a file or a URL, read again from time to time. A copy that cannot be read or
 * is not valid changes nothing: the last good one stays in use, also after a restart, and the problem is reported.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { CatalogSource } from '../../app/app.ts'
import { HOUR_MS, MINUTE_MS } from '../../base/instant.ts'
import { catalogFile, type CatalogFile } from '../../contract/catalog.ts'
import { issueText } from '../../contract/issue-text.ts'
import { builtInCatalog } from '../../domain/built-in-catalog.ts'

const MAX_BYTES = 4_000_000
const READ_FILE_EVERY_MS = MINUTE_MS
const READ_URL_EVERY_MS = HOUR_MS
const MAX_ISSUES = 3

export interface CatalogOptions {
  /** A path or an https URL. */
  readonly location: string
  readonly dataDir: string
  readonly readUrl: (url: string, maxBytes: number) => Promise<string>
  readonly warn: (problem: string) => void
}

/** A catalog that keeps itself current until it is closed. */
export class OperatorCatalog implements CatalogSource {
  file: CatalogFile = builtInCatalog
  problem: string | null = null
  readonly source: string
  readonly #options: CatalogOptions
  readonly #timer: NodeJS.Timeout

  private constructor(options: CatalogOptions) {
    this.#options = options
    this.source = options.location
    const everyMs = isUrl(options.location) ? READ_URL_EVERY_MS : READ_FILE_EVERY_MS
    this.#timer = setInterval(() => void this.refresh(), everyMs).unref()
  }

  static async open(options: CatalogOptions): Promise<OperatorCatalog> {
    const catalog = new OperatorCatalog(options)
    const copy = parseCatalog(await readFile(catalog.#copyPath, 'utf8').catch(() => ''))
    if ('file' in copy) catalog.file = copy.file
    await catalog.refresh()
    return catalog
  }

  async refresh(): Promise<void> {
    const text = await this.#read().catch((error: unknown) => new Error(messageOf(error)))
    const parsed = text instanceof Error ? { problem: text.message } : parseCatalog(text)
    if ('file' in parsed) {
      this.file = parsed.file
      this.problem = null
      await this.#keepCopy(parsed.file)
    } else if (parsed.problem !== this.problem) {
      this.problem = parsed.problem
      this.#options.warn(parsed.problem)
    }
  }

  close(): void {
    clearInterval(this.#timer)
  }

  get #copyPath(): string {
    return path.join(this.#options.dataDir, 'catalog.json')
  }

  async #read(): Promise<string> {
    const { location, readUrl } = this.#options
    return isUrl(location) ? readUrl(location, MAX_BYTES) : readFile(location, 'utf8')
  }

  /** A crash never leaves half a copy. */
  async #keepCopy(file: CatalogFile): Promise<void> {
    const draft = `${this.#copyPath}.new`
    try {
      await writeFile(draft, JSON.stringify(file))
      await rename(draft, this.#copyPath)
    } catch (error) {
      this.#options.warn(`no copy of the catalog could be kept: ${messageOf(error)}`)
    }
  }
}

function parseCatalog(text: string): { readonly file: CatalogFile } | { readonly problem: string } {
  if (text.length > MAX_BYTES) return { problem: `the catalog is larger than ${MAX_BYTES / 1e6} MB` }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { problem: `the catalog is not JSON: ${messageOf(error)}` }
  }
  const parsed = catalogFile.safeParse(value, { error: issueText })
  if (parsed.success) return { file: parsed.data }
  const issues = parsed.error.issues.slice(0, MAX_ISSUES)
  return {
    problem: `the catalog is not valid: ${issues.map((one) => `${one.path.join('.')}: ${one.message}`).join('; ')}`,
  }
}

function isUrl(location: string): boolean {
  return location.startsWith('https://') || location.startsWith('http://')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
